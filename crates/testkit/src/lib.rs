//! Helpers for the tests of several crates.
//!
//! - [`smb`] and [`nfs`]: a server in this process, and clients that exchange whole messages with it, without
//!   sockets and with a simulated clock.
//! - [`samba`] and [`ganesha`]: Debian's servers, started by the scripts of `proving/servers`. [`proxy`]: a
//!   path to a server that can be cut. [`channels`]: checks of a session with several channels for any
//!   server.
//! - [`program`]: the program in its own directory.
//! - [`allocations`]: counts the allocations of the server's threads.
//! - [`dice`]: repeatable chance for simulations.
//!
//! Each has a feature, so that the tests of a crate build only the parts that they use. Crates have this
//! crate among their `dev-dependencies`, even if this crate depends on them. In that case only tests below
//! `tests/` may use it, since unit tests would get a second copy of their own crate.

#![allow(clippy::new_without_default, reason = "tests say what they make")]

#[cfg(feature = "allocations")]
pub mod allocations;
#[cfg(feature = "foreign")]
pub mod channels;
#[cfg(feature = "dice")]
pub mod dice;
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
