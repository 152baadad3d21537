//! Judges a token: a password, with a delay if one has failed for the same user from the same address
//! (`state/password_delay.rs`), or a ticket, on the blocking pool.

use std::sync::Arc;

use auth::{Refusal, Step, fold_name};
use parking_lot::Mutex;
use share::Identity;
use smb_wire::NtStatus;

use super::{LogOn, Users};
use crate::config::kerberos::PrincipalRefusal;
use crate::connection::setup::{JudgedToken, LogOnJob, Purpose};
use crate::exchange::{ParkReason, Stop};
use crate::state::password_delay::{AttemptOutcome, PasswordAttempt};

/// The identity of a ticket's principal.
pub(super) type ResolvedIdentity = Result<Arc<Identity>, PrincipalRefusal>;

/// The judgment of a token.
pub(super) struct Judgment {
    pub step: Step,
    /// The user, if the token proves a password, or the principal or user that has proved itself before.
    pub user: Option<String>,
    /// The identity, if the token proves a principal.
    pub identity: Option<ResolvedIdentity>,
}

impl LogOn<'_, '_> {
    /// Passes a token to the log-on at `at`.
    ///
    /// # Errors
    /// [`ParkReason::LogOn`] if the token goes to the blocking pool, [`ParkReason::LogOnDelay`] if the
    /// attempt must wait, and a refusal if too many wait.
    pub(super) fn judge(&mut self, at: usize, token: &[u8]) -> Result<Judgment, Stop> {
        let setup = &mut self.connection.setups[at];
        if let Some(job) = self.request.log_on_job.take() {
            // A job that has panicked leaves no result.
            let judged = job.result.lock().take().ok_or(NtStatus::INTERNAL_ERROR)?;
            let user = judged.acceptor.proved().map(str::to_owned);
            setup.acceptor = Some(judged.acceptor);
            return Ok(Judgment { step: judged.step, user, identity: judged.identity });
        }
        match &setup.acceptor {
            // The client has not waited for the answer to its last token.
            None => Err(Stop::Fail(NtStatus::REQUEST_NOT_ACCEPTED)),
            Some(acceptor) if acceptor.may_block(token) => Err(self.judge_on_pool(at, token)),
            Some(acceptor) => {
                let proved = acceptor.proved().map(str::to_owned);
                let (step, user) = self.judge_password(at, token)?;
                let user = user.or(proved);
                Ok(Judgment { step, user, identity: None })
            }
        }
    }

    /// Passes a token to the blocking pool, with the exchange that it belongs to.
    fn judge_on_pool(&mut self, at: usize, token: &[u8]) -> Stop {
        let setup = &mut self.connection.setups[at];
        let Some(mut acceptor) = setup.acceptor.take() else { return NtStatus::REQUEST_NOT_ACCEPTED.into() };
        let result = Arc::new(Mutex::new(None));
        self.request.log_on_job = Some(LogOnJob { setup: setup.number, result: Arc::clone(&result) });
        let (server, token, now) = (self.connection.server.clone(), token.to_vec(), self.request.now);
        let resolver = self.config.kerberos.as_ref().map(|kerberos| Arc::clone(&kerberos.resolver));
        Stop::Park(ParkReason::LogOn(Box::new(move || {
            let step = acceptor.step(&token, &Users(&server), now);
            let ticket = match &step {
                Step::Done { login, .. } => login.ticket.as_deref(),
                Step::Continue(_) | Step::Refused(_) => None,
            };
            let identity = ticket.zip(resolver).map(|(ticket, resolver)| resolver.resolve(ticket));
            *result.lock() = Some(JudgedToken { acceptor, step, identity });
        })))
    }

    /// Passes a token of NTLM to the log-on at `at`. Also returns the user if the token proves a password.
    fn judge_password(&mut self, at: usize, token: &[u8]) -> Result<(Step, Option<String>), Stop> {
        let (server, from) = (self.connection.server.clone(), self.connection.handle.peer.remote.ip());
        let (users, now) = (Users(&server), self.request.now);
        let setup = &mut self.connection.setups[at];
        let acceptor = setup.acceptor.as_mut().ok_or(NtStatus::REQUEST_NOT_ACCEPTED)?;
        let claimed = acceptor.claimed(token, &users);
        // A binding is signed with the session's key, which only its user has. But it must not serve to try
        // the passwords of other users.
        let is_bound = setup.purpose == Purpose::Bind;
        let is_own = |user: &String| is_bound && fold_name(setup.session.user_name()) == *user;
        let delay_ns = server.config().guess_delay_ns;
        let Some(user) = claimed.clone().filter(|user| !is_own(user) && delay_ns > 0) else {
            return Ok((acceptor.step(token, &users, now), claimed));
        };
        let waiter = self.connection.waiter_for(self.request);
        let (key, queued) = (server.password_delays.key(&user, from), self.request.queued_attempt.take());
        let acceptor = &mut self.connection.setups[at].acceptor;
        let acceptor = acceptor.as_mut().ok_or(NtStatus::REQUEST_NOT_ACCEPTED)?;
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
