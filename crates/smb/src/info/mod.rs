//! What is known of a file, between the engine's values and the structures of MS-FSCC 2.4: one place for
//! each mapping, used by QUERY_DIRECTORY, QUERY_INFO and SET_INFO alike.
//!
//! [`Shown`] is a file as the classes of fixed size tell it, [`names`] its path, [`posix`] what the POSIX
//! extensions add, and [`Kept`] what belongs to an Open and to no file.

mod kept;
pub(crate) mod names;
pub(crate) mod posix;
mod shown;

pub(crate) use kept::Kept;
pub(crate) use shown::Shown;
