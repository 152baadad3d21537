//! The parts of a share. The fields of a part are private to it, except in `file` and `trail`: these two are
//! records that operations lock and change. A part knows the values and the parts above it in this table. It
//! is given all it needs of others.
//!
//! | part | contents |
//! |---|---|
//! | `names` | directories on paths, their listings, and the cache of names and files |
//! | `file`, `trail` | the state of a file while it is open; the links by which it was reached |
//! | `open_files` | the table of open files, the number of opens, and the versions given out |
//! | `rights` | the files with caching rights, and those that get none for a while |
//! | `waits` | requests that wait, their deadlines, and the clients to notify |
//! | `watched_tree`, `watching` | watches, and the host's events for them |
//! | `lasting` | recorded opens, opens whose clients are gone, and the callbacks that end those |
//! | `limiting`, `counting` | the provisioned limits of the share, and its counters |

pub(crate) mod counting;
pub(crate) mod file;
pub(crate) mod lasting;
pub(crate) mod limiting;
pub(crate) mod names;
pub(crate) mod open_files;
pub(crate) mod rights;
pub(crate) mod trail;
pub(crate) mod waits;
pub(crate) mod watched_tree;
pub(crate) mod watching;
