//! CLONE: makes a range share the storage of another one (RFC 7862 15.13).

use crate::macros::xdr_struct;
use crate::types::StateId;

xdr_struct! {
    /// CLONE4args. The saved filehandle is the source, the current one the destination.
    pub struct Args of "CLONE4args" {
        /// The stateid of the source.
        src_stateid: StateId,
        /// The stateid of the destination.
        dst_stateid: StateId,
        /// The offset in the source.
        src_offset: u64,
        /// The offset in the destination.
        dst_offset: u64,
        /// The number of bytes. Zero means up to the end of the source.
        count: u64,
    }
}
