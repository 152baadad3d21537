//! RPC over named pipes: the part of MS-RPCE that file clients need for the interfaces on IPC$.
//!
//! [`pipe::Pipe`] is the server end of one open pipe, without any I/O. Bytes go in by `write`, and replies
//! come out by `read`. A [`host::Host`] has the values that the interfaces return. [`srvsvc`], [`wkssvc`]
//! and [`lsarpc`] have one interface each. [`pdu`] has the packets, and [`ndr`] the encoding of values.
//!
//! It supports only connection-oriented version 5.0, little-endian, NDR 2.0 and no authentication of its
//! own: the SMB session has authenticated the caller.

mod fault;
mod handles;
pub mod host;
pub mod interface;
pub mod lsarpc;
pub mod ndr;
pub mod pdu;
pub mod pipe;
pub mod sid;
pub mod srvsvc;
pub mod wkssvc;

#[cfg(test)]
mod tests;

pub use fault::Fault;
pub use host::{Account, Host, NameUse, Resolved, ServerFacts, Share, ShareType};
pub use interface::{Interface, PipeName};
pub use pipe::{Pipe, PipeError};
