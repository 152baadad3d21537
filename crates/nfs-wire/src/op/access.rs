//! ACCESS: the access rights of the user (RFC 8881 18.1, RFC 8276 8.5).

use crate::macros::{xdr_flags, xdr_struct};

xdr_flags! {
    /// Types of access to an object (ACCESS4_*).
    pub struct AccessBits {
        READ = 0x0000_0001,
        LOOKUP = 0x0000_0002,
        MODIFY = 0x0000_0004,
        EXTEND = 0x0000_0008,
        DELETE = 0x0000_0010,
        EXECUTE = 0x0000_0020,
        XAREAD = 0x0000_0040,
        XAWRITE = 0x0000_0080,
        XALIST = 0x0000_0100,
    }
}

xdr_struct! {
    /// ACCESS4args.
    pub struct Args of "ACCESS4args" {
        /// The accesses to check.
        access: AccessBits,
    }
}

xdr_struct! {
    /// ACCESS4resok.
    pub struct ResOk of "ACCESS4resok" {
        /// The accesses that the server can check.
        supported: AccessBits,
        /// The accesses that are allowed.
        access: AccessBits,
    }
}
