//! Log lines about refused requests and closed connections, within the limits of
//! [`RateLimitedLog`](crate::state::rate_limited_log).

use smb_wire::NtStatus;
use wire::{Now, Output};

use super::Connection;
use crate::exchange::Request;
use crate::state::Event;

/// The most characters of a client's user name in a log line.
const MAX_NAME_SHOWN: usize = 64;

impl Connection {
    /// Logs why a request was refused with `status`.
    pub(crate) fn log_refusal(&self, session: u64, status: NtStatus, what: &str, now: Now) {
        let peer = self.handle.peer.remote;
        let Some(left_out) = self.server.request_log.admit(peer.ip(), now.mono_ns) else { return };
        let known = self.server.session(session);
        let user = known.as_ref().map(|session| session.user_name());
        let left_out = Some(left_out).filter(|&lines| lines > 0);
        tracing::info!(%peer, session, user, %status, left_out, "{what}");
    }

    /// Logs why a log-on is refused, or is allowed with a warning.
    pub(crate) fn log_log_on(&self, user: &str, why: &str, what: &str, now: Now) {
        let peer = self.handle.peer.remote;
        let Some(left_out) = self.server.log_on_log.admit(peer.ip(), now.mono_ns) else { return };
        let left_out = Some(left_out).filter(|&lines| lines > 0);
        let user: String = user.chars().take(MAX_NAME_SHOWN).collect();
        tracing::warn!(%peer, user, why, left_out, "{what}");
    }

    /// Closes the connection after a violation of the protocol, or because nothing is left to say on it.
    pub(crate) fn hang_up(&self, why: &str, now: Now, out: &mut Output<Event>) {
        out.close = true;
        let peer = self.handle.peer.remote;
        let Some(left_out) = self.server.request_log.admit(peer.ip(), now.mono_ns) else { return };
        let left_out = Some(left_out).filter(|&lines| lines > 0);
        tracing::info!(%peer, why, left_out, "closing the connection");
    }

    /// Logs a request without a session on this connection, if other connections carry that session.
    pub(crate) fn log_foreign_session(&self, request: &Request<'_>) {
        if self.server.session(request.session_id).is_some() {
            let what =
                format!("{:?} refused: the session is one of other connections", request.header.command());
            self.log_refusal(request.session_id, NtStatus::USER_SESSION_DELETED, &what, request.now);
        }
    }
}
