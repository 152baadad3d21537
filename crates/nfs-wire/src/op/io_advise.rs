//! IO_ADVISE: hints about the future use of a file (RFC 7862 15.5).

use crate::attr::Bitmap;
use crate::macros::{xdr_enum, xdr_struct};
use crate::types::StateId;

xdr_enum! {
    /// A hint. Its number is its bit in the bitmap (IO_ADVISE_type4).
    pub enum Hint {
        Normal = 0,
        Sequential = 1,
        SequentialBackwards = 2,
        Random = 3,
        WillNeed = 4,
        WillNeedOpportunistic = 5,
        DontNeed = 6,
        NoReuse = 7,
        Read = 8,
        Write = 9,
        InitProximity = 10,
    }
}

xdr_struct! {
    /// IO_ADVISE4args.
    pub struct Args of "IO_ADVISE4args" {
        /// An open, lock or delegation.
        stateid: StateId,
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range. Zero means up to the end.
        count: u64,
        /// The hints.
        hints: Bitmap,
    }
}

xdr_struct! {
    /// IO_ADVISE4resok.
    pub struct ResOk of "IO_ADVISE4resok" {
        /// The hints that are followed.
        hints: Bitmap,
    }
}
