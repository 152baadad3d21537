//! Operations on names: LOOKUP, LINK, REMOVE, RENAME, READLINK, OPENATTR (RFC 8881 18.13, 18.9, 18.25, 18.26,
//! 18.24, 18.17).

use crate::macros::xdr_struct;
use crate::types::{ChangeInfo, Component};

xdr_struct! {
    /// LOOKUP4args.
    pub struct LookupArgs<'a> of "LOOKUP4args" {
        /// A name in the current directory.
        objname: Component<'a>,
    }
}

xdr_struct! {
    /// LINK4args.
    pub struct LinkArgs<'a> of "LINK4args" {
        /// A new name in the current directory for the saved object.
        newname: Component<'a>,
    }
}

xdr_struct! {
    /// LINK4resok and REMOVE4resok.
    pub struct Changed of "LINK4resok" {
        /// The change attribute of the directory before and after.
        cinfo: ChangeInfo,
    }
}

xdr_struct! {
    /// REMOVE4args.
    pub struct RemoveArgs<'a> of "REMOVE4args" {
        /// A name in the current directory.
        target: Component<'a>,
    }
}

xdr_struct! {
    /// RENAME4args.
    pub struct RenameArgs<'a> of "RENAME4args" {
        /// A name in the saved directory.
        oldname: Component<'a>,
        /// The new name in the current directory.
        newname: Component<'a>,
    }
}

xdr_struct! {
    /// RENAME4resok.
    pub struct RenameResOk of "RENAME4resok" {
        /// The change attribute of the saved directory before and after.
        source_cinfo: ChangeInfo,
        /// The change attribute of the current directory before and after.
        target_cinfo: ChangeInfo,
    }
}

xdr_struct! {
    /// READLINK4resok.
    pub struct ReadlinkResOk<'a> of "READLINK4resok" {
        /// The text of the link.
        link: &'a [u8],
    }
}

xdr_struct! {
    /// OPENATTR4args.
    pub struct OpenattrArgs of "OPENATTR4args" {
        /// Whether to create the directory.
        createdir: bool,
    }
}
