//! GETATTR, VERIFY and NVERIFY (RFC 8881 18.7, 18.31, 18.15). A server writes the result of GETATTR in place,
//! with
//! [`crate::attr::AttrWriter`].

use crate::attr::{Bitmap, Fattr};
use crate::macros::xdr_struct;

xdr_struct! {
    /// GETATTR4args.
    pub struct Args of "GETATTR4args" {
        /// The requested attributes.
        attr_request: Bitmap,
    }
}

xdr_struct! {
    /// GETATTR4resok.
    pub struct ResOk<'a> of "GETATTR4resok" {
        /// The attributes.
        obj_attributes: Fattr<'a>,
    }
}

xdr_struct! {
    /// VERIFY4args and NVERIFY4args.
    pub struct VerifyArgs<'a> of "VERIFY4args" {
        /// The attributes to compare with.
        obj_attributes: Fattr<'a>,
    }
}
