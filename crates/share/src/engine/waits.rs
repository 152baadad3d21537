//! Who waits, until when, and who is told.

mod clients;
mod tickets;

pub(super) use tickets::Waits;
