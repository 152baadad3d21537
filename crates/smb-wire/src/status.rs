//! NTSTATUS: the 32-bit result in every response header (MS-ERREF 2.3).
//!
//! [`NtStatus`] is a number with names. A value without a name is valid too. The names are those that
//! MS-SMB2, MS-FSCC and MS-FSA allow for a server, and those that existing clients react to.

use std::fmt;

/// A result code. `NtStatus::SUCCESS` is zero. The two highest bits are the severity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct NtStatus(pub u32);

/// The severity of a status: the two highest bits of the number (MS-ERREF 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The operation succeeded or is under way.
    Success,
    /// The operation succeeded with additional information.
    Information,
    /// The operation stopped early. Its output so far is valid.
    Warning,
    /// The operation failed.
    Error,
}

impl NtStatus {
    /// The severity in the two highest bits.
    #[inline]
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self.0 >> 30 {
            0 => Severity::Success,
            1 => Severity::Information,
            2 => Severity::Warning,
            _ => Severity::Error,
        }
    }

    /// Whether the severity is [`Severity::Error`].
    #[inline]
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 >> 30 == 3
    }

    /// Whether the severity is [`Severity::Warning`], as in `BUFFER_OVERFLOW` and `NO_MORE_FILES`.
    #[inline]
    #[must_use]
    pub const fn is_warning(self) -> bool {
        self.0 >> 30 == 2
    }

    /// Whether the operation did not fail: success or information, but not a warning.
    #[inline]
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 >> 31 == 0
    }
}

impl fmt::Display for NtStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "NTSTATUS 0x{:08x}", self.0),
        }
    }
}

impl fmt::Debug for NtStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<u32> for NtStatus {
    fn from(value: u32) -> Self {
        NtStatus(value)
    }
}

impl From<NtStatus> for u32 {
    fn from(status: NtStatus) -> Self {
        status.0
    }
}

macro_rules! statuses {
    ($($name:ident = $value:literal,)*) => {
        impl NtStatus {
            $(
                #[doc = concat!("`STATUS_", stringify!($name), "`.")]
                pub const $name: NtStatus = NtStatus($value);
            )*

            /// The name in MS-ERREF, if this value has one here.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(concat!("STATUS_", stringify!($name))),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    SUCCESS = 0x0000_0000,
    TIMEOUT = 0x0000_0102,
    PENDING = 0x0000_0103,
    REPARSE = 0x0000_0104,
    SOME_NOT_MAPPED = 0x0000_0107,
    OPLOCK_BREAK_IN_PROGRESS = 0x0000_0108,
    NOTIFY_CLEANUP = 0x0000_010b,
    NOTIFY_ENUM_DIR = 0x0000_010c,
    NO_QUOTAS_FOR_ACCOUNT = 0x0000_010d,
    OPLOCK_SWITCHED_TO_NEW_HANDLE = 0x0000_0215,
    OPLOCK_HANDLE_CLOSED = 0x0000_0216,
    OBJECT_NAME_EXISTS = 0x4000_0000,
    BUFFER_OVERFLOW = 0x8000_0005,
    NO_MORE_FILES = 0x8000_0006,
    DEVICE_BUSY = 0x8000_0011,
    INVALID_EA_NAME = 0x8000_0013,
    EA_LIST_INCONSISTENT = 0x8000_0014,
    NO_MORE_ENTRIES = 0x8000_001a,
    ALREADY_DISCONNECTED = 0x8000_0025,
    STOPPED_ON_SYMLINK = 0x8000_002d,
    CANNOT_GRANT_REQUESTED_OPLOCK = 0x8000_002e,
    UNSUCCESSFUL = 0xc000_0001,
    NOT_IMPLEMENTED = 0xc000_0002,
    INVALID_INFO_CLASS = 0xc000_0003,
    INFO_LENGTH_MISMATCH = 0xc000_0004,
    INVALID_HANDLE = 0xc000_0008,
    INVALID_PARAMETER = 0xc000_000d,
    NO_SUCH_DEVICE = 0xc000_000e,
    NO_SUCH_FILE = 0xc000_000f,
    INVALID_DEVICE_REQUEST = 0xc000_0010,
    END_OF_FILE = 0xc000_0011,
    WRONG_VOLUME = 0xc000_0012,
    NO_MEDIA_IN_DEVICE = 0xc000_0013,
    MORE_PROCESSING_REQUIRED = 0xc000_0016,
    NO_MEMORY = 0xc000_0017,
    INVALID_VIEW_SIZE = 0xc000_001f,
    ACCESS_DENIED = 0xc000_0022,
    BUFFER_TOO_SMALL = 0xc000_0023,
    OBJECT_TYPE_MISMATCH = 0xc000_0024,
    NOT_LOCKED = 0xc000_002a,
    OBJECT_NAME_INVALID = 0xc000_0033,
    OBJECT_NAME_NOT_FOUND = 0xc000_0034,
    OBJECT_NAME_COLLISION = 0xc000_0035,
    OBJECT_PATH_INVALID = 0xc000_0039,
    OBJECT_PATH_NOT_FOUND = 0xc000_003a,
    OBJECT_PATH_SYNTAX_BAD = 0xc000_003b,
    DATA_ERROR = 0xc000_003e,
    CRC_ERROR = 0xc000_003f,
    SECTION_TOO_BIG = 0xc000_0040,
    SHARING_VIOLATION = 0xc000_0043,
    QUOTA_EXCEEDED = 0xc000_0044,
    THREAD_IS_TERMINATING = 0xc000_004b,
    EAS_NOT_SUPPORTED = 0xc000_004f,
    EA_TOO_LARGE = 0xc000_0050,
    NONEXISTENT_EA_ENTRY = 0xc000_0051,
    NO_EAS_ON_FILE = 0xc000_0052,
    FILE_LOCK_CONFLICT = 0xc000_0054,
    LOCK_NOT_GRANTED = 0xc000_0055,
    DELETE_PENDING = 0xc000_0056,
    INVALID_OWNER = 0xc000_005a,
    NO_LOGON_SERVERS = 0xc000_005e,
    NO_SUCH_LOGON_SESSION = 0xc000_005f,
    PRIVILEGE_NOT_HELD = 0xc000_0061,
    INVALID_ACCOUNT_NAME = 0xc000_0062,
    NO_SUCH_USER = 0xc000_0064,
    WRONG_PASSWORD = 0xc000_006a,
    PASSWORD_RESTRICTION = 0xc000_006c,
    LOGON_FAILURE = 0xc000_006d,
    ACCOUNT_RESTRICTION = 0xc000_006e,
    INVALID_LOGON_HOURS = 0xc000_006f,
    INVALID_WORKSTATION = 0xc000_0070,
    PASSWORD_EXPIRED = 0xc000_0071,
    ACCOUNT_DISABLED = 0xc000_0072,
    NONE_MAPPED = 0xc000_0073,
    INVALID_ACL = 0xc000_0077,
    INVALID_SID = 0xc000_0078,
    INVALID_SECURITY_DESCR = 0xc000_0079,
    NO_TOKEN = 0xc000_007c,
    RANGE_NOT_LOCKED = 0xc000_007e,
    DISK_FULL = 0xc000_007f,
    INTEGER_OVERFLOW = 0xc000_0095,
    FILE_INVALID = 0xc000_0098,
    INSUFFICIENT_RESOURCES = 0xc000_009a,
    MEDIA_WRITE_PROTECTED = 0xc000_00a2,
    DEVICE_NOT_READY = 0xc000_00a3,
    BAD_IMPERSONATION_LEVEL = 0xc000_00a5,
    INSTANCE_NOT_AVAILABLE = 0xc000_00ab,
    PIPE_NOT_AVAILABLE = 0xc000_00ac,
    INVALID_PIPE_STATE = 0xc000_00ad,
    PIPE_BUSY = 0xc000_00ae,
    PIPE_DISCONNECTED = 0xc000_00b0,
    PIPE_CLOSING = 0xc000_00b1,
    PIPE_CONNECTED = 0xc000_00b2,
    PIPE_LISTENING = 0xc000_00b3,
    INVALID_READ_MODE = 0xc000_00b4,
    IO_TIMEOUT = 0xc000_00b5,
    FILE_FORCED_CLOSED = 0xc000_00b6,
    FILE_IS_A_DIRECTORY = 0xc000_00ba,
    NOT_SUPPORTED = 0xc000_00bb,
    DUPLICATE_NAME = 0xc000_00bd,
    BAD_NETWORK_PATH = 0xc000_00be,
    NETWORK_BUSY = 0xc000_00bf,
    DEVICE_DOES_NOT_EXIST = 0xc000_00c0,
    ADAPTER_HARDWARE_ERROR = 0xc000_00c2,
    INVALID_NETWORK_RESPONSE = 0xc000_00c3,
    UNEXPECTED_NETWORK_ERROR = 0xc000_00c4,
    NETWORK_NAME_DELETED = 0xc000_00c9,
    NETWORK_ACCESS_DENIED = 0xc000_00ca,
    BAD_DEVICE_TYPE = 0xc000_00cb,
    BAD_NETWORK_NAME = 0xc000_00cc,
    TOO_MANY_SESSIONS = 0xc000_00ce,
    REQUEST_NOT_ACCEPTED = 0xc000_00d0,
    NOT_SAME_DEVICE = 0xc000_00d4,
    NO_SECURITY_ON_OBJECT = 0xc000_00d7,
    PIPE_EMPTY = 0xc000_00d9,
    NO_SUCH_DOMAIN = 0xc000_00df,
    OPLOCK_NOT_GRANTED = 0xc000_00e2,
    INVALID_OPLOCK_PROTOCOL = 0xc000_00e3,
    INTERNAL_ERROR = 0xc000_00e5,
    INVALID_USER_BUFFER = 0xc000_00e8,
    UNEXPECTED_IO_ERROR = 0xc000_00e9,
    DIRECTORY_NOT_EMPTY = 0xc000_0101,
    FILE_CORRUPT_ERROR = 0xc000_0102,
    NOT_A_DIRECTORY = 0xc000_0103,
    NAME_TOO_LONG = 0xc000_0106,
    PROCESS_IS_TERMINATING = 0xc000_010a,
    TOO_MANY_OPENED_FILES = 0xc000_011f,
    CANCELLED = 0xc000_0120,
    CANNOT_DELETE = 0xc000_0121,
    INVALID_COMPUTER_NAME = 0xc000_0122,
    FILE_DELETED = 0xc000_0123,
    FILE_CLOSED = 0xc000_0128,
    TIME_DIFFERENCE_AT_DC = 0xc000_0133,
    INVALID_CONNECTION = 0xc000_0140,
    INVALID_ADDRESS = 0xc000_0141,
    INVALID_LEVEL = 0xc000_0148,
    PIPE_BROKEN = 0xc000_014b,
    LOGON_TYPE_NOT_GRANTED = 0xc000_015b,
    INVALID_DEVICE_STATE = 0xc000_0184,
    IO_DEVICE_ERROR = 0xc000_0185,
    TOO_LATE = 0xc000_0189,
    TRUSTED_RELATIONSHIP_FAILURE = 0xc000_018d,
    TRUST_FAILURE = 0xc000_0190,
    ACCOUNT_EXPIRED = 0xc000_0193,
    NETWORK_CREDENTIAL_CONFLICT = 0xc000_0195,
    REMOTE_SESSION_LIMIT = 0xc000_0196,
    NOLOGON_WORKSTATION_TRUST_ACCOUNT = 0xc000_0199,
    FS_DRIVER_REQUIRED = 0xc000_019c,
    SHORT_NAMES_NOT_ENABLED_ON_VOLUME = 0xc000_019f,
    INVALID_LOCK_RANGE = 0xc000_01a1,
    USER_SESSION_DELETED = 0xc000_0203,
    INSUFF_SERVER_RESOURCES = 0xc000_0205,
    INVALID_BUFFER_SIZE = 0xc000_0206,
    CONNECTION_DISCONNECTED = 0xc000_020c,
    CONNECTION_RESET = 0xc000_020d,
    PASSWORD_MUST_CHANGE = 0xc000_0224,
    NOT_FOUND = 0xc000_0225,
    DUPLICATE_OBJECTID = 0xc000_022a,
    DOMAIN_CONTROLLER_NOT_FOUND = 0xc000_0233,
    ACCOUNT_LOCKED_OUT = 0xc000_0234,
    CONNECTION_REFUSED = 0xc000_0236,
    CONNECTION_INVALID = 0xc000_023a,
    NETWORK_UNREACHABLE = 0xc000_023c,
    PROTOCOL_UNREACHABLE = 0xc000_023e,
    CONNECTION_ABORTED = 0xc000_0241,
    USER_MAPPED_FILE = 0xc000_0243,
    PATH_NOT_COVERED = 0xc000_0257,
    TOO_MANY_LINKS = 0xc000_0265,
    DFS_UNAVAILABLE = 0xc000_026d,
    VOLUME_DISMOUNTED = 0xc000_026e,
    NO_MATCH = 0xc000_0272,
    NOT_A_REPARSE_POINT = 0xc000_0275,
    IO_REPARSE_TAG_INVALID = 0xc000_0276,
    IO_REPARSE_TAG_MISMATCH = 0xc000_0277,
    IO_REPARSE_DATA_INVALID = 0xc000_0278,
    IO_REPARSE_TAG_NOT_HANDLED = 0xc000_0279,
    REPARSE_POINT_NOT_RESOLVED = 0xc000_0280,
    DIRECTORY_IS_A_REPARSE_POINT = 0xc000_0281,
    VOLUME_NOT_UPGRADED = 0xc000_029c,
    REPARSE_ATTRIBUTE_CONFLICT = 0xc000_02b2,
    OBJECTID_NOT_FOUND = 0xc000_02f0,
    WRONG_CREDENTIAL_HANDLE = 0xc000_02f2,
    NETWORK_SESSION_EXPIRED = 0xc000_035c,
    DOWNGRADE_DETECTED = 0xc000_0388,
    NTLM_BLOCKED = 0xc000_0418,
    COMPRESSION_DISABLED = 0xc000_0426,
    FILE_SYSTEM_LIMITATION = 0xc000_0427,
    REQUEST_OUT_OF_SEQUENCE = 0xc000_042a,
    BEYOND_VDL = 0xc000_0432,
    NO_RANGES_PROCESSED = 0xc000_0460,
    DEVICE_FEATURE_NOT_SUPPORTED = 0xc000_0463,
    DEVICE_UNREACHABLE = 0xc000_0464,
    INVALID_TOKEN = 0xc000_0465,
    SERVER_UNAVAILABLE = 0xc000_0466,
    FILE_NOT_AVAILABLE = 0xc000_0467,
    SHARE_UNAVAILABLE = 0xc000_0480,
    CALLBACK_BYPASS = 0xc000_0503,
    CONTEXT_MISMATCH = 0xc000_0719,
    CANNOT_BREAK_OPLOCK = 0xc000_0909,
    BAD_DATA = 0xc000_090b,
    INVALID_SIGNATURE = 0xc000_a000,
    AUTH_TAG_MISMATCH = 0xc000_a002,
    SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP = 0xc05d_0000,
    SMB_BAD_CLUSTER_DIALECT = 0xc05d_0001,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severity_is_read_from_the_two_highest_bits() {
        // The status of the SESSION_SETUP response in MS-SMB2 4.1, and three other recorded ones.
        assert!(NtStatus(0xc000_0016).is_error());
        assert_eq!(NtStatus(0xc000_0016).to_string(), "STATUS_MORE_PROCESSING_REQUIRED");
        assert_eq!(NtStatus(0x8000_0005).severity(), Severity::Warning);
        assert!(!NtStatus(0x8000_0005).is_success());
        assert!(NtStatus(0x0000_0103).is_success());
        assert_eq!(NtStatus(0x4000_0000).severity(), Severity::Information);
    }

    #[test]
    fn a_value_without_a_name_keeps_its_number() {
        assert_eq!(NtStatus(0xc123_4567).name(), None);
        assert_eq!(NtStatus(0xc123_4567).to_string(), "NTSTATUS 0xc1234567");
    }
}
