//! What reaches a connection besides messages.

/// Something for one connection to do, on its own thread.
#[derive(Debug)]
pub enum Event {
    /// Work on the blocking pool is done: the request is answered.
    Answered {
        /// The finished reply and what is counted of it, when there is one.
        finished: Option<Box<crate::compound::Finished>>,
    },
    /// A COMPOUND on the blocking pool is held by the limits of a share.
    Held(Box<crate::compound::pacing::Held>),
    /// A COMPOUND that is held may go on.
    LetGo {
        /// Which one.
        token: u64,
    },
    /// Call the client.
    Call(Box<crate::state::back_channel::Call>),
    /// A session has ended: forget it here.
    SessionGone {
        /// The session.
        session: u64,
    },
    /// Close the connection.
    Close,
}
