//! Who waits, until when, and who is told.

mod clients;
mod tickets;

pub(crate) use tickets::Waits;
