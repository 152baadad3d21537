//! WRITE and WRITE_SAME (RFC 8881 18.32, RFC 7862 15.12).

use crate::macros::xdr_struct;
use crate::types::{StableHow, StateId, Verifier};

xdr_struct! {
    /// WRITE4args.
    pub struct Args<'a> of "WRITE4args" {
        /// An open, lock, delegation or special stateid.
        stateid: StateId,
        /// The offset of the first byte.
        offset: u64,
        /// The stability that the data must have before the reply.
        stable: StableHow,
        /// The data.
        data: &'a [u8],
    }
}

xdr_struct! {
    /// WRITE4resok.
    pub struct ResOk of "WRITE4resok" {
        /// Bytes written.
        count: u32,
        /// The stability of the data.
        committed: StableHow,
        /// Changes if unstable data may have been lost.
        writeverf: Verifier,
    }
}

xdr_struct! {
    /// A pattern that fills blocks (app_data_block4).
    pub struct AppDataBlock<'a> of "app_data_block4" {
        /// The offset of the first block.
        offset: u64,
        /// Bytes of a block.
        block_size: u64,
        /// Number of blocks.
        block_count: u64,
        /// The position of the block's number within the block.
        reloff_blocknum: u64,
        /// Number of the first block.
        block_num: u32,
        /// The position of the pattern within the block.
        reloff_pattern: u64,
        /// The pattern.
        pattern: &'a [u8],
    }
}

xdr_struct! {
    /// WRITE_SAME4args.
    pub struct SameArgs<'a> of "WRITE_SAME4args" {
        /// An open, lock or delegation.
        stateid: StateId,
        /// The stability that the data must have before the reply.
        stable: StableHow,
        /// The blocks to write.
        adb: AppDataBlock<'a>,
    }
}
