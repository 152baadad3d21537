//! What outlives a request: who the clients are, and what they have.
//!
//! | file | what |
//! |---|---|
//! | [`who`] | who makes a request: its credential, and the principal that a client belongs to |
//! | [`filehandle`], [`items`] | filehandles, and what they lead to as long as that is remembered |
//! | [`client`], [`clients`] | a client with all it has, and the table of them |
//! | [`session`], [`slot`], [`reply_memory`] | a session, its slots, and the memory for their replies |
//! | [`back_channel`] | the slots in which the server calls a client |
//! | [`stateid`] | what a stateid stands for |
//! | [`question`] | times that the holder of a delegation keeps, and what it is asked of them |
//! | [`turns`] | one change at a time of what a client has of a file |
//! | [`record`], [`roll`], [`grace`] | what is kept over a restart, and for whom |

pub mod back_channel;
pub mod client;
pub mod clients;
pub mod filehandle;
pub mod grace;
pub mod items;
pub mod question;
pub mod record;
pub mod reply_memory;
pub mod roll;
pub mod session;
pub mod slot;
pub mod stateid;
pub mod turns;
pub mod who;
