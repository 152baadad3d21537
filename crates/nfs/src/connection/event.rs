//! What reaches a connection besides messages.

use std::sync::Arc;

use wire::Mailbox;

use crate::compound::under_way::{Finished, Held};
use crate::state::way::Mail;

/// Something for one connection to do, on its own thread.
#[derive(Debug)]
pub enum Event {
    /// Work on the blocking pool is done: the request is answered.
    Answered {
        /// The finished reply and what is counted of it, when there is one.
        finished: Option<Box<Finished>>,
    },
    /// A COMPOUND on the blocking pool is held by the limits of a share.
    Held(Box<Held>),
    /// Others tell it something.
    Mail(Mail),
}

/// The transport's mailbox as those below see it, who know nothing of a COMPOUND.
pub(crate) struct Letterbox(pub Arc<dyn Mailbox<Event>>);

impl Mailbox<Mail> for Letterbox {
    fn post(&self, mail: Mail) -> bool {
        self.0.post(Event::Mail(mail))
    }
}
