//! The result of a call on the engine that may have to wait.

use crate::Refusal;

/// Identifies one wait. A caller has at most one at a time for a request. When it is woken, it tries the
/// request again from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The result of a call that may conflict with another client's right.
#[derive(Debug)]
#[must_use]
pub enum CallResult<T> {
    /// It is done.
    Done(T),
    /// It cannot be done yet: a caching right is being broken, a byte range is held, or a delayed conflict
    /// runs. Nothing has been changed. The caller's [`crate::Waiter`] is woken once, when it is worth trying
    /// again. Until then [`crate::Share::cancel`] cancels the wait.
    Wait(Ticket),
    /// It will not be done.
    Refused(Refusal),
}

impl<T> CallResult<T> {
    /// The same step with another result.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> CallResult<U> {
        match self {
            CallResult::Done(done) => CallResult::Done(f(done)),
            CallResult::Wait(ticket) => CallResult::Wait(ticket),
            CallResult::Refused(why) => CallResult::Refused(why),
        }
    }
}

impl<T> From<Result<T, Refusal>> for CallResult<T> {
    fn from(result: Result<T, Refusal>) -> Self {
        match result {
            Ok(done) => CallResult::Done(done),
            Err(why) => CallResult::Refused(why),
        }
    }
}
