//! Counts that are taken before something is looked up or read, to tell afterwards whether it still is so.
//!
//! Start at [`Share::since_now`], for what is looked up by name, and [`Share::changes_of`], for a file that is in the table.

use std::sync::atomic::Ordering;

use crate::engine::Share;
use crate::engine::parts::file::File;

/// The counts before a name was looked up. The default: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Since {
    /// [`Cache::names_gone`](crate::engine::parts::names::cache::Cache::names_gone); zero: not known.
    pub names_gone: u64,
    /// Stores with any file, files that were changed and closed by all, and changes by the host.
    changes: u64,
}

/// How often a file was changed, as those count it who change it or hear of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changes {
    data: u64,
    own: u64,
    stored: u64,
}

impl Share {
    /// To be taken before a name is looked up.
    pub(crate) fn since_now(&self) -> Since {
        Since { names_gone: self.cache().names_gone(), changes: self.all_changes() }
    }

    /// To be taken before a file is asked that is entered in the table, and stays there: it counts from its first open to its last
    /// close.
    pub(crate) fn changes_of(&self, file: &File) -> Changes {
        Changes {
            data: file.changes.load(Ordering::SeqCst),
            own: file.own_changes.load(Ordering::SeqCst),
            stored: self.cache().written(file.id),
        }
    }

    /// Whether what was seen of a file when it was looked up still counts, now that it is entered: nobody who has it open has changed
    /// it, and nobody has closed it after a change.
    pub(crate) fn is_unchanged(&self, file: &File, since: Since) -> bool {
        !file.is_changed() && self.all_changes() == since.changes
    }

    fn all_changes(&self) -> u64 {
        self.cache().stores().wrapping_add(self.open_files().changed())
    }
}
