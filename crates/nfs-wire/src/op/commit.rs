//! COMMIT: brings written data to stable storage (RFC 8881 18.3).

use crate::macros::xdr_struct;
use crate::types::Verifier;

xdr_struct! {
    /// COMMIT4args.
    pub struct Args of "COMMIT4args" {
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range. Zero means up to the end.
        count: u32,
    }
}

xdr_struct! {
    /// COMMIT4resok.
    pub struct ResOk of "COMMIT4resok" {
        /// Changes if unstable data may have been lost.
        writeverf: Verifier,
    }
}
