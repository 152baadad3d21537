//! GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR (RFC 8276 8.4).

use crate::macros::{xdr_enum, xdr_struct};
use crate::types::{ChangeInfo, Component};
use crate::xdr::List;

xdr_struct! {
    /// GETXATTR4args and REMOVEXATTR4args.
    pub struct NameArgs<'a> of "GETXATTR4args" {
        /// The name, without a namespace in front.
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
    /// Whether the attribute must or may not be there (setxattr_option4).
    pub enum SetOption {
        Either = 0,
        Create = 1,
        Replace = 2,
    }
}

xdr_struct! {
    /// SETXATTR4args.
    pub struct SetArgs<'a> of "SETXATTR4args" {
        /// Whether it must or may not be there.
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
        /// The object around the change.
        info: ChangeInfo,
    }
}

xdr_struct! {
    /// LISTXATTRS4args.
    pub struct ListArgs of "LISTXATTRS4args" {
        /// Where to go on; zero at first.
        cookie: u64,
        /// Longest answer in bytes.
        maxcount: u32,
    }
}

xdr_struct! {
    /// LISTXATTRS4resok.
    pub struct ListResOk<'a> of "LISTXATTRS4resok" {
        /// Where to go on.
        cookie: u64,
        /// The names.
        names: List<'a, Component<'a>>,
        /// Whether these were the last.
        eof: bool,
    }
}
