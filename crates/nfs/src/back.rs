//! The back channel of a session: slots in which the server calls the client (RFC 8881 2.10.3).
//!
//! A call goes out on any connection that is bound to the back channel. When that connection is lost before the
//! client has answered, the call is made again on another one; when there is none, the engine takes the right away.

use std::collections::VecDeque;
use std::sync::Arc;

use nfs_wire::op::backchannel_ctl::SecParms;
use nfs_wire::rpc::{AuthSys, Credential};
use nfs_wire::xdr::List;
use parking_lot::Mutex;
use share::BreakNotice;

use crate::event::Event;
use crate::session::Session;
use crate::state::State;

/// Calls of one session that wait for a slot.
const MAX_WAITING: usize = 4096;

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

/// A delegation to be recalled.
#[derive(Clone)]
pub struct Recall {
    /// The delegation.
    pub state: Arc<State>,
    /// What the engine has said.
    pub notice: BreakNotice,
}

/// A recall on its way.
pub struct Call {
    /// The session.
    pub session: Arc<Session>,
    /// The slot.
    pub slot: u32,
    /// Its number.
    pub sequence: u32,
    /// What is called for.
    pub recall: Recall,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("slot", &self.slot)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Slots {
    /// Number of the last call, and whether it is under way.
    slots: Vec<(u32, bool)>,
    waiting: VecDeque<Recall>,
}

/// The slots of a back channel.
#[derive(Default)]
pub struct Back(Mutex<Slots>);

impl Back {
    /// With so many slots.
    #[must_use]
    pub fn new(slots: u32) -> Back {
        Back(Mutex::new(Slots { slots: vec![(0, false); slots as usize], waiting: VecDeque::new() }))
    }

    /// Takes a slot, or lets the recall wait for one. False when neither can be.
    fn begin(&self, recall: &Recall) -> Result<Option<(u32, u32)>, ()> {
        let mut back = self.0.lock();
        if let Some(at) = back.slots.iter().position(|(_, busy)| !busy) {
            let (sequence, busy) = &mut back.slots[at];
            (*sequence, *busy) = (sequence.wrapping_add(1), true);
            return Ok(Some((at as u32, *sequence)));
        }
        if back.waiting.len() >= MAX_WAITING {
            return Err(());
        }
        back.waiting.push_back(recall.clone());
        Ok(None)
    }

    /// A call is answered, or will never be; the recall that goes next.
    fn finish(&self, slot: u32, was_seen: bool) -> Option<Recall> {
        let mut back = self.0.lock();
        if let Some((sequence, busy)) = back.slots.get_mut(slot as usize) {
            *busy = false;
            // What the client has not seen has not used its number up.
            if !was_seen {
                *sequence = sequence.wrapping_sub(1);
            }
        }
        back.waiting.pop_front()
    }
}

/// Sends a recall on any connection of a session. False when there is none.
pub fn send(session: &Arc<Session>, recall: &Recall) -> bool {
    let ways = session.back_ways();
    if ways.is_empty() || session.has_ended() {
        return false;
    }
    let Ok(begun) = session.calls.begin(recall) else { return false };
    let Some((slot, sequence)) = begun else { return true };
    for way in ways {
        let call = Call { session: Arc::clone(session), slot, sequence, recall: recall.clone() };
        if way.post(Event::Call(Box::new(call))) {
            return true;
        }
    }
    let waiting = session.calls.finish(slot, false);
    drop(waiting);
    false
}

/// A call is over; what waited for its slot goes out.
pub fn over(session: &Arc<Session>, slot: u32, was_seen: bool) {
    if let Some(next) = session.calls.finish(slot, was_seen)
        && !recall(&next)
    {
        next.state.export.engine.undelivered(&next.notice);
    }
}

/// Recalls a delegation on any session of its client. False when the client cannot be reached.
pub fn recall(recall: &Recall) -> bool {
    let Some(client) = recall.state.delegation().and_then(|delegation| delegation.client.upgrade()) else {
        return false;
    };
    client.sessions().iter().any(|session| send(session, recall))
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
