//! The opens of a client, which it reclaims when the server has restarted (RFC 8881 8.4.2).
//!
//! A restart voids every stateid of the server, while the open lives on in the client. So an [`Open`] is
//! known by its file and its open-owner, and its stateid changes. `reclaim` sets the next stateid, or marks
//! the open as lost. [`Opens`] counts the instances of the server that the client has met, so each stateid
//! belongs to a known instance.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nfs_wire::NfsStat;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::types::StateId;

use crate::Error;
use crate::error::Result;

/// An open. A restart of the server replaces its stateid.
#[derive(Debug)]
pub(crate) struct Open {
    /// The file.
    pub(crate) handle: Arc<[u8]>,
    /// The open-owner, which has no other open.
    pub(crate) owner: u32,
    pub(crate) how: OpenOptions,
    state: Mutex<OpenStateid>,
}

#[derive(Debug, Clone, Copy)]
enum OpenStateid {
    /// The stateid, and the instance of the server that issued it.
    Valid(StateId, u64),
    /// The reason why no later instance has it.
    Lost(NfsStat),
}

impl Open {
    /// The open that an OPEN of `handle` by `owner` made: `stateid`, from this `instance` of the server.
    pub(crate) fn new(
        handle: Arc<[u8]>,
        owner: u32,
        how: OpenOptions,
        stateid: StateId,
        instance: u64,
    ) -> Open {
        Open { handle, owner, how, state: Mutex::new(OpenStateid::Valid(stateid, instance)) }
    }

    fn lock(&self) -> MutexGuard<'_, OpenStateid> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present stateid.
    ///
    /// # Errors
    /// [`Error::StateLost`].
    pub(crate) fn stateid(&self) -> Result<StateId> {
        self.valid().map(|(stateid, _)| stateid)
    }

    /// The stateid, and the instance of the server that issued it.
    fn valid(&self) -> Result<(StateId, u64)> {
        match *self.lock() {
            OpenStateid::Valid(stateid, instance) => Ok((stateid, instance)),
            OpenStateid::Lost(status) => Err(Error::StateLost { status }),
        }
    }

    /// The stateid for a request that is written now. Its seqid is left open (RFC 8881 8.2.2), because a
    /// reclaim that was given up on the way may still be carried out. A lost open gets one that no server
    /// confuses with another's (RFC 8881 8.2.3).
    pub(crate) fn argument(&self) -> StateId {
        self.stateid().map_or(StateId::INVALID, |stateid| StateId { seqid: 0, ..stateid })
    }

    /// The instance of the server that issued the stateid.
    ///
    /// # Errors
    /// [`Error::StateLost`].
    pub(crate) fn instance(&self) -> Result<u64> {
        self.valid().map(|(_, instance)| instance)
    }

    /// Sets the `stateid` of a later instance of the server.
    pub(crate) fn renew(&self, stateid: StateId, instance: u64) {
        *self.lock() = OpenStateid::Valid(stateid, instance);
    }

    /// Marks the open as lost. The server has not returned it.
    pub(crate) fn lose(&self, why: NfsStat) {
        *self.lock() = OpenStateid::Lost(why);
    }

    /// Whether it is neither lost nor known to this `instance` of the server.
    fn is_before(&self, instance: u64) -> bool {
        matches!(*self.lock(), OpenStateid::Valid(_, of) if of < instance)
    }
}

/// All opens of a client.
#[derive(Debug, Default)]
pub(crate) struct Opens(Mutex<Registry>);

#[derive(Debug, Default)]
struct Registry {
    instance: u64,
    by_owner: HashMap<u32, Arc<Open>>,
}

impl Opens {
    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the server's instance that the client knows.
    pub(crate) fn instance(&self) -> u64 {
        self.lock().instance
    }

    /// Counts a new instance. The server has restarted, or has dropped all state of the client.
    pub(crate) fn begin_instance(&self) {
        self.lock().instance += 1;
    }

    /// Registers an open. An open from an earlier instance is lost, because the reclaims were made without
    /// it.
    pub(crate) fn enter(&self, open: Open) -> Arc<Open> {
        let (open, mut registry) = (Arc::new(open), self.lock());
        if open.is_before(registry.instance) {
            open.lose(NfsStat::StaleStateId);
        } else {
            registry.by_owner.insert(open.owner, Arc::clone(&open));
        }
        open
    }

    /// Removes an open that is closed or dropped.
    pub(crate) fn remove(&self, open: &Arc<Open>) {
        let mut registry = self.lock();
        // Its owner may have another open by now.
        if registry.by_owner.get(&open.owner).is_some_and(|it| Arc::ptr_eq(it, open)) {
            registry.by_owner.remove(&open.owner);
        }
    }

    /// Whether it is registered, and neither closed nor dropped since.
    pub(crate) fn has(&self, open: &Arc<Open>) -> bool {
        self.lock().by_owner.get(&open.owner).is_some_and(|it| Arc::ptr_eq(it, open))
    }

    /// The opens that the server's present instance has neither returned nor refused.
    pub(crate) fn unclaimed(&self) -> Vec<Arc<Open>> {
        let registry = self.lock();
        let is_unclaimed = |open: &&Arc<Open>| open.is_before(registry.instance);
        registry.by_owner.values().filter(is_unclaimed).cloned().collect()
    }
}

/// The options of an OPEN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// Whether to open it to read.
    pub read: bool,
    /// Whether to open it to write.
    pub write: bool,
    /// Whether to create it.
    pub creation: Creation,
}

/// The treatment of a file that does or does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// It must exist.
    Never,
    /// Create it if it does not exist, with these permission bits.
    IfMissing(u32),
    /// It must not exist. Create it with these permission bits.
    Always(u32),
    /// Create it with these permission bits, or empty it.
    Anew(u32),
}

impl OpenOptions {
    /// Opens an existing file to read.
    #[must_use]
    pub fn read() -> OpenOptions {
        OpenOptions { read: true, write: false, creation: Creation::Never }
    }

    /// Opens a file to read and write.
    #[must_use]
    pub fn write(creation: Creation) -> OpenOptions {
        OpenOptions { read: true, write: true, creation }
    }

    // RFC 8881 18.16.3
    pub(super) fn access(self, wants_delegation: bool) -> ShareAccess {
        let mut access = ShareAccess::empty();
        access.set(ShareAccess::READ, self.read);
        access.set(ShareAccess::WRITE, self.write);
        if wants_delegation { access } else { access | ShareAccess::WANT_NO_DELEG }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(owner: u32, instance: u64) -> Open {
        let stateid = StateId { seqid: 1, other: [owner as u8; 12] };
        Open::new(Arc::from(&b"file"[..]), owner, OpenOptions::read(), stateid, instance)
    }

    fn owners(opens: &[Arc<Open>]) -> Vec<u32> {
        let mut owners: Vec<_> = opens.iter().map(|open| open.owner).collect();
        owners.sort_unstable();
        owners
    }

    #[test]
    fn what_is_open_when_the_server_restarts_is_unclaimed_until_it_is_given_back_or_lost() {
        let opens = Opens::default();
        let all = [1, 2, 3].map(|owner| opens.enter(open(owner, 0)));
        assert_eq!(owners(&opens.unclaimed()), []);
        opens.begin_instance();
        assert_eq!(owners(&opens.unclaimed()), [1, 2, 3]);
        let again = StateId { seqid: 1, other: [9; 12] };
        all[0].renew(again, opens.instance());
        assert_eq!((all[0].argument().seqid, all[0].argument().other), (0, again.other));
        all[1].lose(NfsStat::ReclaimBad);
        assert_eq!(owners(&opens.unclaimed()), [3]);
        assert_eq!(all[0].stateid().unwrap(), again);
        let lost = all[1].stateid().unwrap_err();
        assert!(matches!(lost, Error::StateLost { status: NfsStat::ReclaimBad }), "{lost}");
        assert_eq!(all[1].argument(), StateId::INVALID);
        // A lost open stays lost. The others are reclaimed from the next instance as well.
        opens.begin_instance();
        assert_eq!(owners(&opens.unclaimed()), [1, 3]);
        opens.remove(&all[2]);
        assert_eq!(owners(&opens.unclaimed()), [1]);
    }

    #[test]
    fn an_open_that_is_told_of_after_the_next_restart_is_lost() {
        let opens = Opens::default();
        opens.begin_instance();
        let late = opens.enter(open(1, 0));
        assert!(matches!(late.stateid(), Err(Error::StateLost { status: NfsStat::StaleStateId })));
        assert_eq!(owners(&opens.unclaimed()), []);
    }

    #[test]
    fn a_closed_open_leaves_that_which_has_its_owner_next() {
        let opens = Opens::default();
        let first = opens.enter(open(1, 0));
        opens.remove(&first);
        let next = opens.enter(open(1, 0));
        opens.remove(&first);
        assert!(opens.has(&next) && !opens.has(&first));
        opens.begin_instance();
        assert_eq!(owners(&opens.unclaimed()), [1]);
        assert!(Arc::ptr_eq(&opens.unclaimed()[0], &next));
    }
}
