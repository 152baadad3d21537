//! COMPOUND: a sequence of operations in one call (RFC 8881 16.2).
//!
//! | | reads | writes |
//! |---|---|---|
//! | server | [`CompoundArgs`], [`Operations`] | [`ReplyWriter`] |
//! | client | [`Reply`], [`Results`] | [`CallWriter`] |
//!
//! The writers own a [`wire::Frame`] and fill it from the record mark on, so a finished frame can be sent as
//! it is.

mod call;
mod reply;

pub use call::{BadOperation, CallWriter, CompoundArgs, Operations, Target};
pub use reply::{Mark, ReadPlace, Reply, ReplyWriter, Results};
