//! The directory by LDAP: Active Directory's users and groups, signed and sealed.
//!
//! [`LdapDirectory`] is the source for the resolver. [`connection`] is one connection, [`message`] the bytes.

mod ber;
pub mod connection;
mod directory;
pub mod message;
#[cfg(test)]
mod tests;

pub use ber::BerError;
pub use directory::{DomainController, LdapDirectory, LdapSettings, Locator};
