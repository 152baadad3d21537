//! Layer 3: one identity for a principal, a SID, a uid, a gid and a name.
//!
//! Start with [`Resolver`]: it asks the sources in order and remembers what they say. [`mapping`] is the way
//! from SIDs to uids and gids, [`names`] that from texts to accounts. [`host`] is the host's own user
//! database, [`ldap`] the directory, [`bounded_calls`] runs what may hang, [`winbind`] the daemon that judges
//! the NTLM responses of its users.
//!
//! Whichever way a person is found, the record has the same SID, uid and principal. `tests/model.rs` says so.

mod account;
pub mod bounded_calls;
mod cache;
mod clock;
mod error;
pub mod host;
mod interner;
pub mod ldap;
mod local;
pub mod mapping;
pub mod names;
mod quota;
mod resolver;
mod source;
mod sync;
pub mod winbind;

pub use account::{AccountOrigin, Group, GroupIds, User};
pub use cache::CacheLimits;
pub use clock::{Clock, HostClock, ManualClock};
pub use error::IdentityError;
pub use local::{LocalUser, LocalUsers};
pub use names::{AccountKey, Domain, Domains};
pub use resolver::{Found, PacLogon, Resolver, Settings, TicketLogon};
pub use source::{AccountSource, Resting, SilenceScope, Silent, SourceGroup, SourceUser};
