//! What is to be sent once no lock is held.

use crate::{BreakNotice, Cause, Ticket};

/// What a call has found out under a lock and must send when it is released.
#[derive(Default)]
#[must_use]
pub(crate) struct Effects {
    pub notices: Vec<BreakNotice>,
    pub wakes: Vec<Ticket>,
    /// What they were found due by.
    pub cause: Cause,
}
