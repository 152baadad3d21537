//! The parts of a share. The fields of a part are private to it, except in `file` and `followed_links`: these
//! two are records that operations lock and change. A part knows the values and the parts above it in this
//! table. It is given all it needs of others.
//!
//! | part | contents |
//! |---|---|
//! | `names` | directories on paths, their listings, and the cache of names and files |
//! | `file`, `followed_links` | the state of a file while it is open; the links by which it was reached |
//! | `open_files` | the table of open files, the number of opens, and the versions given out |
//! | `rights` | the files with caching rights, and those that get none for a while |
//! | `waits` | requests that wait, their deadlines, and the clients to notify |
//! | `watched_tree`, `watches` | watches, and the host's events for them |
//! | `persistence` | recorded opens, opens whose clients are gone, and the callbacks that end those |
//! | `recycle_bin` | the counters of the recycle folder, and the search for the files in it |
//! | `limits`, `counters` | the provisioned limits of the share, and its counters |
//! | `audit` | the selection of audit events |

pub(crate) mod audit;
pub(crate) mod counters;
pub(crate) mod file;
pub(crate) mod followed_links;
pub(crate) mod limits;
pub(crate) mod names;
pub(crate) mod open_files;
pub(crate) mod persistence;
pub(crate) mod recycle_bin;
pub(crate) mod rights;
pub(crate) mod waits;
pub(crate) mod watched_tree;
pub(crate) mod watches;
