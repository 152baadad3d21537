//! Layer 1: the provisioned limits of a share, and the counters of its requests.
//!
//! [`limits`] holds requests until a rate allows them, and [`counts`] counts their outcome. Neither touches a
//! file: files, clients and requests are numbers here ([`keys`]).

pub mod counts;
pub mod keys;
pub mod limits;

pub use keys::{ClientKey, FileNumber, Waiter, Wake};
