//! Counters that are taken before a lookup or a read, to tell afterwards whether its result is still current.
//!
//! Start with [`Share::lookup_counters`] for a lookup by name, and with [`Share::change_counters`] for a file
//! that is in the table.

use std::sync::atomic::Ordering;

use crate::engine::Share;
use crate::engine::parts::file::File;

/// The counters before a name was looked up. The default: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LookupCounters {
    /// [`Cache::names_gone`](crate::engine::parts::names::cache::Cache::names_gone); zero: not known.
    pub names_gone: u64,
    /// Counts sidecar writes to any file, files that were changed and closed by all, and changes by the host.
    changes: u64,
}

/// The counters of a file's changes, from all sources that change it or hear of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChangeCounters {
    data: u64,
    own: u64,
    stored: u64,
}

impl Share {
    /// The counters to take before a name is looked up.
    pub(crate) fn lookup_counters(&self) -> LookupCounters {
        LookupCounters { names_gone: self.cache().names_gone(), changes: self.all_changes() }
    }

    /// The counters to take before reading a file that is entered in the table and stays there: it counts
    /// from its first open to its last close.
    pub(crate) fn change_counters(&self, file: &File) -> ChangeCounters {
        ChangeCounters {
            data: file.changes.load(Ordering::SeqCst),
            own: file.own_changes.load(Ordering::SeqCst),
            stored: self.cache().written(file.id),
        }
    }

    /// Whether values that were read of a file at its lookup are still current, now that it is entered. No
    /// open has changed it since, and none was closed after a change.
    pub(crate) fn is_unchanged(&self, file: &File, since: LookupCounters) -> bool {
        !file.is_changed() && self.all_changes() == since.changes
    }

    fn all_changes(&self) -> u64 {
        self.cache().stores().wrapping_add(self.open_files().changed())
    }
}
