//! ALLOCATE and DEALLOCATE: reserve space, and punch a hole (RFC 7862 15.1 and 15.4).

use crate::macros::xdr_struct;
use crate::types::StateId;

xdr_struct! {
    /// ALLOCATE4args and DEALLOCATE4args.
    pub struct Args of "ALLOCATE4args" {
        /// An open, lock or delegation, open for writing.
        stateid: StateId,
        /// Offset of the range.
        offset: u64,
        /// Bytes of the range.
        length: u64,
    }
}
