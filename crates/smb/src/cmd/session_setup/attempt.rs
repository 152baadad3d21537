//! Judges a token: a password, with a delay if one has failed for the same user from the same address
//! (`state/password_delay.rs`), or a ticket. Tickets and passwords of the domain are judged on the blocking
//! pool.

use std::sync::Arc;

use auth::{PassThroughRefusalKind, Refusal, Step, fold_name};
use parking_lot::Mutex;
use share::{Identity, RequesterScope};
use smb_wire::NtStatus;

use super::{LogOn, Users};
use crate::config::kerberos::{PrincipalRefusal, PrincipalResolver};
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
            let proved = judged.acceptor.proved().map(str::to_owned);
            setup.acceptor = Some(judged.acceptor);
            return Ok(Judgment {
                step: judged.step,
                user: judged.user.or(proved),
                identity: judged.identity,
            });
        }
        // The client has not waited for the answer to its last token.
        let acceptor = setup.acceptor.as_ref().ok_or(Stop::Fail(NtStatus::REQUEST_NOT_ACCEPTED))?;
        if acceptor.may_block(token, &Users(&self.connection.server)) {
            return Err(self.judge_on_pool(at, token));
        }
        let proved = acceptor.proved().map(str::to_owned);
        let (step, user) = self.judge_password(at, token)?;
        Ok(Judgment { step, user: user.or(proved), identity: None })
    }

    /// Passes a token to the blocking pool, with the exchange that it belongs to.
    fn judge_on_pool(&mut self, at: usize, token: &[u8]) -> Stop {
        let user = self.claimed(at, token);
        let one = user.as_deref().and_then(|user| self.attempt(at, user, true));
        let attempt = match one.map(|one| self.connection.server.password_delays.begin(one)) {
            Some(AttemptOutcome::Judged(pending)) => Some(pending),
            Some(AttemptOutcome::Later(queued)) => return Stop::Park(ParkReason::LogOnDelay(queued)),
            Some(AttemptOutcome::Refused) => return self.refuse_attempt(at, &user.unwrap_or_default()),
            None => None,
        };
        let setup = &mut self.connection.setups[at];
        let Some(mut acceptor) = setup.acceptor.take() else { return NtStatus::REQUEST_NOT_ACCEPTED.into() };
        let result = Arc::new(Mutex::new(None));
        self.request.log_on_job = Some(LogOnJob { setup: setup.number, result: Arc::clone(&result) });
        let (server, token, now) = (self.connection.server.clone(), token.to_vec(), self.request.now);
        let resolver = self.config.principal_resolver();
        let from = self.connection.handle.peer.remote.ip();
        Stop::Park(ParkReason::LogOn(Box::new(move || {
            let _scope = RequesterScope::enter(from);
            let step = acceptor.step(&token, &Users(&server), now);
            if let Some(attempt) = attempt {
                attempt.end(has_failed(&step));
            }
            let identity = resolver.and_then(|resolver| identity_of(&step, &*resolver));
            *result.lock() = Some(JudgedToken { acceptor, step, user, identity });
        })))
    }

    /// Passes a token of NTLM to the log-on at `at`. Also returns the user if the token proves a password.
    fn judge_password(&mut self, at: usize, token: &[u8]) -> Result<(Step, Option<String>), Stop> {
        let (server, now) = (self.connection.server.clone(), self.request.now);
        let users = Users(&server);
        let user = self.claimed(at, token);
        let attempt = user.as_deref().and_then(|user| self.attempt(at, user, false));
        let acceptor = &mut self.connection.setups[at].acceptor;
        let acceptor = acceptor.as_mut().ok_or(NtStatus::REQUEST_NOT_ACCEPTED)?;
        let Some(one) = attempt else { return Ok((acceptor.step(token, &users, now), user)) };
        let tried = server.password_delays.judge(one, || {
            let step = acceptor.step(token, &users, now);
            let has_failed = has_failed(&step);
            (step, has_failed)
        });
        match tried {
            AttemptOutcome::Judged(step) => Ok((step, user)),
            AttemptOutcome::Later(queued) => Err(Stop::Park(ParkReason::LogOnDelay(queued))),
            AttemptOutcome::Refused => Err(self.refuse_attempt(at, &user.unwrap_or_default())),
        }
    }

    /// The user whose password a token proves.
    fn claimed(&self, at: usize, token: &[u8]) -> Option<String> {
        let acceptor = self.connection.setups[at].acceptor.as_ref()?;
        acceptor.claimed(token, &Users(&self.connection.server))
    }

    /// The attempt at the password of `user`, if failures delay it. `is_of_domain` says whether it is a user
    /// of the domain.
    fn attempt(&mut self, at: usize, user: &str, is_of_domain: bool) -> Option<PasswordAttempt> {
        let server = &self.connection.server;
        let (from, now_ns) = (self.connection.handle.peer.remote.ip(), self.request.now.mono_ns);
        let setup = &self.connection.setups[at];
        // A binding is signed with the session's key, which only its user has. But it must not serve to try
        // the passwords of other users.
        let own = match (is_of_domain, setup.session.user_name().split_once('\\')) {
            (true, Some((_, name))) => Some(name),
            (true, None) => None,
            (false, _) => Some(setup.session.user_name()),
        };
        let is_own = setup.purpose == Purpose::Bind && own.is_some_and(|own| fold_name(own) == user);
        let delay_ns = server.config().guess_delay_ns;
        if is_own || delay_ns == 0 {
            return None;
        }
        let key = server.password_delays.key(user, from);
        let waiter = self.connection.waiter_for(self.request);
        let queued = self.request.queued_attempt.take();
        Some(PasswordAttempt { key, queued, waiter, delay_ns, now_ns })
    }

    /// Refuses an attempt, since too many wait.
    fn refuse_attempt(&mut self, at: usize, user: &str) -> Stop {
        let why = "too many tries for this user from this address wait already";
        let setup = self.connection.setups.remove(at);
        self.refuse_log_on(&setup, user, why, "log-on refused");
        // The password was not judged, so a session that was to be reauthenticated goes on.
        if setup.purpose == Purpose::New {
            self.abandon(&setup);
        }
        Stop::Fail(NtStatus::REQUEST_NOT_ACCEPTED)
    }
}

/// Whether a password was judged to be wrong.
fn has_failed(step: &Step) -> bool {
    match step {
        Step::Refused(Refusal::WrongCredentials) => true,
        Step::Refused(Refusal::PassThrough(why)) => why.kind == PassThroughRefusalKind::WrongCredentials,
        Step::Refused(_) | Step::Continue(_) | Step::Done { .. } => false,
    }
}

/// The identity of a client that has proved itself with a ticket, or as a user of the domain.
fn identity_of(step: &Step, resolver: &dyn PrincipalResolver) -> Option<ResolvedIdentity> {
    let Step::Done { login, .. } = step else { return None };
    match (&login.ticket, &login.domain_account) {
        (Some(ticket), _) => Some(resolver.resolve(ticket)),
        (None, Some(account)) => Some(resolver.resolve_account(account)),
        (None, None) => None,
    }
}
