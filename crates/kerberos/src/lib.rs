//! Layer 2: Kerberos by MIT's GSSAPI, which is loaded at run time, and the PAC of a ticket.
//!
//! [`pac`] parses the authorization data that Active Directory puts into a ticket (MS-PAC). It parses
//! hostile bytes and never panics.

pub mod pac;
