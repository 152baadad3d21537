//! The bounds of the SMB server, each with its reason.

/// Credits a connection may hold, and the widest span of message ids in use, as Windows Server has it.
pub const MAX_CREDITS: u16 = 8192;

/// Largest READ, WRITE and TRANSACT: 8 MiB, as Windows Server offers with large MTU.
pub const MAX_IO: u32 = 8 * 1024 * 1024;

/// The same for a dialect without multi-credit requests (MS-SMB2 3.3.5.4).
pub const MAX_IO_SMALL: u32 = 64 * 1024;

/// Sessions that one connection may carry.
pub const MAX_SESSIONS_PER_CONNECTION: usize = 1024;

/// Trees in one session.
pub const MAX_TREES_PER_SESSION: usize = 4096;

/// Requests of one connection that wait for something.
pub const MAX_WAITING: usize = 512;

/// Bytes of frames and answers that one connection's waiting requests keep: eight of the largest frames.
pub const MAX_WAITING_BYTES: usize = 8 * wire::limits::MAX_MESSAGE;

/// What a waiting request may keep without a look at [`MAX_WAITING_BYTES`].
pub const SMALL_WAITING: usize = 64 * 1024;

/// Answers in one compound.
pub const MAX_COMPOUND: usize = 128;

/// Time from accepting a connection to its first valid session, in nanoseconds.
pub const LOGON_TIME_NS: u64 = 60_000_000_000;

/// Opens of the whole server.
pub const MAX_OPENS: usize = 1 << 20;

/// Longest message before the first log-on: NEGOTIATE and SESSION_SETUP with room for long tokens.
pub const MAX_MESSAGE_BEFORE_LOGON: usize = 128 * 1024;
