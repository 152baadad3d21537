//! CREATE: make anything but a regular file (RFC 8881 18.4).

use crate::attr::{Bitmap, Fattr};
use crate::macros::{xdr_struct, xdr_union};
use crate::types::{ChangeInfo, Component, SpecData};

xdr_union! {
    /// What to make (createtype4).
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
            /// A symbolic link and where it leads.
            Lnk(&'a [u8]) = 5,
        }
        default
        /// A kind that CREATE does not make: NFS4ERR_BADTYPE.
        Other
    }
}

xdr_struct! {
    /// CREATE4args.
    pub struct Args<'a> of "CREATE4args" {
        /// What to make.
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
        /// The directory around the change.
        cinfo: ChangeInfo,
        /// Which attributes were set.
        attrset: Bitmap,
    }
}
