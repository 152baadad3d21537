//! READ (RFC 8881 18.22). A server writes the result in place: [`crate::compound::ReplyWriter::begin_read`]
//! and
//! [`crate::compound::ReplyWriter::attach_read`].

use crate::macros::xdr_struct;
use crate::types::StateId;

xdr_struct! {
    /// READ4args.
    pub struct Args of "READ4args" {
        /// An open, lock, delegation or special stateid.
        stateid: StateId,
        /// The offset of the first byte.
        offset: u64,
        /// The most bytes to read.
        count: u32,
    }
}

xdr_struct! {
    /// READ4resok.
    pub struct ResOk<'a> of "READ4resok" {
        /// Whether the data reaches the end of the file.
        eof: bool,
        /// The data.
        data: &'a [u8],
    }
}
