//! Layer 0: the common parts of every protocol and of the transport. Nothing here belongs to one protocol.
//!
//! Start with [`endpoint`]: the contract between a protocol's state machine and the transport that carries
//! it. Then:
//!
//! - [`frame`] has the reply buffers.
//! - [`cursor`] has the bounded readers and writers of all codecs.
//! - [`clock`] is the time, which is passed as an argument.
//! - [`address`] tells the host of an address.
//! - [`calendar`] has the date of a day.
//! - [`fold`] compares letters without case.
//! - [`table`] finds entries without a lock.
//! - [`shrink`] frees the room of tables that were larger.
//! - [`transfer`] is the choice of how large data is sent.
//! - [`limits`] are the named limits.
//! - [`malformed`] is the error of all parsers.
//! - [`wire_enum`] defines numbers with unknown values.

pub mod address;
pub mod calendar;
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
