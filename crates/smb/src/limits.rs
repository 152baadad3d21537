//! The bounds of the SMB server, each with its reason.

/// Credits a connection may hold, and the widest span of message ids in use, as Windows Server has it.
pub const MAX_CREDITS: u16 = 8192;

/// Largest READ, WRITE and TRANSACT: 8 MiB, as Windows Server offers with large MTU.
pub const MAX_IO: u32 = 8 * 1024 * 1024;

/// The same for a dialect without multi-credit requests (MS-SMB2 3.3.5.4).
pub const MAX_IO_SMALL: u32 = 64 * 1024;

/// CREATEs that came as a replay first whose names are remembered, so that the first one does nothing when it comes
/// late. It comes within the time that a lost connection still has unread bytes, and replays are rare.
pub const MAX_REPLAYED: usize = 4096;

/// Sessions that one connection may carry.
pub const MAX_SESSIONS_PER_CONNECTION: usize = 1024;

/// Log-ons that are half done on one connection. A client does them one after the other, and one for each of its users at
/// the same time at most.
pub const MAX_SETUPS_PER_CONNECTION: usize = 16;

/// Log-ons that are half done on all connections: each keeps up to 6 KiB of what its client sent.
pub const MAX_SETUPS: usize = 4096;

/// Channels that one session may have at most, whatever is configured: what Windows Server allows.
pub const MAX_CHANNELS: usize = 32;

/// Channels of one session unless the configuration says otherwise: what Windows clients open to one address.
pub const DEFAULT_CHANNELS: usize = 4;

/// Sessions that have ended whose keys a connection keeps, to sign that they have.
pub const MAX_PARTING: usize = 16;

/// Trees in one session.
pub const MAX_TREES_PER_SESSION: usize = 4096;

/// Bytes of a session in the memory for sessions ([`share::ClientMemory`]): its keys once for itself and for its first channel.
pub const SESSION_BYTES: usize = 8 * 1024;

/// Bytes of a tree in it.
pub const TREE_BYTES: usize = 256;

/// Requests of one connection that wait for something, as Windows Server has it: one less than the 512 credits that it keeps for them.
pub const MAX_WAITING: usize = 511;

/// Bytes of frames and answers that one connection's waiting requests keep: eight of the largest frames.
pub const MAX_WAITING_BYTES: usize = 8 * wire::limits::MAX_MESSAGE;

/// What a waiting request may keep without a look at [`MAX_WAITING_BYTES`].
pub const SMALL_WAITING: usize = 64 * 1024;

/// What a request that is held by its share's limits may keep without a look at [`MAX_WAITING_BYTES`]; as many as there are
/// credits may be held.
pub const SMALL_HELD: usize = 4 * 1024;

/// Answers in one compound.
pub const MAX_COMPOUND: usize = 128;

/// Time from accepting a connection to its first valid session, in nanoseconds.
pub const LOGON_TIME_NS: u64 = 60_000_000_000;

/// Opens of the whole server.
pub const MAX_OPENS: usize = 1 << 20;

/// How long a durable Open of the first version is kept, in milliseconds, as Windows has it since 8.
pub const DURABLE_TIME_MS: u32 = 120_000;

/// How long one of the second version is kept whose client names no time, in milliseconds, as Windows has it.
pub const DURABLE_V2_TIME_MS: u32 = 60_000;

/// The longest that a durable Open is kept, in milliseconds (MS-SMB2 3.3.5.9.10).
pub const MAX_DURABLE_TIME_MS: u32 = 300_000;

/// How long a resilient Open is kept whose client names no time, in milliseconds, as Windows has it since 8.
pub const RESILIENT_TIME_MS: u32 = 120_000;

/// The longest that a resilient Open is kept, in milliseconds, as Windows has it (MaxResiliencyTimeout).
pub const MAX_RESILIENT_TIME_MS: u32 = 300_000;

/// Longest message before the first log-on: NEGOTIATE and SESSION_SETUP with room for long tokens.
pub const MAX_MESSAGE_BEFORE_LOGON: usize = 128 * 1024;

/// How long a client that wants more channels than it may have must ask in vain before a silent one gives its
/// place up, in nanoseconds (`state/room.rs`).
pub const ROOM_ASKING_NS: u64 = 250_000_000;

/// How long nothing must have come over a channel before it gives its place up, in nanoseconds.
pub const ROOM_SILENCE_NS: u64 = 2_000_000_000;

/// The longest pause between two attempts that belong together, in nanoseconds.
pub const ROOM_PAUSE_NS: u64 = 10_000_000_000;

/// How long a client's host may take to acknowledge a break notice before it is sent over another channel, in
/// nanoseconds: a few of TCP's retransmissions.
pub const RECEIPT_TIME_NS: u64 = 2_000_000_000;

/// The same before the connection is closed, since others wait for the answer; well below the time for that. A notice that
/// has arrived counts as read when its connection has lasted so long.
pub const SILENCE_NS: u64 = 10_000_000_000;

/// How many lines the log has about refused requests from one address within [`COMPLAINTS_TIME_NS`]: enough to see what
/// goes on.
pub const MAX_COMPLAINTS: u32 = 10;

/// The time for that, in nanoseconds.
pub const COMPLAINTS_TIME_NS: u64 = 60_000_000_000;

/// Addresses of which that is known; all others share one bound.
pub const MAX_COMPLAINED: usize = 1024;

/// How long a CREATE waits for a change that is still being carried out through a handle whose session has ended, in
/// nanoseconds: longer than a slow disk takes, and well below the minute after which clients give a request up.
pub const LATE_CHANGES_NS: u64 = 10_000_000_000;

/// How many notices of one connection that have arrived are kept until they count as read.
pub const MAX_UNPROVED: usize = 1024;

/// Tries of a password for one user from one address that wait for their turn; more are refused. The last one waits half a
/// minute, about as long as clients do.
pub const MAX_TRIES_WAITING: usize = 16;

/// Users and addresses of which it is known that a try has failed of late: 64 bytes each. Who makes the server forget one must
/// fail this often, which takes longer than to wait.
pub const MAX_BRAKED: usize = 16 * 1024;
