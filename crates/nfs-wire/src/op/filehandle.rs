//! Filehandles: PUTFH and GETFH (RFC 8881 18.19 and 18.8). PUTPUBFH, PUTROOTFH, SAVEFH, RESTOREFH and LOOKUPP
//! have neither arguments nor results.

use crate::macros::xdr_struct;
use crate::types::FileHandle;

xdr_struct! {
    /// PUTFH4args.
    pub struct PutArgs<'a> of "PUTFH4args" {
        /// The new current filehandle.
        object: FileHandle<'a>,
    }
}

xdr_struct! {
    /// GETFH4resok.
    pub struct GetResOk<'a> of "GETFH4resok" {
        /// The current filehandle.
        object: FileHandle<'a>,
    }
}
