//! SPNEGO (RFC 4178 with MS-SPNG): the wrapper with which both sides choose a mechanism.
//!
//! Start with [`parse`], which reads any token, and [`hint`], the first token of a server.
//! [`crate::Acceptor`] and [`crate::Initiator`] have the rules of the exchange.

mod der;
mod token;

pub use token::{
    BadToken, KERBEROS, MAX_MECHS, MAX_TOKEN_LEN, MS_KERBEROS, NTLMSSP, NegState, NegTokenInit, NegTokenResp,
    Token, hint, is_kerberos, mech_list, parse,
};
