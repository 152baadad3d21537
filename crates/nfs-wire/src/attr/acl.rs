//! Access control lists (RFC 8881 6.2).

use crate::macros::{xdr_enum, xdr_flags, xdr_struct};
use crate::xdr::List;

xdr_enum! {
    /// The type of an entry (acetype4).
    pub enum AceType {
        Allowed = 0,
        Denied = 1,
        Audit = 2,
        Alarm = 3,
    }
}

xdr_flags! {
    /// The inheritance of an entry, and whether it names a group (aceflag4).
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
    /// Access rights (acemask4). The first three have another meaning for directories.
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
    /// The supported types of entries (attribute aclsupport).
    pub struct AclSupport {
        ALLOW = 0x0000_0001,
        DENY = 0x0000_0002,
        AUDIT = 0x0000_0004,
        ALARM = 0x0000_0008,
    }
}

xdr_flags! {
    /// The flags of a whole list (aclflag4).
    pub struct AclFlags {
        AUTO_INHERIT = 0x0000_0001,
        PROTECTED = 0x0000_0002,
        DEFAULTED = 0x0000_0004,
    }
}

xdr_struct! {
    /// One entry.
    pub struct Ace<'a> of "nfsace4" {
        /// The type of the entry.
        ace_type: AceType,
        /// The flags of the entry.
        flag: AceFlags,
        /// The rights that it allows or denies.
        access_mask: AceMask,
        /// `OWNER@`, `GROUP@`, `EVERYONE@`, another special name, or a user or group.
        who: &'a [u8],
    }
}

xdr_struct! {
    /// A list with its flags: the attributes dacl and sacl.
    pub struct Acl41<'a> of "nfsacl41" {
        /// The flags of the whole list.
        flag: AclFlags,
        /// The entries, in the order of evaluation.
        aces: List<'a, Ace<'a>>,
    }
}
