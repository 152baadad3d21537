//! Access control: security identifiers, rights, access control lists and descriptors, the access check,
//! and inheritance by new objects. All are pure functions over values; nothing here touches a volume.
//!
//! Start with [`Descriptor`] (the rules that are stored with a node), [`Token`] (the identity that
//! requests access) and [`granted`] (the access check). [`inherit()`] makes the descriptor of a new node,
//! and [`amend`] changes a stored one. [`from_mode`] and [`mode_of`] translate to and from the host's
//! permission bits, [`posix`] to and from its lists. [`computed_mode`] and [`apply_mode`] are the mode
//! that belongs to a list.
//!
//! MS-DTYP 2.4 defines the values, MS-DTYP 2.5.3 the algorithms.

mod acl;
mod check;
mod descriptor;
mod inherit;
mod mode;
pub mod posix;
mod rights;
mod sid;

pub use acl::{Ace, AceFlags, AceKind, Acl};
pub use check::{Denied, Privileges, Token, from_parent, granted};
pub use descriptor::{Control, Descriptor, MAX_DESCRIPTOR, Malformed, Parts};
pub use inherit::{amend, give_to, inherit};
pub use mode::{apply_mode, computed_mode, from_mode, limit_to_mode, mode_of};
pub use rights::Rights;
pub use sid::{BadSid, Sid, well_known};
