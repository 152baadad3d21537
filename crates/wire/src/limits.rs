//! The named bounds of the transport. Each protocol names its own beside its code.

/// Largest message a client may send: 8 MiB of payload and room for headers around it.
pub const MAX_MESSAGE: usize = 8 * 1024 * 1024 + 64 * 1024;

/// Bytes in front of a reply's body: transport prefix, encryption header, message header, rounded up.
pub const HEADROOM: usize = 128;

/// Bytes of queued replies at which a connection stops being read, so that a client that does not
/// read its answers cannot fill memory.
pub const MAX_QUEUED_REPLY_BYTES: usize = 16 * 1024 * 1024;

/// The same while the client has proved nothing, or while all connections together hold much. With one batch more, which
/// has [`MAX_BATCH_BYTES`] at most, that is 1 MiB.
pub const MAX_UNPROVED_REPLY_BYTES: usize = 512 * 1024;

/// How much of a message is looked at before a client that has proved nothing may send a long one.
pub const HEAD: usize = 4 * 1024;

/// Messages answered before what has been queued is written, so that latency stays bounded.
pub const MAX_BATCH_MESSAGES: usize = 64;

/// Bytes of replies queued in one batch before they are written.
pub const MAX_BATCH_BYTES: usize = 512 * 1024;

/// Bytes of the buffers that hold them, of which answers to small reads use a quarter.
pub const MAX_BATCH_HELD: usize = 4 * MAX_BATCH_BYTES;
