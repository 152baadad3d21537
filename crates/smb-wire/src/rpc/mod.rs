//! RPC over named pipes: enough of MS-RPCE to carry the interfaces that file clients ask on IPC$.
//!
//! [`pipe::Pipe`] is the server end of one open pipe, without any I/O: bytes go in by `write`, replies come
//! out by `read`. What the interfaces say comes from a [`host::Host`]. [`srvsvc`], [`wkssvc`] and [`lsarpc`]
//! each answer one interface; [`pdu`] has the packets, [`ndr`] the way values lie in them.
//!
//! Only connection-oriented version 5.0, little-endian, NDR 2.0 and no authentication of its own: the SMB
//! session has proved who the caller is.

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
