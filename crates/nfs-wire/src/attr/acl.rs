//! Access control lists (RFC 8881 6.2).

use crate::macros::{xdr_enum, xdr_flags, xdr_struct};
use crate::xdr::List;

xdr_enum! {
    /// What an entry does (acetype4).
    pub enum AceType {
        Allowed = 0,
        Denied = 1,
        Audit = 2,
        Alarm = 3,
    }
}

xdr_flags! {
    /// How an entry is inherited and whom it names (aceflag4).
    pub struct AceFlags {
        FILE_INHERIT = 0x0000_0001,
        DIRECTORY_INHERIT = 0x0000_0002,
        NO_PROPAGATE_INHERIT = 0x0000_0004,
        INHERIT_ONLY = 0x0000_0008,
        SUCCESSFUL_ACCESS = 0x0000_0010,
        FAILED_ACCESS = 0x0000_0020,
        IDENTIFIER_GROUP = 0x0000_0040,
        INHERITED = 0x0000_0080,
    }
}

xdr_flags! {
    /// Rights (acemask4). The first three mean something else for directories.
    pub struct AceMask {
        /// For a directory: list it.
        READ_DATA = 0x0000_0001,
        /// For a directory: add a file.
        WRITE_DATA = 0x0000_0002,
        /// For a directory: add a directory.
        APPEND_DATA = 0x0000_0004,
        READ_NAMED_ATTRS = 0x0000_0008,
        WRITE_NAMED_ATTRS = 0x0000_0010,
        EXECUTE = 0x0000_0020,
        DELETE_CHILD = 0x0000_0040,
        READ_ATTRIBUTES = 0x0000_0080,
        WRITE_ATTRIBUTES = 0x0000_0100,
        WRITE_RETENTION = 0x0000_0200,
        WRITE_RETENTION_HOLD = 0x0000_0400,
        DELETE = 0x0001_0000,
        READ_ACL = 0x0002_0000,
        WRITE_ACL = 0x0004_0000,
        WRITE_OWNER = 0x0008_0000,
        SYNCHRONIZE = 0x0010_0000,
    }
}

xdr_flags! {
    /// Which kinds of entries are supported (attribute aclsupport).
    pub struct AclSupport {
        ALLOW = 0x0000_0001,
        DENY = 0x0000_0002,
        AUDIT = 0x0000_0004,
        ALARM = 0x0000_0008,
    }
}

xdr_flags! {
    /// What holds for a whole list (aclflag4).
    pub struct AclFlags {
        AUTO_INHERIT = 0x0000_0001,
        PROTECTED = 0x0000_0002,
        DEFAULTED = 0x0000_0004,
    }
}

xdr_struct! {
    /// One entry.
    pub struct Ace<'a> of "nfsace4" {
        /// What it does.
        ace_type: AceType,
        /// How it is inherited.
        flag: AceFlags,
        /// Which rights it is about.
        access_mask: AceMask,
        /// `OWNER@`, `GROUP@`, `EVERYONE@`, another special name, or a user or group.
        who: &'a [u8],
    }
}

xdr_struct! {
    /// A list with its flags: the attributes dacl and sacl.
    pub struct Acl41<'a> of "nfsacl41" {
        /// What holds for the whole list.
        flag: AclFlags,
        /// The entries, in the order in which they are looked at.
        aces: List<'a, Ace<'a>>,
    }
}
