//! READ (RFC 8881 18.22). A server writes the result in place: [`crate::compound::ReplyWriter::begin_read`] and
//! [`crate::compound::ReplyWriter::attach_read`].

use crate::macros::xdr_struct;
use crate::types::StateId;

xdr_struct! {
    /// READ4args.
    pub struct Args of "READ4args" {
        /// Open, lock, delegation or a special one.
        stateid: StateId,
        /// Where to begin.
        offset: u64,
        /// Most bytes wanted.
        count: u32,
    }
}

xdr_struct! {
    /// READ4resok.
    pub struct ResOk<'a> of "READ4resok" {
        /// Whether the data reaches the end of the file.
        eof: bool,
        /// What was read.
        data: &'a [u8],
    }
}
