//! SPNEGO (RFC 4178 with MS-SPNG): the wrapper in which both sides pick a mechanism.
//!
//! Start with [`parse`], which reads any token, and [`hint`], what a server says first. [`crate::Acceptor`]
//! and [`crate::Initiator`] hold the rules of the exchange.

mod der;
mod token;

pub use token::{
    BadToken, KERBEROS, MAX_MECHS, MAX_TOKEN_LEN, NTLMSSP, NegState, NegTokenInit, NegTokenResp, Token, hint,
    mech_list, parse,
};
