//! Layer 1: XDR, ONC RPC and the COMPOUNDs of NFSv4.1 and 4.2 as typed values. No state, no sockets.
//!
//! The layers of a message, from the outside in:
//!
//! - [`rpc`]: record marks, calls, replies and credentials (RFC 5531).
//! - [`compound`]: COMPOUND in both directions. A server reads with [`compound::CompoundArgs`], which returns
//!   one [`op::Args`] after the other, and writes with [`compound::ReplyWriter`]. A client writes with
//!   [`compound::CallWriter`] and reads with [`compound::Reply`]. [`callback`] is the same for
//!   CB_COMPOUND.
//! - [`op`]: arguments and results of each operation (RFC 8881 18, RFC 7862 15, RFC 8276 8.4).
//! - [`attr`]: bitmaps and attributes. [`types`], [`status`]: common types of all operations.
//! - [`xdr`]: reading and writing of single values (RFC 4506).
//!
//! Reading borrows variable-length data from the message and allocates nothing. Every length is checked
//! against the message and against [`limits`], and no input causes a panic. Numbers from a closed set are
//! enums that keep unknown values. Only the discriminant of a union must be known, since otherwise its end is
//! unknown. Structures and fields have the names of the RFCs, without their prefixes.

mod macros;

pub mod attr;
pub mod callback;
pub mod compound;
pub mod limits;
pub mod op;
pub mod rpc;
pub mod status;
pub mod types;
pub mod xdr;

pub use status::NfsStat;
/// A server replies NFS4ERR_BADXDR inside a COMPOUND, and GARBAGE_ARGS before one.
pub use wire::malformed::Malformed;
