//! The state that outlives a request: the clients, and everything they have.
//!
//! | file | contents |
//! |---|---|
//! | [`credentials`] | the credentials of a request, and the principal that owns a client |
//! | [`group_lookup`] | the groups of a user by the server's side |
//! | [`filehandle`], [`item_cache`] | filehandles, and a cache of the items behind them |
//! | [`client`], [`clients`] | a client with all its state, and the table of clients |
//! | [`session`], [`slot`], [`reply_memory`] | a session, its slots, and the memory for their replies |
//! | [`connection_handle`] | a connection as the rest of the server sees it |
//! | [`callback`], [`back_channel`] | the purpose of a callback, and the slots that carry it |
//! | [`stateid`], [`open`], [`delegation`], [`share_reservation`] | the state behind a stateid |
//! | [`delegated_times`], [`attribute_query`] | times that a delegation holder keeps, and queries for them |
//! | [`reopens`] | files that clients have opened before |
//! | [`state_locks`] | mutual exclusion between changes of a client's states of a file |
//! | [`record`], [`client_records`], [`grace`] | records over a restart, and the clients that may reclaim |
//! | [`recorded_states`] | the stateids from before a restart |
//!
//! [`client`], [`session`], [`connection_handle`] and [`back_channel`] depend on each other: a client has
//! sessions, a session has connections, and a callback goes over any of them. The dependencies between all
//! other files form no cycle.

pub mod attribute_query;
pub mod back_channel;
pub mod callback;
pub mod client;
pub mod client_records;
pub mod clients;
pub mod connection_handle;
pub mod credentials;
pub mod delegated_times;
pub mod delegation;
pub mod filehandle;
pub mod grace;
pub mod group_lookup;
pub mod item_cache;
pub mod open;
pub mod record;
pub mod recorded_states;
pub mod reopens;
pub mod reply_memory;
pub mod session;
pub mod share_reservation;
pub mod slot;
pub mod state_locks;
pub mod stateid;
