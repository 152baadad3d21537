//! The table of opens whose clients are gone.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use volume::security::Sid;

use crate::ranked::{Mutex, Rank};
use crate::{ClientKey, Detached, Open};

/// The time after which an open counts as unclaimed. It starts when its client is back, and again with each
/// open that the client reclaims.
pub(crate) const UNCLAIMED_NS: u64 = 10_000_000_000;

/// The client and user that may reclaim an open.
pub(crate) type ReclaimOwner = (ClientKey, Sid);

/// The opens of a share that are detached.
pub(crate) struct DetachedTable(Mutex<DetachedOpens>);

impl Default for DetachedTable {
    fn default() -> DetachedTable {
        DetachedTable(Mutex::of_default(Rank::Detached))
    }
}

#[derive(Default)]
struct DetachedOpens {
    opens: HashMap<u64, DetachedEntry>,
    /// The end of each, with its id.
    ends: BTreeSet<(u64, u64)>,
    /// The owners of these opens.
    owners: HashMap<ReclaimOwner, AbsentOwner>,
}

struct DetachedEntry {
    open: Arc<Open>,
    how: Detached,
    /// None for an open that is claimed anew.
    owner: Option<ReclaimOwner>,
}

/// The state of an owner that is away or just back.
#[derive(Default)]
struct AbsentOwner {
    opens: usize,
    /// The number of its opens from before a restart that are not restored yet.
    unrestored: usize,
    /// When the client came back, or reclaimed its last open until now, or when its last open was restored.
    sign_ns: Option<u64>,
    /// Whether all its unclaimed opens were looked at since.
    is_swept: bool,
}

impl AbsentOwner {
    /// Whether it has been back without a sign for this time.
    fn is_back(&self, now_ns: u64, after_ns: u64) -> bool {
        self.sign_ns.is_some_and(|at| at.saturating_add(after_ns) <= now_ns)
    }
}

impl DetachedOpens {
    fn take(&mut self, id: u64) -> Option<(Arc<Open>, Detached)> {
        let DetachedEntry { open, how, owner } = self.opens.remove(&id)?;
        self.ends.remove(&(how.until_ns, id));
        if let Some(owner) = owner
            && let Some(absence) = self.owners.get_mut(&owner)
        {
            absence.opens -= 1;
            self.forget_if_unused(owner);
        }
        Some((open, how))
    }

    fn forget_if_unused(&mut self, owner: ReclaimOwner) {
        if self.owners.get(&owner).is_some_and(|absence| absence.opens + absence.unrestored == 0) {
            self.owners.remove(&owner);
        }
    }

    /// Whether this open's owner has been back without a sign for this time.
    fn is_unclaimed(&self, entry: &DetachedEntry, now_ns: u64, after_ns: u64) -> bool {
        let owner = entry.owner.as_ref().and_then(|owner| self.owners.get(owner));
        owner.is_some_and(|owner| owner.is_back(now_ns, after_ns))
    }

    /// When the opens of an owner that is back are looked at next.
    fn next_sweep(&self) -> Option<u64> {
        let signs = self.owners.values().filter(|owner| !owner.is_swept).filter_map(|owner| owner.sign_ns);
        signs.min().map(|at| at.saturating_add(UNCLAIMED_NS))
    }
}

impl DetachedTable {
    /// Notes an open of an owner that will be restored.
    pub fn await_restored(&self, owner: ReclaimOwner) {
        self.0.lock().owners.entry(owner).or_default().unrestored += 1;
    }

    /// An open that was expected is restored, or will not be.
    pub fn note_restored(&self, owner: ReclaimOwner) {
        let mut kept = self.0.lock();
        if let Some(absence) = kept.owners.get_mut(&owner) {
            absence.unrestored = absence.unrestored.saturating_sub(1);
            kept.forget_if_unused(owner);
        }
    }

    /// Enters an open. Returns false if there are `most` already. A client that lost its connection with the
    /// open is to come back once more. If the open was restored just now (`restored_ns`), the client may be
    /// back, and has had no chance to reclaim the open before.
    pub fn enter(&self, open: &Arc<Open>, how: Detached, most: usize, restored_ns: Option<u64>) -> bool {
        let mut kept = self.0.lock();
        if kept.opens.len() >= most {
            return false;
        }
        kept.ends.insert((how.until_ns, open.id));
        let owner = owner(open);
        if let Some(owner) = owner {
            let absence = kept.owners.entry(owner).or_default();
            absence.opens += 1;
            absence.is_swept = false;
            absence.sign_ns =
                restored_ns.and_then(|now_ns| absence.sign_ns.map(|sign_ns| sign_ns.max(now_ns)));
        }
        kept.opens.insert(open.id, DetachedEntry { open: Arc::clone(open), how, owner });
        true
    }

    /// Takes an open out. Only one caller gets it.
    pub fn take(&self, id: u64) -> Option<(Arc<Open>, Detached)> {
        self.0.lock().take(id)
    }

    /// Records a sign that an owner is there.
    pub fn sign(&self, owner: ReclaimOwner, now_ns: u64) {
        if let Some(absence) = self.0.lock().owners.get_mut(&owner) {
            (absence.sign_ns, absence.is_swept) = (Some(now_ns), false);
        }
    }

    /// The opens that a returned owner has not reclaimed yet, and the time of its last sign.
    pub fn not_taken_up(&self, owner: ReclaimOwner) -> Option<(u64, Vec<Arc<Open>>)> {
        let kept = self.0.lock();
        let sign_ns = kept.owners.get(&owner)?.sign_ns?;
        let theirs = kept.opens.values().filter(|one| one.owner == Some(owner));
        Some((sign_ns, theirs.map(|one| Arc::clone(&one.open)).collect()))
    }

    /// The opens that `is_meant` selects and whose owners have been back without a sign for this time.
    pub fn unclaimed(&self, now_ns: u64, after_ns: u64, is_meant: impl Fn(&Open) -> bool) -> Vec<Arc<Open>> {
        let kept = self.0.lock();
        let is_back = |owner: &AbsentOwner| owner.is_back(now_ns, after_ns);
        if !kept.owners.values().any(is_back) {
            return Vec::new();
        }
        let unclaimed = kept.opens.values().filter(|one| kept.is_unclaimed(one, now_ns, after_ns));
        unclaimed.filter(|one| is_meant(&one.open)).map(|one| Arc::clone(&one.open)).collect()
    }

    /// Whether it is time to look at the opens of an owner that is back. Returns true once for each return.
    pub fn begin_sweep(&self, now_ns: u64) -> bool {
        let mut kept = self.0.lock();
        if kept.next_sweep().is_none_or(|at| at > now_ns) {
            return false;
        }
        for owner in kept.owners.values_mut() {
            owner.is_swept |= owner.is_back(now_ns, UNCLAIMED_NS);
        }
        true
    }

    /// Takes an open out if it is still unclaimed.
    pub fn take_unclaimed(&self, id: u64, now_ns: u64, after_ns: u64) -> Option<(Arc<Open>, Detached)> {
        let mut kept = self.0.lock();
        let is_due = kept.opens.get(&id).is_some_and(|one| kept.is_unclaimed(one, now_ns, after_ns));
        if is_due { kept.take(id) } else { None }
    }

    /// Takes out an open whose time is over.
    pub fn take_ended(&self, now_ns: u64) -> Option<(Arc<Open>, Detached)> {
        let mut kept = self.0.lock();
        let &(_, id) = kept.ends.first().filter(|(at, _)| *at <= now_ns)?;
        kept.take(id)
    }

    /// When the next open ends.
    pub fn next_end(&self) -> Option<u64> {
        let kept = self.0.lock();
        let end = kept.ends.first().map(|(at, _)| *at);
        end.into_iter().chain(kept.next_sweep()).min()
    }

    /// The opens that end with the process.
    pub fn ending(&self) -> Vec<u64> {
        let kept = self.0.lock();
        kept.opens.iter().filter(|(_, one)| !one.open.is_persistent()).map(|(id, _)| *id).collect()
    }

    /// The opens that yield to other requests.
    pub fn yielding(&self) -> Vec<u64> {
        let kept = self.0.lock();
        kept.opens.iter().filter(|(_, one)| one.how.yields).map(|(id, _)| *id).collect()
    }

    pub fn of(&self, id: u64) -> Option<Detached> {
        self.0.lock().opens.get(&id).map(|one| one.how.clone())
    }
}

/// The owner that may reclaim an open; none if it is claimed anew.
pub(crate) fn owner(open: &Open) -> Option<ReclaimOwner> {
    let client = open.requester().client.filter(|_| !open.is_claimed_anew())?;
    Some((client, open.identity().sid))
}
