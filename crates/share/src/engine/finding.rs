//! From a name or an address to what it leads to.
//!
//! | file | subject |
//! |---|---|
//! | `look_up` | one name in a directory |
//! | `item` | what was found and is not open |
//! | `walk`, `followed` | paths, and the links on them |
//! | `symlinks` | which symbolic links may be made |
//! | `removal` | what keeps a name from being removed |

pub(crate) mod followed;
pub(crate) mod item;
pub(crate) mod look_up;
pub(crate) mod removal;
pub(crate) mod symlinks;
pub(crate) mod walk;
