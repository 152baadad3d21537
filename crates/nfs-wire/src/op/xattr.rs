//! GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR (RFC 8276 8.4).

use crate::macros::{xdr_enum, xdr_struct};
use crate::types::{ChangeInfo, Component};
use crate::xdr::List;

xdr_struct! {
    /// GETXATTR4args and REMOVEXATTR4args.
    pub struct NameArgs<'a> of "GETXATTR4args" {
        /// The name, without a namespace prefix.
        name: Component<'a>,
    }
}

xdr_struct! {
    /// GETXATTR4res.
    pub struct GetResOk<'a> of "GETXATTR4res" {
        /// The value.
        value: &'a [u8],
    }
}

xdr_enum! {
    /// Whether the attribute must exist or must not exist (setxattr_option4).
    pub enum SetOption {
        Either = 0,
        Create = 1,
        Replace = 2,
    }
}

xdr_struct! {
    /// SETXATTR4args.
    pub struct SetArgs<'a> of "SETXATTR4args" {
        /// Whether the attribute must exist or must not exist.
        option: SetOption,
        /// The name.
        key: Component<'a>,
        /// The value.
        value: &'a [u8],
    }
}

xdr_struct! {
    /// SETXATTR4res and REMOVEXATTR4res.
    pub struct Changed of "SETXATTR4res" {
        /// The change attribute of the object before and after.
        info: ChangeInfo,
    }
}

xdr_struct! {
    /// LISTXATTRS4args.
    pub struct ListArgs of "LISTXATTRS4args" {
        /// The cookie to continue at. Zero at first.
        cookie: u64,
        /// Longest reply in bytes.
        maxcount: u32,
    }
}

xdr_struct! {
    /// LISTXATTRS4resok.
    pub struct ListResOk<'a> of "LISTXATTRS4resok" {
        /// The cookie to continue at.
        cookie: u64,
        /// The names.
        names: List<'a, Component<'a>>,
        /// Whether the list is complete.
        eof: bool,
    }
}
