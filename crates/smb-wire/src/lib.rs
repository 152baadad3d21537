//! Layer 1: MS-SMB2, MS-FSCC and RPC bytes as typed views. No state, no sockets.
//!
//! Start with [`header`]: every message is a 64-byte [`Header`] and a body. There is one module for each
//! command. All of them have the same form:
//!
//! * `Request<'a>` and `Response<'a>` have public fields with the names of MS-SMB2. They borrow the variable
//!   parts from the frame. A parse allocates nothing.
//! * `Request::parse(message)` and `Response::parse(message)` take the bytes of exactly one message, **from
//!   the start of its header**, since MS-SMB2 counts offsets from there. They check the structure size and
//!   every offset and length. The error is [`Malformed`] with the name of the field. They do not check the
//!   header.
//! * `write(&self, out)` appends **the body only**. The header's 64 bytes must end where the body begins. So
//!   a whole message is `Header::push` followed by `write`. Offsets in the body rely on that. Fixed replies
//!   of the hot path can also be written in place ([`read::Response::write_fixed`]).
//! * `payload_len(&self)` of a request is the larger of its sent bytes and the most bytes of the response.
//!   It is the number to compare with the credit charge (MS-SMB2 3.1.5.2 and 3.3.5.2.5).
//!
//! Both directions use one type, so that each side can read what the other writes. Lists that are read
//! lazily ([`WireList`], [`negotiate::Contexts`], [`create_context::Contexts`]) have either bytes of a frame
//! or a slice of values. Numbers from a closed set are enums that keep unknown values. Bit sets keep unknown
//! bits. Names are the UTF-16 of the frame: [`Utf16`].
//!
//! [`error::Response`] replaces the response of a failed request. [`status`] has the status values,
//! [`posix`] the structures of the POSIX extensions, [`fscc`] the information classes and control codes of
//! MS-FSCC, and [`rpc`] the RPC over named pipes.

mod macros;
mod reader;

pub mod cancel;
pub mod change_notify;
pub mod close;
pub mod create;
pub mod create_context;
pub mod echo;
pub mod error;
pub mod flush;
pub mod fscc;
pub mod header;
pub mod id;
pub mod ioctl;
pub mod list;
pub mod lock;
pub mod logoff;
pub mod negotiate;
pub mod notification;
pub mod oplock_break;
pub mod output;
pub mod posix;
pub mod query_directory;
pub mod query_info;
pub mod read;
pub mod rpc;
pub mod session_setup;
pub mod set_info;
pub mod status;
pub mod tree_connect;
pub mod tree_disconnect;
pub mod utf16;
pub mod write;

pub use header::{Header, SmbCommand};
pub use id::{FileId, Guid, LeaseKey};
pub use list::WireList;
pub use status::NtStatus;
pub use utf16::Utf16;
/// A server returns STATUS_INVALID_PARAMETER, unless the section of the command names another status.
pub use wire::malformed::{self, Malformed};
