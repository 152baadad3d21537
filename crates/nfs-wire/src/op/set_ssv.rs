//! SET_SSV (RFC 8881 18.47).

use crate::macros::xdr_struct;

xdr_struct! {
    /// SET_SSV4args.
    pub struct Args<'a> of "SET_SSV4args" {
        /// The value that changes the secret.
        ssv: &'a [u8],
        /// Proves that the client knows the secret.
        digest: &'a [u8],
    }
}

xdr_struct! {
    /// SET_SSV4resok.
    pub struct ResOk<'a> of "SET_SSV4resok" {
        /// Proves that the server knows the secret.
        digest: &'a [u8],
    }
}
