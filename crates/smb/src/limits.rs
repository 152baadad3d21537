//! The bounds of the SMB server, each with its reason.

/// Credits that a connection may hold. It is also the widest span of message ids in use. Windows Server has
/// the same value.
pub const MAX_CREDITS: u16 = 8192;

/// Largest READ, WRITE and TRANSACT: 8 MiB, as Windows Server offers with large MTU.
pub const MAX_IO: u32 = 8 * 1024 * 1024;

/// Largest READ, WRITE and TRANSACT for a dialect without multi-credit requests (MS-SMB2 3.3.5.4).
pub const MAX_IO_SMALL: u32 = 64 * 1024;

/// The most remembered CREATEs whose replay came before the original. The original then does nothing when it
/// comes late. It comes while a lost connection still has unread bytes, and such replays are rare.
pub const MAX_REPLAYED: usize = 4096;

/// Sessions that one connection may carry.
pub const MAX_SESSIONS_PER_CONNECTION: usize = 1024;

/// Unfinished log-ons on one connection. A client logs on one session after the other, and at most once for
/// each of its users at the same time.
pub const MAX_SETUPS_PER_CONNECTION: usize = 16;

/// Unfinished log-ons on all connections. Each keeps up to 6 KiB from its client.
pub const MAX_SETUPS: usize = 4096;

/// The most channels of one session, whatever is configured. Windows Server allows as many.
pub const MAX_CHANNELS: usize = 32;

/// Channels of one session unless the configuration says otherwise. Windows clients open as many to one
/// address.
pub const DEFAULT_CHANNELS: usize = 4;

/// Ended sessions whose keys a connection keeps. It signs the reply with them that the session has ended.
pub const MAX_PARTING: usize = 16;

/// Trees in one session.
pub const MAX_TREES_PER_SESSION: usize = 4096;

/// Bytes that a session takes of the memory for sessions ([`share::ClientMemory`]): its keys once for itself
/// and once for its first channel.
pub const SESSION_BYTES: usize = 8 * 1024;

/// Bytes that a tree takes of that memory.
pub const TREE_BYTES: usize = 256;

/// Waiting requests of one connection. Windows Server has the same: one less than the 512 credits that it
/// keeps for them.
pub const MAX_WAITING: usize = 511;

/// Bytes of frames and replies that the waiting requests of one connection keep: eight of the largest
/// frames.
pub const MAX_WAITING_BYTES: usize = 8 * wire::limits::MAX_MESSAGE;

/// The bytes that a waiting request may keep without a look at [`MAX_WAITING_BYTES`].
pub const SMALL_WAITING: usize = 64 * 1024;

/// The bytes that a throttled request may keep without a look at [`MAX_WAITING_BYTES`]. As many such
/// requests may wait as there are credits.
pub const SMALL_HELD: usize = 4 * 1024;

/// Replies in one compound.
pub const MAX_COMPOUND: usize = 128;

/// Time from accepting a connection to its first valid session, in nanoseconds.
pub const LOGON_TIME_NS: u64 = 60_000_000_000;

/// Opens of the whole server.
pub const MAX_OPENS: usize = 1 << 20;

/// How long the server keeps a durable Open of version 1, in milliseconds. Windows has the same since 8.
pub const DURABLE_TIME_MS: u32 = 120_000;

/// How long the server keeps a durable Open of version 2 whose client names no time, in milliseconds, as
/// Windows does.
pub const DURABLE_V2_TIME_MS: u32 = 60_000;

/// The longest that the server keeps a durable Open, in milliseconds (MS-SMB2 3.3.5.9.10).
pub const MAX_DURABLE_TIME_MS: u32 = 300_000;

/// How long the server keeps a resilient Open whose client names no time, in milliseconds. Windows has the
/// same since 8.
pub const RESILIENT_TIME_MS: u32 = 120_000;

/// The longest that the server keeps a resilient Open, in milliseconds (MaxResiliencyTimeout of Windows).
pub const MAX_RESILIENT_TIME_MS: u32 = 300_000;

/// Longest message before the first log-on: NEGOTIATE and SESSION_SETUP with room for long tokens.
pub const MAX_MESSAGE_BEFORE_LOGON: usize = 128 * 1024;

/// How long a client's requests for another channel must fail before a silent channel is closed for it, in
/// nanoseconds (`state/channel_limit.rs`).
pub const REPLACE_ATTEMPTS_NS: u64 = 250_000_000;

/// How long a channel must be silent before it is closed for another one, in nanoseconds.
pub const REPLACE_SILENCE_NS: u64 = 2_000_000_000;

/// The longest pause between two attempts that count as one series, in nanoseconds.
pub const REPLACE_PAUSE_NS: u64 = 10_000_000_000;

/// How long a client's host may take to acknowledge a break notice, in nanoseconds: a few of TCP's
/// retransmissions. Then the notice is sent over another channel.
pub const RECEIPT_TIME_NS: u64 = 2_000_000_000;

/// How long a client's host may take before its connection is closed, in nanoseconds. Others wait for the
/// acknowledgment, so this is well below the time for that. A notice that has arrived counts as read when
/// its connection has lasted that long.
pub const SILENCE_NS: u64 = 10_000_000_000;

/// How many log lines about refused requests from one address appear within [`LOG_PERIOD_NS`]: enough
/// to see the cause.
pub const MAX_LOG_LINES: u32 = 10;

/// The period of [`MAX_LOG_LINES`], in nanoseconds.
pub const LOG_PERIOD_NS: u64 = 60_000_000_000;

/// Addresses with a log limit of their own. All others share one.
pub const MAX_LOGGED_ADDRESSES: usize = 1024;

/// How long a CREATE waits for a change through a handle whose session has ended, in nanoseconds. A slow
/// disk takes less, and clients give a request up after a minute.
pub const LATE_CHANGES_NS: u64 = 10_000_000_000;

/// How many arrived notices of one connection are kept until they count as read.
pub const MAX_UNCONFIRMED: usize = 1024;

/// Waiting password attempts for one user from one address. The server refuses more. The last one waits half
/// a minute, about as long as clients do.
pub const MAX_WAITING_ATTEMPTS: usize = 16;

/// Pairs of user and address with a recent failed attempt that the server remembers: 64 bytes each. An
/// attacker who wants the server to forget a pair must fail as often as this, and that takes longer than the
/// wait.
pub const MAX_PASSWORD_DELAYS: usize = 16 * 1024;
