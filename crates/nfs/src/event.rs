//! What reaches a connection besides messages.

/// Something for one connection to do, on its own thread.
#[derive(Debug)]
pub enum Event {
    /// Work on the blocking pool is done: the request is answered.
    Answered {
        /// The finished reply, when there is one.
        frame: Option<wire::Frame>,
    },
    /// Call the client.
    Call(Box<crate::back::Call>),
    /// A session has ended: forget it here.
    SessionGone {
        /// The session.
        session: u64,
    },
    /// Close the connection.
    Close,
}
