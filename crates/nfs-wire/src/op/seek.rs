//! SEEK: find data or a hole (RFC 7862 15.11).

use crate::macros::{xdr_enum, xdr_struct};
use crate::types::StateId;

xdr_enum! {
    /// What to look for (data_content4).
    pub enum ContentType {
        Data = 0,
        Hole = 1,
    }
}

xdr_struct! {
    /// SEEK4args.
    pub struct Args of "SEEK4args" {
        /// Open, lock, delegation or a special one.
        stateid: StateId,
        /// Where to begin.
        offset: u64,
        /// What to look for.
        what: ContentType,
    }
}

xdr_struct! {
    /// seek_res4.
    pub struct ResOk of "seek_res4" {
        /// Whether there is none up to the end of the file.
        eof: bool,
        /// Where it begins.
        offset: u64,
    }
}
