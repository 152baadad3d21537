//! Who may do what: security identifiers, rights, access control lists and descriptors, the access
//! check, and what a new object inherits. Pure functions over values; nothing here touches a volume.
//!
//! Start with [`Descriptor`] (what is stored with a node), [`Token`] (who asks) and [`granted`] (the
//! answer). [`inherit`] makes the descriptor of a new node, [`amend`] changes a stored one,
//! [`from_mode`] and [`mode_of`] translate to and from the host's permission bits, [`posix`] to and from its lists;
//! [`computed_mode`] and [`apply_mode`] are the mode that belongs to a list.
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
