//! The contract of a tenure store: the place that gives a virtual server to one node at a time.
//!
//! No store of Trunkline decides by itself who owns what. A store is an existing one: etcd, a lock of
//! the file
//! system, or somebody else who decides and tells (Pacemaker, keepalived, Kubernetes). All calls block,
//! and
//! each has a bound.
//!
//! A call that failed may still be carried out later. So each call after [`TenureStore::take`] names its
//! epoch, and the store refuses it unless the node that calls owns the virtual server for this epoch at that
//! moment. A release or an update of an earlier tenure then changes nothing. [`TenureStore::take`] compares
//! the record that it replaces with the one that it has read: a late one that finds another epoch changes
//! nothing either.

use std::time::Duration;

use crate::{Epoch, NodeOwner, TenureRecord};

/// The claim of a node to a virtual server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The claiming node. The store sets its epoch. Its storage clients are those through which it will
    /// write: a file system that is mounted anew after the claim needs another claim, or the next owner
    /// fences the wrong clients.
    pub owner: NodeOwner,
    /// The length of the term that is asked for.
    pub term: Duration,
    /// Whether a record that is reserved for another node is taken too. That node did not come within a
    /// term.
    pub overrides_reservation: bool,
}

impl Claim {
    /// Whether the record is reserved for another node, and this claim respects that.
    #[must_use]
    pub fn respects_reservation_of(&self, record: &TenureRecord) -> bool {
        !self.overrides_reservation
            && record.reserved_for.as_ref().is_some_and(|node| *node != self.owner.node)
    }
}

/// A tenure that a store has given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The record as the store has written it: the epoch, and the owners to fence.
    pub record: TenureRecord,
    /// The length of the term, counted from before the call. None means that it has no end: the store
    /// ends it
    /// by the end of the process, or somebody else watches over the node.
    pub term: Option<Duration>,
}

/// The outcome of an attempt to take the tenure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOutcome {
    /// This node owns the virtual server now.
    Taken(Taken),
    /// Another node owns it, or it is reserved for one.
    Owned(TenureRecord),
}

/// A failure of a tenure store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store does not answer, or has no quorum. The tenure may still be given later.
    #[error("the tenure store cannot be asked: {0}")]
    Unreachable(String),
    /// This node is not the owner, or not for this epoch.
    #[error("this node is no longer the owner: {0}")]
    NotOwner(String),
    /// The store holds something that this program does not understand, or refuses this node.
    #[error("the tenure store cannot be used: {0}")]
    Refused(String),
}

/// A tenure store, for one virtual server.
pub trait TenureStore: Send + Sync {
    /// Tries once to take the tenure. The store counts the epoch up and writes the record in the same
    /// atomic
    /// step.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is known about the tenure then, and a later call may find this node as
    /// owner. A store may give the tenure to the same boot of the same node again, with a new epoch: the
    /// node's own lock has shown that the process that had it is gone.
    fn take(&self, claim: &Claim) -> Result<TakeOutcome, StoreError>;

    /// Renews the term. Returns its length, counted from before the call.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`] if the tenure is lost.
    fn renew(&self, epoch: Epoch) -> Result<Option<Duration>, StoreError>;

    /// Replaces the record of the present owner, such as after a fence. The epoch stays.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`] if the tenure is lost or was given back, also if an earlier owner asks.
    fn update(&self, record: &TenureRecord) -> Result<(), StoreError>;

    /// Gives the tenure back, with the record that the next owner finds.
    ///
    /// # Errors
    /// [`StoreError`]; the tenure then ends with its term.
    fn release(&self, record: &TenureRecord) -> Result<(), StoreError>;

    /// Waits until the tenure may be free, at most for `within`. It may return early.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] if the store cannot be asked.
    fn watch(&self, within: Duration) -> Result<(), StoreError>;

    /// The present record, for status. None before the first owner. The flag says whether the owner's
    /// term
    /// still runs, as far as the store knows.
    ///
    /// # Errors
    /// [`StoreError`].
    fn record(&self) -> Result<Option<(TenureRecord, bool)>, StoreError>;
}
