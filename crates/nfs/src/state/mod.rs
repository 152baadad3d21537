//! What outlives a request: who the clients are, and what they have.
//!
//! | file | what |
//! |---|---|
//! | [`who`] | who makes a request: its credential, and the principal that a client belongs to |
//! | [`filehandle`], [`items`] | filehandles, and what they lead to as long as that is remembered |
//! | [`client`], [`clients`] | a client with all it has, and the table of them |
//! | [`session`], [`slot`], [`reply_memory`] | a session, its slots, and the memory for their replies |
//! | [`way`] | a connection as the others see it |
//! | [`callback`], [`back_channel`] | why the server calls a client, and the slots in which it does |
//! | [`stateid`], [`open`], [`delegation`], [`share_reservation`] | what a stateid stands for |
//! | [`delegated_times`], [`question`] | times that the holder of a delegation keeps, and what it is asked of them |
//! | [`reopens`] | which files clients have opened before |
//! | [`turns`] | one change at a time of what a client has of a file |
//! | [`record`], [`roll`], [`grace`] | what is kept over a restart, and for whom |
//!
//! [`client`], [`session`], [`way`] and [`back_channel`] know each other: a client has sessions, a session has connections, and a
//! call to the client goes over any of them. Every other file here knows only files that do not know it.

pub mod back_channel;
pub mod callback;
pub mod client;
pub mod clients;
pub mod delegated_times;
pub mod delegation;
pub mod filehandle;
pub mod grace;
pub mod items;
pub mod open;
pub mod question;
pub mod record;
pub mod reopens;
pub mod reply_memory;
pub mod roll;
pub mod session;
pub mod share_reservation;
pub mod slot;
pub mod stateid;
pub mod turns;
pub mod way;
pub mod who;
