//! CLONE: make a range share the blocks of another (RFC 7862 15.13).

use crate::macros::xdr_struct;
use crate::types::StateId;

xdr_struct! {
    /// CLONE4args. The saved filehandle is the source, the current one the destination.
    pub struct Args of "CLONE4args" {
        /// State of the source.
        src_stateid: StateId,
        /// State of the destination.
        dst_stateid: StateId,
        /// Where to read.
        src_offset: u64,
        /// Where to write.
        dst_offset: u64,
        /// Bytes; zero means up to the end of the source.
        count: u64,
    }
}
