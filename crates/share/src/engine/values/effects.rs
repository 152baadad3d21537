//! The notices and wakes to send once no lock is held.

use crate::{BreakNotice, Cause, Ticket};

/// The notices and wakes that a call has collected under a lock. They must be sent after it is released.
#[derive(Default)]
#[must_use]
pub(crate) struct Effects {
    pub notices: Vec<BreakNotice>,
    pub wakes: Vec<Ticket>,
    /// The cause of the notices and wakes.
    pub cause: Cause,
}
