//! Layer 1: what a share may do a second, and what was asked of it.
//!
//! [`limits`] holds requests until their time has come, [`counts`] notes how they went. Neither does anything to a file:
//! files, clients and requests are numbers here ([`who`]).

pub mod counts;
pub mod limits;
pub mod who;

pub use who::{ClientKey, FileNumber, Waiter, Wake};
