//! Layer 1: XDR, ONC RPC and the COMPOUNDs of NFSv4.1 and 4.2 as typed values. No state, no sockets.
//!
//! The layers of a message, outside in:
//!
//! * [`rpc`]: record marks, calls, replies and credentials (RFC 5531).
//! * [`compound`]: COMPOUND in both directions. A server reads with [`compound::Call`], which hands out one
//!   [`op::Args`] after the other, and writes with [`compound::ReplyWriter`]; a client writes with
//!   [`compound::CallWriter`] and reads with [`compound::Reply`]. [`callback`] is the same for CB_COMPOUND.
//! * [`op`]: arguments and results of each operation (RFC 8881 18, RFC 7862 15, RFC 8276 8.4).
//! * [`attr`]: bitmaps and attributes. [`types`], [`status`]: what all operations share.
//! * [`xdr`]: how a single value is read and written (RFC 4506).
//!
//! Reading borrows what is variable from the message and allocates nothing; every length is checked against the
//! message and against [`limits`], and no bytes make it panic. Numbers from a closed set are enums that keep values
//! they do not know; only the discriminant of a union must be known, since otherwise nobody can tell where it
//! ends. Names of structures and fields are those of the RFCs without their prefixes.

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
/// A server answers NFS4ERR_BADXDR inside a COMPOUND and GARBAGE_ARGS in front of one.
pub use wire::malformed::Malformed;
