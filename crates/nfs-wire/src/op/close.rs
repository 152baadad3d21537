//! CLOSE: ends an open (RFC 8881 18.2).

use crate::macros::xdr_struct;
use crate::types::StateId;

xdr_struct! {
    /// CLOSE4args.
    pub struct Args of "CLOSE4args" {
        /// Ignored in 4.1.
        seqid: u32,
        /// The open.
        open_stateid: StateId,
    }
}

xdr_struct! {
    /// The result of CLOSE.
    pub struct ResOk of "CLOSE4res" {
        /// [`StateId::INVALID`], since the stateid has no further use (RFC 8881 18.2.4).
        open_stateid: StateId,
    }
}
