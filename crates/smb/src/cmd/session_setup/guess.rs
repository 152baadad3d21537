//! Judging a password: at once, or in its turn where one for the same user from the same address has failed (`brake.rs`).

use auth::{Refusal, Step, fold_name};
use smb_wire::NtStatus;

use super::{Purpose, Users, abandon};
use crate::brake::{Tried, Try};
use crate::connection::Connection;
use crate::dispatch::Request;
use crate::exchange::outcome::{Aside, Stop};

/// Hands a token to the log-on at `at`, and says besides for which user it is one that proves a password.
///
/// # Errors
/// [`Aside::Turn`] when it is not its turn yet, and the refusal when too many wait.
pub(super) fn judge(
    connection: &mut Connection,
    request: &mut Request<'_>,
    at: usize,
    token: &[u8],
) -> Result<(Step, Option<String>), Stop> {
    let (server, from) = (connection.server.clone(), connection.handle.peer.remote.ip());
    let users = Users(&server);
    let setup = &connection.setups[at];
    let Some(user) = setup.acceptor.claimed(token, &users) else {
        let step = connection.setups[at].acceptor.step(token, &users, request.now);
        return Ok((step, None));
    };
    // A channel is asked for with the session's key, which its user alone has. But it must not serve to try the passwords of
    // others.
    let is_own = setup.binds() && fold_name(setup.session.user_name()) == user;
    let delay_ns = server.config().guess_delay_ns;
    if is_own || delay_ns == 0 {
        let step = connection.setups[at].acceptor.step(token, &users, request.now);
        return Ok((step, Some(user)));
    }
    let waiter = {
        let id = connection.async_id(request);
        connection.waiter(id)
    };
    let key = server.brake.key(&user, from);
    let one = Try { key, place: request.turn.take(), waiter, delay_ns, now_ns: request.now.mono_ns };
    let acceptor = &mut connection.setups[at].acceptor;
    let tried = server.brake.judge(one, || {
        let step = acceptor.step(token, &users, request.now);
        let has_failed = matches!(step, Step::Refused(Refusal::WrongCredentials));
        (step, has_failed)
    });
    match tried {
        Tried::Judged(step) => Ok((step, Some(user))),
        Tried::Later(place) => Err(Stop::Aside(Aside::Turn(place))),
        Tried::Refused => {
            let why = "too many tries for this user from this address wait already";
            connection.warn_of_log_on(&user, why, "log-on refused", request.now);
            let setup = connection.setups.remove(at);
            // Nothing was said about the password, so a session that was to be renewed goes on.
            if setup.purpose == Purpose::New {
                abandon(connection, &setup, request);
            }
            Err(Stop::Fail(NtStatus::REQUEST_NOT_ACCEPTED))
        }
    }
}
