//! COMMIT: make written data safe (RFC 8881 18.3).

use crate::macros::xdr_struct;
use crate::types::Verifier;

xdr_struct! {
    /// COMMIT4args.
    pub struct Args of "COMMIT4args" {
        /// Where the range begins.
        offset: u64,
        /// Bytes of the range; zero means up to the end.
        count: u32,
    }
}

xdr_struct! {
    /// COMMIT4resok.
    pub struct ResOk of "COMMIT4resok" {
        /// Changes when unstable data may have been lost.
        writeverf: Verifier,
    }
}
