//! From a name or an address to its target.
//!
//! | file | subject |
//! |---|---|
//! | `name` | one name in a directory |
//! | `item` | a found object that is not open |
//! | `walk`, `followed` | paths, and the links on them |
//! | `symlinks` | the symbolic links that may be created |
//! | `removal` | the reasons that keep a name from being removed |

pub(crate) mod followed;
pub(crate) mod item;
pub(crate) mod name;
pub(crate) mod removal;
pub(crate) mod symlinks;
pub(crate) mod walk;
