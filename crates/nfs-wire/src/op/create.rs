//! CREATE: creates any object but a regular file (RFC 8881 18.4).

use crate::attr::{Bitmap, Fattr};
use crate::macros::{xdr_struct, xdr_union};
use crate::types::{ChangeInfo, Component, SpecData};

xdr_union! {
    /// The type of the new object (createtype4).
    pub enum CreateType<'a> of "createtype4" {
        void {
            /// A directory.
            Dir = 2,
            /// A socket.
            Sock = 6,
            /// A FIFO.
            Fifo = 7,
        }
        data {
            /// A block device.
            Blk(SpecData) = 3,
            /// A character device.
            Chr(SpecData) = 4,
            /// A symbolic link and its text.
            Lnk(&'a [u8]) = 5,
        }
        default
        /// A type that CREATE does not create: NFS4ERR_BADTYPE.
        Other
    }
}

xdr_struct! {
    /// CREATE4args.
    pub struct Args<'a> of "CREATE4args" {
        /// The type of the object.
        objtype: CreateType<'a>,
        /// Its name.
        objname: Component<'a>,
        /// Its attributes.
        createattrs: Fattr<'a>,
    }
}

xdr_struct! {
    /// CREATE4resok.
    pub struct ResOk of "CREATE4resok" {
        /// The change attribute of the directory before and after.
        cinfo: ChangeInfo,
        /// The attributes that were set.
        attrset: Bitmap,
    }
}
