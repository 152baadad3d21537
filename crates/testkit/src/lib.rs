//! What the tests of several crates share.
//!
//! - [`smb`] and [`nfs`]: a server in this process, and clients that speak to it in whole messages, without
//!   sockets and in a time of their own.
//! - [`samba`] and [`ganesha`]: Debian's servers, started by the scripts of `proving/servers`; [`proxy`], a
//!   way to a server that can be cut; [`channels`], what a session with several channels must do with any
//!   server.
//! - [`program`]: our program in a directory of its own.
//! - [`allocations`]: those of the server's threads, counted.
//!
//! Each has a feature, so that the tests of a crate build only what they use. A crate has this one among its
//! `dev-dependencies`, also where this one depends on it: only tests below `tests/` may use it then, since
//! those beside the code would meet a second copy of their crate.

#![allow(clippy::new_without_default, reason = "tests say what they make")]

#[cfg(feature = "allocations")]
pub mod allocations;
#[cfg(feature = "foreign")]
pub mod channels;
#[cfg(feature = "foreign")]
pub mod ganesha;
#[cfg(feature = "nfs")]
pub mod nfs;
#[cfg(feature = "program")]
pub mod program;
#[cfg(feature = "foreign")]
pub mod proxy;
#[cfg(feature = "foreign")]
pub mod samba;
#[cfg(feature = "smb")]
pub mod smb;
