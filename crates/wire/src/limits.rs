//! The named limits of the transport. Each protocol has its own beside its code.

/// Largest message a client may send: 8 MiB of payload and room for headers around it.
pub const MAX_MESSAGE: usize = 8 * 1024 * 1024 + 64 * 1024;

/// Bytes before a reply's body: transport prefix, encryption header, message header, rounded up.
pub const HEADROOM: usize = 128;

/// Bytes of queued replies at which a connection is no longer read, so that a client that does not read its
/// replies cannot fill memory.
pub const MAX_QUEUED_REPLY_BYTES: usize = 16 * 1024 * 1024;

/// The same for an unproved client, or while all connections together hold much. Together with one more
/// batch, of at most [`MAX_BATCH_BYTES`], that is 1 MiB.
pub const MAX_UNPROVED_REPLY_BYTES: usize = 512 * 1024;

/// The bytes of a message that are examined before an unproved client may send a long one.
pub const HEAD: usize = 4 * 1024;

/// Messages that are answered before the queued replies are written, so that latency stays bounded.
pub const MAX_BATCH_MESSAGES: usize = 64;

/// Bytes of replies in one batch before they are written.
pub const MAX_BATCH_BYTES: usize = 512 * 1024;

/// Bytes of the buffers that hold them. Replies to small reads use a quarter of these.
pub const MAX_BATCH_HELD: usize = 4 * MAX_BATCH_BYTES;
