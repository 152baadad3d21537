//! Layer 2: Kerberos by MIT's GSSAPI, which is loaded at run time, and the PAC of a ticket.
//!
//! [`Library::load`] finds the library of the host. A server makes [`AcceptorCredentials`] from its keytab
//! and one [`AcceptorContext`] for each log-on. A client makes [`InitiatorCredentials`] and an
//! [`InitiatorContext`]. Failures are [`GssError`]s, which say what is wrong and what mends it.
//!
//! [`pac`] parses the authorization data that Active Directory puts into a ticket (MS-PAC). It parses
//! hostile bytes and never panics. So does [`ap_req`], which looks at a client's first token.

mod acceptor;
pub mod ap_req;
mod credentials;
mod encryption_type;
mod error;
mod initiator;
#[allow(unsafe_code)]
mod library;
pub mod pac;
#[allow(unsafe_code)]
mod shared_library;

pub use acceptor::{Accepted, AcceptorContext, Client, PacData};
pub use credentials::{AcceptorCredentials, InitiatorCredentials, TicketSource};
pub use encryption_type::EncryptionType;
pub use error::{Cause, GssError};
pub use initiator::{Initiated, InitiatorContext};
pub use library::{Library, NotInstalled};
pub use shared_library::{SharedLibrary, skip_destructors_at_exit};
