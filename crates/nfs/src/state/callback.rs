//! Why and as whom the server calls a client, and how that ends (RFC 8881 20).

use std::sync::Arc;

use nfs_wire::compound::Reply;
use nfs_wire::op::backchannel_ctl::SecParms;
use nfs_wire::rpc::{self, Accepted, AuthSys, Credential};
use nfs_wire::xdr::List;
use nfs_wire::{NfsStat, callback};
use share::BreakNotice;

use crate::state::delegated_times::Told;
use crate::state::question::Question;
use crate::state::stateid::State;

/// Who the server is when it calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Nobody.
    None,
    /// A user whom the client has named.
    Sys {
        /// The name of the host.
        machine: Box<[u8]>,
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
    },
}

impl Caller {
    /// The first way that a client offers and we know; none when there is none.
    #[must_use]
    pub fn first_of(offered: &List<'_, SecParms<'_>>) -> Option<Caller> {
        offered.iter().find_map(|one| match one {
            SecParms::None => Some(Caller::None),
            SecParms::Sys(sys) => {
                Some(Caller::Sys { machine: sys.machine_name.into(), uid: sys.uid, gid: sys.gid })
            }
            SecParms::Gss(_) => None,
        })
    }

    /// As it goes over the wire.
    #[must_use]
    pub fn credential(&self) -> Credential<'_> {
        match self {
            Caller::None => Credential::None,
            Caller::Sys { machine, uid, gid } => Credential::Sys(AuthSys::new(machine, *uid, *gid, &[])),
        }
    }
}

/// How the server calls a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calling {
    /// Program number of callbacks.
    pub program: u32,
    /// Minor version: that of the session.
    pub minor: u32,
    /// Who calls.
    pub caller: Caller,
}

/// Why a client is called.
#[derive(Clone)]
pub struct Errand {
    /// The delegation.
    pub state: Arc<State>,
    /// The reason.
    pub what: What,
}

/// The reason for which a client is called.
#[derive(Clone)]
pub enum What {
    /// To give the delegation back (CB_RECALL), as the engine has said.
    Recall(BreakNotice),
    /// To tell what it keeps of the file (CB_GETATTR).
    Attributes(Arc<Question>),
}

impl Errand {
    /// To recall a delegation.
    #[must_use]
    pub fn recall(state: &Arc<State>, notice: BreakNotice) -> Errand {
        Errand { state: Arc::clone(state), what: What::Recall(notice) }
    }

    /// To ask for what the holder keeps.
    #[must_use]
    pub fn ask(question: &Arc<Question>) -> Errand {
        Errand { state: Arc::clone(&question.state), what: What::Attributes(Arc::clone(question)) }
    }

    /// Whether the answer is still of use.
    #[must_use]
    pub fn is_of_use(&self) -> bool {
        match &self.what {
            What::Recall(notice) => self.state.export.engine.awaits(notice),
            What::Attributes(question) => question.answered().is_none(),
        }
    }

    /// Nobody has heard the call: a recall is made again, not before this time (monotonic ns); who has asked something is told
    /// that there will be no answer.
    pub fn keep(&self, at_ns: u64) {
        match &self.what {
            What::Recall(_) => {
                if let Some(delegation) = self.state.delegation() {
                    delegation.recall_again_at(at_ns);
                }
            }
            What::Attributes(question) => question.answer(None),
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client has done what it was called for.
    Done,
    /// It has taken the call, and refused what it was called for.
    Refused,
    /// It has not taken the call: the number is not used up.
    NotTaken,
    /// It has not taken the call because of its number.
    Misordered,
    /// It has not taken the call because it does not know the session or the slot.
    Unknown,
}

impl End {
    /// What a client's reply says.
    // RFC 8881 20.9.3
    #[must_use]
    pub fn of(reply: &rpc::Reply<'_>) -> End {
        let Ok(Accepted::Success(body)) = reply.outcome else { return End::NotTaken };
        let Ok(answer) = Reply::parse(body) else { return End::NotTaken };
        let sequence = match answer.callback_results().next() {
            Some(Ok(callback::Res::Sequence(Ok(_)))) => NfsStat::Ok,
            Some(Ok(callback::Res::Sequence(Err(status)))) => status,
            _ => return End::NotTaken,
        };
        match (sequence, answer.status) {
            (NfsStat::Ok, NfsStat::Ok) => End::Done,
            (NfsStat::Ok, _) => End::Refused,
            (NfsStat::SeqMisordered, _) => End::Misordered,
            (NfsStat::BadSession | NfsStat::DeadSession | NfsStat::BadSlot, _) => End::Unknown,
            _ => End::NotTaken,
        }
    }
}

/// What a client's reply to CB_GETATTR tells; none when it tells nothing.
#[must_use]
pub fn attributes_of(reply: &rpc::Reply<'_>) -> Option<Told> {
    let Ok(Accepted::Success(body)) = reply.outcome else { return None };
    let answer = Reply::parse(body).ok()?;
    match answer.callback_results().nth(1)?.ok()? {
        callback::Res::GetAttr(Ok(given)) => Told::read(&given.obj_attributes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_way_that_is_known_is_taken() {
        let sys = AuthSys::new(b"host", 7, 8, &[]);
        let offered = [SecParms::Sys(sys), SecParms::None];
        let taken = Caller::first_of(&List::of(&offered)).unwrap();
        assert_eq!(taken, Caller::Sys { machine: b"host"[..].into(), uid: 7, gid: 8 });
        assert!(matches!(taken.credential(), Credential::Sys(sys) if sys.uid == 7));
        assert_eq!(Caller::first_of(&List::of(&offered[1..])), Some(Caller::None));
        assert_eq!(Caller::first_of(&List::EMPTY), None);
    }
}
