//! The named limits of parsing. Data that is only borrowed from a message is limited by the message.

/// Longest filehandle, in bytes (NFS4_FHSIZE).
pub const MAX_FILE_HANDLE: usize = 128;

/// Longest owner, server scope and other identifying opaque, in bytes (NFS4_OPAQUE_LIMIT).
pub const MAX_OPAQUE: usize = 1024;

/// Longest tag of a COMPOUND that is accepted, in bytes. The reply repeats the tag, so it needs room there.
pub const MAX_TAG: usize = 1024;

/// Words of a bitmap that are accepted. Only the first [`crate::attr::WORDS`] have a meaning today.
pub const MAX_BITMAP_WORDS: usize = 128;

/// Longest body of an `opaque_auth`, in bytes (RFC 5531 8.2).
pub const MAX_AUTH: usize = 400;

/// Groups of an AUTH_SYS credential (RFC 5531 appendix A).
pub const MAX_GROUPS: usize = 16;

/// Longest machine name of an AUTH_SYS credential, in bytes (RFC 5531 appendix A).
pub const MAX_MACHINE_NAME: usize = 255;

/// Longest network identifier or universal address, in bytes.
pub const MAX_NETADDR: usize = 256;

/// Entries of any list in a COMPOUND.
pub const MAX_LIST: usize = 4096;
