//! Opens that outlive a client or the process: recorded opens, and opens whose clients are gone.

mod detached;
mod expiry;
mod recorder;
mod unrestored;

use std::sync::OnceLock;

pub(crate) use detached::{DetachedTable, ReclaimOwner, UNCLAIMED_NS, owner};
pub(crate) use expiry::ExpiryKeepers;
pub(crate) use recorder::{AT_ONCE, BEFORE_TOLD, RecordedState, Recorder, right_of};
pub(crate) use unrestored::{FileTurn, Unrestored};

/// The opens of a share that outlive a client or the process.
#[derive(Default)]
pub(crate) struct Persistence {
    /// None if opens end with the process.
    recorder: OnceLock<Recorder>,
    detached: DetachedTable,
    unrestored: Unrestored,
    keepers: ExpiryKeepers,
}

impl Persistence {
    /// The recorder of opens; none if they end with the process.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.get()
    }

    /// Records opens from now on.
    pub fn record_in(&self, recorder: Recorder) {
        let _is_first = self.recorder.set(recorder);
    }

    /// The opens whose clients are gone.
    pub fn detached(&self) -> &DetachedTable {
        &self.detached
    }

    /// The opens from before a restart that are not restored yet.
    #[inline]
    pub fn unrestored(&self) -> &Unrestored {
        &self.unrestored
    }

    /// The callbacks that end clients whose time is over.
    pub fn keepers(&self) -> &ExpiryKeepers {
        &self.keepers
    }
}
