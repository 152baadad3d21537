//! The named limits of the NFS server.

/// Clients at one time, including unconfirmed ones.
pub const MAX_CLIENTS: usize = 4096;
/// Clients of one address that have never had anything open, including unconfirmed ones.
pub const MAX_UNPROVED_CLIENTS_PER_ADDRESS: usize = 256;
/// Clients of one address: a quarter of all clients.
pub const MAX_CLIENTS_PER_ADDRESS: usize = MAX_CLIENTS / 4;
/// A client without open files gives its place to another one of its address if it was silent for this long,
/// in nanoseconds. It loses nothing, and sends EXCHANGE_ID again when it has something to do.
pub const GIVES_PLACE_NS: u64 = 5_000_000_000;
/// Sessions of one client.
pub const MAX_SESSIONS_PER_CLIENT: usize = 64;
/// Sessions of all clients: four times the number that [`MAX_UNPROVED_CLIENTS_PER_ADDRESS`] clients can have.
pub const MAX_SESSIONS: usize = 65_536;
/// Slots of a session whose client asks for as many as possible.
pub const MAX_SLOTS: u32 = 1024;
/// Opens, lock-owners and delegations of all clients.
pub const MAX_STATES: usize = 1 << 20;
/// Opens, lock-owners and delegations of one client.
pub const MAX_STATES_PER_CLIENT: usize = 1 << 18;
/// Operations in one COMPOUND.
pub const MAX_OPERATIONS: u32 = 128;
/// The most data of one READ or WRITE, in bytes.
pub const MAX_IO: u32 = 1 << 20;
/// The longest request or reply of a session in bytes: data, and room for everything around it.
pub const MAX_CHANNEL_MESSAGE: u32 = MAX_IO + 64 * 1024;
/// The smallest bound for requests or replies that a session may ask for, in bytes.
pub const MIN_CHANNEL_MESSAGE: u32 = 256;
/// The longest message on a connection without a session, in bytes. Nothing longer is needed before there is
/// a session. A longer message is read if it begins with SEQUENCE.
pub const MAX_MESSAGE_WITHOUT_SESSION: usize = 128 * 1024;
/// The longest reply that is kept for a retry, in bytes.
pub const MAX_CACHED_REPLY: u32 = 8 * 1024;
/// Sessions whose requests one connection carries.
pub const MAX_SESSIONS_PER_CONNECTION: usize = 64;
/// Requests of one connection on the blocking pool at one time.
pub const MAX_WORKING: usize = 1024;
/// Credentials that a connection remembers.
pub const MAX_REMEMBERED_CREDENTIALS: usize = 32;
/// Checked filehandles that a connection remembers.
pub const REMEMBERED_HANDLES: usize = 32;
/// Items in the cache. Each may hold a descriptor of the host.
pub const MAX_KEPT_ITEMS: usize = 4096;
/// The time for which an unused item stays in the cache, in nanoseconds.
pub const ITEM_IDLE_NS: u64 = 2_000_000_000;
/// The delay before a recall is repeated that the client has refused, in nanoseconds.
pub const RECALL_AGAIN_NS: u64 = 1_000_000_000;
/// The time after which an unanswered recall is sent on another connection too, in nanoseconds.
pub const RECALL_SILENT_NS: u64 = 5_000_000_000;
/// The time that a client has to report the times that it keeps, in nanoseconds. After that its delegation is
/// recalled.
pub const HOLDER_QUERY_NS: u64 = 2_000_000_000;
/// The longest symbolic link in bytes.
pub const MAX_LINK_TEXT: usize = 4095;
/// The time for which a silent client keeps its state if nobody else needs the room, in nanoseconds.
pub const COURTESY_NS: u64 = 24 * 3600 * 1_000_000_000;
