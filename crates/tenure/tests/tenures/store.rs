//! The tenure store, which gives each virtual server to one node at a time, with a lease.

use tenure::{Epoch, NodeOwner, OwnershipEvent, StoreError, TakeOutcome, Taken, TenureRecord};

use crate::clock::{TrueTime, nanos};
use crate::world::{Defect, ProcessId, World, WorldEvent};

/// A call of a node.
#[derive(Debug)]
pub enum StoreCall {
    /// The node has read the record of this epoch before.
    Take {
        owner: NodeOwner,
        overrides_reservation: bool,
        seen: Epoch,
    },
    Renew(Epoch),
    Update(TenureRecord),
    Release(TenureRecord),
}

/// The outcome of a call, without the time at which it was asked.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "few exist at a time")]
pub enum StoreReply {
    Took(Result<TakeOutcome, StoreError>),
    Renewed(Result<Option<std::time::Duration>, StoreError>),
    Updated(Result<(), StoreError>),
    Released(Result<(), StoreError>),
}

impl StoreCall {
    /// The outcome of this call if no reply comes.
    pub fn unheard(&self) -> StoreReply {
        let error = StoreError::Unreachable("no reply".to_owned());
        match self {
            StoreCall::Take { .. } => StoreReply::Took(Err(error)),
            StoreCall::Renew(_) => StoreReply::Renewed(Err(error)),
            StoreCall::Update(_) => StoreReply::Updated(Err(error)),
            StoreCall::Release(_) => StoreReply::Released(Err(error)),
        }
    }
}

impl StoreReply {
    pub fn event(self, asked: tenure::BootTime) -> OwnershipEvent {
        match self {
            StoreReply::Took(outcome) => OwnershipEvent::Took { asked, outcome },
            StoreReply::Renewed(outcome) => OwnershipEvent::Renewed { asked, outcome },
            StoreReply::Updated(outcome) => OwnershipEvent::Updated(outcome),
            StoreReply::Released(outcome) => OwnershipEvent::Released(outcome),
        }
    }
}

/// The lease of the present owner.
#[derive(Debug)]
pub struct StoreLease {
    pub epoch: u64,
    pub ends: TrueTime,
}

/// The entry of one virtual server in the store.
#[derive(Debug, Default)]
pub struct StoreEntry {
    pub record: TenureRecord,
    pub lease: Option<StoreLease>,
    watchers: Vec<ProcessId>,
}

impl StoreEntry {
    /// Whether the store counts the term of this epoch as running.
    pub fn is_owner(&self, epoch: u64, now: TrueTime) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.epoch == epoch && now < lease.ends)
    }
}

impl World {
    /// The end of a lease that is given or renewed now. The store is never early.
    fn lease_end(&self) -> TrueTime {
        let term = nanos(self.habits.granted);
        self.now + term + term / 1000 * self.habits.late_leases
    }

    /// Carries out a call that has arrived at the store.
    pub fn at_store(&mut self, server: u32, from: ProcessId, call: StoreCall) -> StoreReply {
        let refused = || StoreError::NotOwner("another epoch".to_owned());
        let ends = self.lease_end();
        let term = self.habits.granted;
        let compares = self.defect != Defect::EpochNotCompared;
        let entry = &mut self.servers[server as usize].entry;
        let lease = entry.lease.as_mut();
        match call {
            StoreCall::Take { seen, .. } if compares && seen != entry.record.epoch => {
                StoreReply::Took(Ok(TakeOutcome::Owned(entry.record.clone())))
            }
            StoreCall::Take { owner, overrides_reservation, .. } => {
                StoreReply::Took(Ok(self.take(server, from, owner, overrides_reservation)))
            }
            StoreCall::Renew(epoch) => match lease.filter(|lease| lease.epoch == epoch.0) {
                Some(lease) => {
                    lease.ends = ends;
                    self.checks.tally.renewed += 1;
                    StoreReply::Renewed(Ok(Some(term)))
                }
                None => {
                    self.checks.tally.refused_calls += 1;
                    StoreReply::Renewed(Err(refused()))
                }
            },
            StoreCall::Update(record) => match lease {
                Some(lease) if !compares || lease.epoch == record.epoch.0 => {
                    entry.record = record;
                    StoreReply::Updated(Ok(()))
                }
                _ => {
                    self.checks.tally.refused_calls += 1;
                    StoreReply::Updated(Err(refused()))
                }
            },
            StoreCall::Release(record) => match lease {
                Some(lease) if !compares || lease.epoch == record.epoch.0 => {
                    entry.record = record;
                    entry.lease = None;
                    self.is_free(server);
                    StoreReply::Released(Ok(()))
                }
                _ => {
                    self.checks.tally.refused_calls += 1;
                    StoreReply::Released(Err(refused()))
                }
            },
        }
    }

    fn take(&mut self, server: u32, from: ProcessId, owner: NodeOwner, overrides: bool) -> TakeOutcome {
        let ends = self.lease_end();
        let entry = &mut self.servers[server as usize].entry;
        let is_own = entry.record.owner.as_ref().is_some_and(|other| other.shares_boot_with(&owner));
        let is_leased = entry.lease.is_some() && !(is_own && self.habits.gives_own_again);
        let is_reserved = entry.record.owner.is_none()
            && entry.record.reserved_for.as_ref().is_some_and(|other| *other != owner.node);
        if is_leased || is_reserved && !overrides {
            return TakeOutcome::Owned(entry.record.clone());
        }
        if self.defect == Defect::FormerForgotten {
            entry.record.unfenced.clear();
        }
        entry.record = std::mem::take(&mut entry.record).taken_by(owner);
        if self.defect == Defect::EpochNotCounted {
            entry.record.epoch.0 -= u64::from(entry.record.epoch.0 > 1);
        }
        if self.defect == Defect::SameBootForgotten {
            entry.record.unfenced = entry.record.to_fence();
        }
        let epoch = entry.record.epoch.0;
        entry.lease = Some(StoreLease { epoch, ends });
        let record = entry.record.clone();
        self.checks.tally.taken += 1;
        self.checks.line(self.now, || format!("server {server}: {from:?} takes epoch {epoch}"));
        self.push(ends, WorldEvent::LeaseEnd { server, epoch });
        TakeOutcome::Taken(Taken { record, term: Some(self.habits.granted) })
    }

    /// The time has come at which a lease may be over.
    pub fn lease_may_be_over(&mut self, server: u32, epoch: u64) {
        let store_is_back = self.store_cut_until + self.jitter();
        let entry = &mut self.servers[server as usize].entry;
        let Some(lease) = entry.lease.as_ref().filter(|lease| lease.epoch == epoch) else { return };
        let again = match lease.ends {
            ends if ends > self.now => ends,
            // Without a quorum no lease ends.
            _ if self.store_cut_until > self.now => store_is_back,
            _ => {
                entry.lease = None;
                self.checks.line(self.now, || format!("server {server}: the lease of epoch {epoch} is over"));
                return self.is_free(server);
            }
        };
        self.push(again, WorldEvent::LeaseEnd { server, epoch });
    }

    /// The store has a quorum again: all leases begin anew.
    pub fn store_is_back(&mut self) {
        let ends = self.lease_end();
        for server in &mut self.servers {
            if let Some(lease) = &mut server.entry.lease {
                lease.ends = lease.ends.max(ends);
            }
        }
    }

    /// Notes a watch. It returns at once if the tenure is free or the store is not to be reached.
    pub fn watch(&mut self, server: u32, from: ProcessId) {
        let is_cut = self.is_cut_from_store(from);
        let entry = &mut self.servers[server as usize].entry;
        if is_cut || entry.lease.is_none() {
            let at = self.now + self.jitter();
            return self.push(at, WorldEvent::watched(from));
        }
        entry.watchers.retain(|other| other.slot != from.slot);
        entry.watchers.push(from);
        if self.chance.one_in(20) {
            let at = self.now + self.chance.between(0, nanos(self.times.term));
            self.push(at, WorldEvent::watched(from));
        }
    }

    fn is_free(&mut self, server: u32) {
        let watchers = std::mem::take(&mut self.servers[server as usize].entry.watchers);
        for watcher in watchers {
            if !self.is_cut_from_store(watcher) {
                let at = self.now + self.delay();
                self.push(at, WorldEvent::watched(watcher));
            }
        }
    }
}
