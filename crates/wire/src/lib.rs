//! Layer 0: what every protocol and the transport share, and nothing of any protocol.
//!
//! Start with [`endpoint`]: the contract between a protocol's state machine and the transport that
//! carries it. [`frame`] holds the reply buffers, [`cursor`] the bounded readers and writers that
//! all codecs use, [`clock`] the time that is handed in, [`fold`] when two letters are the same but for
//! their case, [`table`] finds entries without a lock, [`shrink`] gives back the room of tables that were
//! larger, [`transfer`] says how large data leaves a connection, [`limits`] are the named bounds, [`malformed`] is the error of all parsers, [`wire_enum`] numbers of which not all values are known.

pub mod clock;
pub mod cursor;
pub mod endpoint;
pub mod fold;
pub mod frame;
pub mod limits;
mod macros;
pub mod malformed;
pub mod shrink;
pub mod table;
pub mod transfer;

pub use clock::Now;
pub use cursor::{Cursor, Truncated, Writer};
pub use endpoint::{Conversation, Job, Mailbox, Output, Peer};
pub use frame::{FileRange, Frame, FramePool, Source};
pub use malformed::Malformed;
pub use shrink::Shrink;
pub use transfer::{SendFile, Transfer};
