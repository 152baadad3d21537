//! Layer 1: MS-SMB2, MS-FSCC and RPC bytes as typed views. No state, no sockets.
//!
//! Start with [`header`]: every message is a 64-byte [`Header`] and a body. There is one module for
//! each command, and all of them have the same shape:
//!
//! * `Request<'a>` and `Response<'a>` have public fields, named as in MS-SMB2, and borrow what is
//!   variable from the frame. Parsing allocates nothing.
//! * `Request::parse(message)` and `Response::parse(message)` take the bytes of exactly one message,
//!   **from the start of its header**, since that is where MS-SMB2 counts offsets from. They check the
//!   structure size and every offset and length, and answer [`Malformed`] with the name of the field.
//!   They do not look at the header.
//! * `write(&self, out)` appends **the body only**. The header's 64 bytes must end where the body
//!   begins, so a whole message is `Header::push` followed by `write`; offsets in the body count on that.
//!   Fixed replies of the hot path can also be written in place ([`read::Response::write_fixed`]).
//! * `payload_len(&self)`, on requests, is the larger of what is sent and what may be answered, in
//!   bytes: the number to hold against the credit charge (MS-SMB2 3.1.5.2 and 3.3.5.2.5).
//!
//! Both directions use one type, so that what one side writes the other can read. Lists that are read
//! lazily ([`List`], [`negotiate::Contexts`], [`create_context::Contexts`]) hold either bytes of a frame
//! or a slice of values to write. Numbers from a closed set are enums that keep values they do not know;
//! bit sets keep bits they do not know. Names are UTF-16 as they stand in the frame: [`Utf16`].
//!
//! A failed request is answered with [`error::Response`] in the place of its own response. [`status`]
//! names the results, [`posix`] has the structures of the POSIX extensions, [`fscc`] the information
//! classes and control codes of MS-FSCC, and [`rpc`] what travels through named pipes.

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

pub use header::{Command, Header};
pub use id::{FileId, Guid, LeaseKey};
pub use list::List;
pub use status::NtStatus;
pub use utf16::Utf16;
/// A server answers STATUS_INVALID_PARAMETER or, where the section of the command says so, something else.
pub use wire::malformed::{self, Malformed};
