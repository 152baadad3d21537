//! Requests that wait, their deadlines, and the clients to notify.

mod clients;
mod tickets;

pub(crate) use tickets::Waits;
