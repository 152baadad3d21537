//! SEEK: finds data or a hole (RFC 7862 15.11).

use crate::macros::{xdr_enum, xdr_struct};
use crate::types::StateId;

xdr_enum! {
    /// The content to look for (data_content4).
    pub enum ContentType {
        Data = 0,
        Hole = 1,
    }
}

xdr_struct! {
    /// SEEK4args.
    pub struct Args of "SEEK4args" {
        /// An open, lock, delegation or special stateid.
        stateid: StateId,
        /// The offset at which to start.
        offset: u64,
        /// The content to look for.
        what: ContentType,
    }
}

xdr_struct! {
    /// seek_res4.
    pub struct ResOk of "seek_res4" {
        /// Whether there is none up to the end of the file.
        eof: bool,
        /// The offset of the content.
        offset: u64,
    }
}
