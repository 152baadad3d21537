//! WRITE and WRITE_SAME (RFC 8881 18.32, RFC 7862 15.12).

use crate::macros::xdr_struct;
use crate::types::{StableHow, StateId, Verifier};

xdr_struct! {
    /// WRITE4args.
    pub struct Args<'a> of "WRITE4args" {
        /// Open, lock, delegation or a special one.
        stateid: StateId,
        /// Where to begin.
        offset: u64,
        /// How safe the data has to be before the reply.
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
        /// How safe they are.
        committed: StableHow,
        /// Changes when unstable data may have been lost.
        writeverf: Verifier,
    }
}

xdr_struct! {
    /// A pattern that fills blocks (app_data_block4).
    pub struct AppDataBlock<'a> of "app_data_block4" {
        /// Where the first block begins.
        offset: u64,
        /// Bytes of a block.
        block_size: u64,
        /// How many.
        block_count: u64,
        /// Where in a block its number stands.
        reloff_blocknum: u64,
        /// Number of the first block.
        block_num: u32,
        /// Where in a block the pattern stands.
        reloff_pattern: u64,
        /// The pattern.
        pattern: &'a [u8],
    }
}

xdr_struct! {
    /// WRITE_SAME4args.
    pub struct SameArgs<'a> of "WRITE_SAME4args" {
        /// Open, lock or delegation.
        stateid: StateId,
        /// How safe the data has to be before the reply.
        stable: StableHow,
        /// What to write.
        adb: AppDataBlock<'a>,
    }
}
