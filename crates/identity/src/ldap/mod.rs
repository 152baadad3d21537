//! The directory by LDAP: Active Directory's users and groups, signed and sealed by Kerberos or over TLS.
//!
//! [`LdapDirectory`] is the source for the resolver. [`connection`] is one connection, `transport` the
//! stream below it, and [`message`] the bytes.

mod ber;
pub mod connection;
mod directory;
pub mod message;
#[cfg(test)]
mod tests;
mod transport;
mod trusted;

pub use ber::BerError;
pub use directory::{DomainController, LdapDirectory, LdapSettings, Locator};
pub use transport::LdapTls;
pub use trusted::LdapDomains;
