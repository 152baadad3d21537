//! The parts of a share. Each has fields of its own that nothing else reaches, but for `file` and `trail`: these two are records that
//! operations lock and change. A part knows the values and those parts that stand above it in this table; what it needs of others
//! it is given.
//!
//! | part | what it keeps |
//! |---|---|
//! | `names` | directories on the way and what they list, what is remembered of names and files, up to when the host was heard |
//! | `file`, `trail`, `open_files` | what is kept of a file while anybody has it open; the links by which it was come to; the table of them, how many opens there are, what was told of files |
//! | `rights` | where caching rights are, and which are not given for a while |
//! | `waits` | requests that wait, until when, and who is told |
//! | `watched_tree`, `watching` | watches, and what the host tells of for their sake |
//! | `lasting` | recorded opens, opens whose clients are gone, and who ends those |
//! | `limiting`, `counting` | what the share may do a second, and what it has done |

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
