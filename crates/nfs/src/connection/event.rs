//! Events for a connection besides messages.

use std::sync::Arc;

use wire::Mailbox;

use crate::compound::active::{Finished, SuspendedCompound};
use crate::state::connection_handle::Mail;

/// An event that a connection handles on its own thread.
#[derive(Debug)]
pub enum Event {
    /// A job on the blocking pool has ended and its reply is ready.
    Answered {
        /// The finished COMPOUND. None if it had ended before.
        finished: Option<Box<Finished>>,
    },
    /// A COMPOUND on the blocking pool waits for the limits of a share.
    Suspended(Box<SuspendedCompound>),
    /// A message from another part of the server.
    Mail(Mail),
}

/// Adapts the transport's mailbox for the layers below, which know no COMPOUND.
pub(crate) struct EventMailbox(pub Arc<dyn Mailbox<Event>>);

impl Mailbox<Mail> for EventMailbox {
    fn post(&self, mail: Mail) -> bool {
        self.0.post(Event::Mail(mail))
    }
}
