//! Callbacks: their purpose, the credentials that they use, and their results (RFC 8881 20).

use std::sync::Arc;

use nfs_wire::compound::Reply;
use nfs_wire::op::backchannel_ctl::SecParms;
use nfs_wire::rpc::{self, Accepted, AuthSys, Credential};
use nfs_wire::xdr::List;
use nfs_wire::{NfsStat, callback};
use share::BreakNotice;

use crate::state::attribute_query::AttributeQuery;
use crate::state::delegated_times::HolderAttributes;
use crate::state::stateid::LockingState;

/// The credentials that the server uses for callbacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackCredentials {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS, with the user that the client has asked for.
    Sys {
        /// The host name.
        machine: Box<[u8]>,
        /// The user ID.
        uid: u32,
        /// The group ID.
        gid: u32,
    },
}

impl CallbackCredentials {
    /// The first of the offered security parameters that the server supports. None if it supports none of
    /// them.
    #[must_use]
    pub fn first_of(offered: &List<'_, SecParms<'_>>) -> Option<CallbackCredentials> {
        offered.iter().find_map(|one| match one {
            SecParms::None => Some(CallbackCredentials::None),
            SecParms::Sys(sys) => Some(CallbackCredentials::Sys {
                machine: sys.machine_name.into(),
                uid: sys.uid,
                gid: sys.gid,
            }),
            SecParms::Gss(_) => None,
        })
    }

    /// The credentials in wire format.
    #[must_use]
    pub fn credential(&self) -> Credential<'_> {
        match self {
            CallbackCredentials::None => Credential::None,
            CallbackCredentials::Sys { machine, uid, gid } => {
                Credential::Sys(AuthSys::new(machine, *uid, *gid, &[]))
            }
        }
    }
}

/// The parameters of callbacks in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackParams {
    /// The RPC program number of callbacks.
    pub program: u32,
    /// The minor version: that of the session.
    pub minor: u32,
    /// The credentials.
    pub credentials: CallbackCredentials,
}

/// A request to call a client.
#[derive(Clone)]
pub struct CallbackRequest {
    /// The delegation that the callback is about.
    pub state: Arc<LockingState>,
    /// The purpose of the callback.
    pub purpose: CallbackPurpose,
}

/// The purpose of a callback.
#[derive(Clone)]
pub enum CallbackPurpose {
    /// The client is to return the delegation (CB_RECALL), because the engine breaks it.
    Recall(BreakNotice),
    /// The client is to report the attributes that it keeps of the file (CB_GETATTR).
    Attributes(Arc<AttributeQuery>),
}

impl CallbackRequest {
    /// A recall of a delegation.
    #[must_use]
    pub fn recall(state: &Arc<LockingState>, notice: BreakNotice) -> CallbackRequest {
        CallbackRequest { state: Arc::clone(state), purpose: CallbackPurpose::Recall(notice) }
    }

    /// A request for the attributes that the holder keeps.
    #[must_use]
    pub fn ask(query: &Arc<AttributeQuery>) -> CallbackRequest {
        CallbackRequest {
            state: Arc::clone(&query.state),
            purpose: CallbackPurpose::Attributes(Arc::clone(query)),
        }
    }

    /// Whether the reply would still be of use.
    #[must_use]
    pub fn is_of_use(&self) -> bool {
        match &self.purpose {
            CallbackPurpose::Recall(notice) => self.state.export.engine.awaits_acknowledgment(notice),
            CallbackPurpose::Attributes(query) => query.answered().is_none(),
        }
    }

    /// Notes whether the client knows the delegation that it was to return.
    pub fn note_outcome(&self, end: CallbackOutcome) {
        match (&self.purpose, end, self.state.delegation()) {
            (CallbackPurpose::Recall(_), CallbackOutcome::Done, _) => self.state.settle(true),
            (CallbackPurpose::Recall(_), CallbackOutcome::Refused, Some(delegation)) => delegation.refused(),
            _ => {}
        }
    }

    /// Handles a callback that reached nobody. A recall is sent again, not before this time (monotonic ns). A
    /// query ends without a result.
    pub fn keep(&self, at_ns: u64) {
        match &self.purpose {
            CallbackPurpose::Recall(_) => {
                if let Some(delegation) = self.state.delegation() {
                    delegation.recall_again_at(at_ns);
                }
            }
            CallbackPurpose::Attributes(query) => query.answer(None),
        }
    }
}

/// The result of a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackOutcome {
    /// The client has taken the callback and done what it asked for.
    Done,
    /// The client has taken the callback, and refused what it asked for.
    Refused,
    /// The client has not taken the callback. Its sequence ID is still unused.
    NotTaken,
    /// The client has not taken the callback because of its sequence ID.
    Misordered,
    /// The client has not taken the callback, because it does not know the session or the slot.
    Unknown,
}

impl CallbackOutcome {
    /// Reads the result from a client's reply.
    // RFC 8881 20.9.3
    #[must_use]
    pub fn of(reply: &rpc::RpcReply<'_>) -> CallbackOutcome {
        let Ok(Accepted::Success(body)) = reply.outcome else { return CallbackOutcome::NotTaken };
        let Ok(answer) = Reply::parse(body) else { return CallbackOutcome::NotTaken };
        let sequence = match answer.callback_results().next() {
            Some(Ok(callback::Res::Sequence(Ok(_)))) => NfsStat::Ok,
            Some(Ok(callback::Res::Sequence(Err(status)))) => status,
            _ => return CallbackOutcome::NotTaken,
        };
        match (sequence, answer.status) {
            (NfsStat::Ok, NfsStat::Ok) => CallbackOutcome::Done,
            (NfsStat::Ok, _) => CallbackOutcome::Refused,
            (NfsStat::SeqMisordered, _) => CallbackOutcome::Misordered,
            (NfsStat::BadSession | NfsStat::DeadSession | NfsStat::BadSlot, _) => CallbackOutcome::Unknown,
            _ => CallbackOutcome::NotTaken,
        }
    }
}

/// The attributes in a client's reply to CB_GETATTR. None if there are none.
#[must_use]
pub fn attributes_of(reply: &rpc::RpcReply<'_>) -> Option<HolderAttributes> {
    let Ok(Accepted::Success(body)) = reply.outcome else { return None };
    let answer = Reply::parse(body).ok()?;
    match answer.callback_results().nth(1)?.ok()? {
        callback::Res::GetAttr(Ok(given)) => HolderAttributes::read(&given.obj_attributes),
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
        let taken = CallbackCredentials::first_of(&List::of(&offered)).unwrap();
        assert_eq!(taken, CallbackCredentials::Sys { machine: b"host"[..].into(), uid: 7, gid: 8 });
        assert!(matches!(taken.credential(), Credential::Sys(sys) if sys.uid == 7));
        assert_eq!(CallbackCredentials::first_of(&List::of(&offered[1..])), Some(CallbackCredentials::None));
        assert_eq!(CallbackCredentials::first_of(&List::EMPTY), None);
    }
}
