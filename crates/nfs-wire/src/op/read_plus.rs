//! READ_PLUS: data and holes (RFC 7862 15.10).

use crate::macros::{xdr_struct, xdr_union};
use crate::types::StateId;
use crate::xdr::List;

xdr_struct! {
    /// READ_PLUS4args.
    pub struct Args of "READ_PLUS4args" {
        /// An open, lock, delegation or special stateid.
        stateid: StateId,
        /// The offset of the first byte.
        offset: u64,
        /// The most bytes to read.
        count: u32,
    }
}

xdr_struct! {
    /// A piece of data (data4).
    pub struct Data<'a> of "data4" {
        /// The offset of the data.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    }
}

xdr_struct! {
    /// A hole (data_info4).
    pub struct Hole of "data_info4" {
        /// The offset of the hole.
        offset: u64,
        /// Length of the hole in bytes.
        length: u64,
    }
}

xdr_union! {
    /// A piece of a file (read_plus_content).
    pub enum Content<'a> of "read_plus_content" {
        void {}
        data {
            /// Data.
            Data(Data<'a>) = 0,
            /// Zeros that take no storage.
            Hole(Hole) = 1,
        }
    }
}

xdr_struct! {
    /// read_plus_res4.
    pub struct ResOk<'a> of "read_plus_res4" {
        /// Whether the pieces reach the end of the file.
        eof: bool,
        /// The pieces.
        contents: List<'a, Content<'a>>,
    }
}
