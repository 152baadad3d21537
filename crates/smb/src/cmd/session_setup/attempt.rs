//! Judges a password, with a delay if one has failed for the same user from the same address
//! (`state/password_delay.rs`).

use auth::{Refusal, Step, fold_name};
use smb_wire::NtStatus;

use super::{LogOn, Users};
use crate::connection::setup::Purpose;
use crate::exchange::{ParkReason, Stop};
use crate::state::password_delay::{AttemptOutcome, PasswordAttempt};

impl LogOn<'_, '_> {
    /// Passes a token to the log-on at `at`. Also returns the user if the token proves a password.
    ///
    /// # Errors
    /// [`ParkReason::LogOnDelay`] if the attempt must wait, and a refusal if too many wait.
    pub(super) fn judge(&mut self, at: usize, token: &[u8]) -> Result<(Step, Option<String>), Stop> {
        let (server, from) = (self.connection.server.clone(), self.connection.handle.peer.remote.ip());
        let (users, now) = (Users(&server), self.request.now);
        let setup = &mut self.connection.setups[at];
        let claimed = setup.acceptor.claimed(token, &users);
        // A binding is signed with the session's key, which only its user has. But it must not serve to try
        // the passwords of other users.
        let is_own = |user: &String| setup.binds() && fold_name(setup.session.user_name()) == *user;
        let delay_ns = server.config().guess_delay_ns;
        let Some(user) = claimed.clone().filter(|user| !is_own(user) && delay_ns > 0) else {
            return Ok((setup.acceptor.step(token, &users, now), claimed));
        };
        let waiter = self.connection.waiter_for(self.request);
        let (key, queued) = (server.password_delays.key(&user, from), self.request.queued_attempt.take());
        let acceptor = &mut self.connection.setups[at].acceptor;
        let tried = server.password_delays.judge(
            PasswordAttempt { key, queued, waiter, delay_ns, now_ns: now.mono_ns },
            || {
                let step = acceptor.step(token, &users, now);
                let has_failed = matches!(step, Step::Refused(Refusal::WrongCredentials));
                (step, has_failed)
            },
        );
        match tried {
            AttemptOutcome::Judged(step) => Ok((step, Some(user))),
            AttemptOutcome::Later(queued) => Err(Stop::Park(ParkReason::LogOnDelay(queued))),
            AttemptOutcome::Refused => {
                let why = "too many tries for this user from this address wait already";
                let setup = self.connection.setups.remove(at);
                self.refuse_log_on(&setup, &user, why, "log-on refused");
                // The password was not judged, so a session that was to be reauthenticated goes on.
                if setup.purpose == Purpose::New {
                    self.abandon(&setup);
                }
                Err(Stop::Fail(NtStatus::REQUEST_NOT_ACCEPTED))
            }
        }
    }
}
