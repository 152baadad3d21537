//! The named bounds of the NFS server.

/// Clients that are known at one time, those that are not confirmed included.
pub const MAX_CLIENTS: usize = 4096;
/// Clients of one address that have never had anything open, those that are not confirmed included.
pub const MAX_UNPROVED_CLIENTS_PER_ADDRESS: usize = 256;
/// Clients of one address: a quarter of all.
pub const MAX_CLIENTS_PER_ADDRESS: usize = MAX_CLIENTS / 4;
/// A client that has nothing open gives its place up to another one of its address when it was silent for so long, in
/// nanoseconds. It loses nothing, and introduces itself again when it has something to do.
pub const GIVES_PLACE_NS: u64 = 5_000_000_000;
/// Sessions of one client.
pub const MAX_SESSIONS_PER_CLIENT: usize = 64;
/// Sessions of all clients: four times what [`MAX_UNPROVED_CLIENTS_PER_ADDRESS`] can have.
pub const MAX_SESSIONS: usize = 65_536;
/// Slots of a session that asks for as many as it can get.
pub const MAX_SLOTS: u32 = 1024;
/// Opens, owners of locks and delegations of all clients.
pub const MAX_STATES: usize = 1 << 20;
/// Opens, owners of locks and delegations of one client.
pub const MAX_STATES_PER_CLIENT: usize = 1 << 18;
/// Operations of one COMPOUND.
pub const MAX_OPERATIONS: u32 = 128;
/// Most data of one READ or WRITE in bytes.
pub const MAX_IO: u32 = 1 << 20;
/// Longest request or reply of a session in bytes: data, and room for everything around it.
pub const MAX_CHANNEL_MESSAGE: u32 = MAX_IO + 64 * 1024;
/// Shortest request or reply that a session may ask for in bytes.
pub const MIN_CHANNEL_MESSAGE: u32 = 256;
/// Longest message on a connection that carries no session, in bytes. There is no more to say before there is one, and a longer
/// one is taken when it begins with a SEQUENCE.
pub const MAX_MESSAGE_WITHOUT_SESSION: usize = 128 * 1024;
/// Longest reply that is kept for a retry in bytes.
pub const MAX_CACHED_REPLY: u32 = 8 * 1024;
/// Sessions that one connection carries requests of.
pub const MAX_SESSIONS_PER_CONNECTION: usize = 64;
/// Requests of one connection that run on the blocking pool at one time.
pub const MAX_WORKING: usize = 1024;
/// Identities that a connection remembers.
pub const MAX_REMEMBERED_CREDENTIALS: usize = 32;
/// Handles that a connection remembers to have checked.
pub const REMEMBERED_HANDLES: usize = 32;
/// Items that are kept from one request to the next, each of which may hold a descriptor of the host.
pub const MAX_KEPT_ITEMS: usize = 4096;
/// How long an item is kept that nobody asks for, in nanoseconds.
pub const ITEM_IDLE_NS: u64 = 2_000_000_000;
/// When a recall is made again that the client has refused, in nanoseconds.
pub const RECALL_AGAIN_NS: u64 = 1_000_000_000;
/// How long a recall waits for its answer before it is made on another connection too, in nanoseconds.
pub const RECALL_SILENT_NS: u64 = 5_000_000_000;
/// How long a client that keeps a file's times has to tell them, in nanoseconds, before it is asked to give its delegation back.
pub const QUESTION_NS: u64 = 2_000_000_000;
/// Longest symbolic link in bytes.
pub const MAX_LINK_TEXT: usize = 4095;
/// How long a client that was not heard of keeps what it has while nobody else wants it, in nanoseconds.
pub const COURTESY_NS: u64 = 24 * 3600 * 1_000_000_000;
