//! Caching rights on files whose changes the host does not report. A holder trusts what it has read for as
//! long as it has the right, and no event says when that is over. So such a right ends by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::Now;

use crate::caching::grants::Need;
use crate::engine::Share;
use crate::engine::parts::file::File;

/// For how many seconds such a right lasts: as long as a Linux client trusts its cache without one (nfs(5),
/// acregmax and acdirmax).
pub(crate) const UNREPORTED_S: u64 = 60;

impl Share {
    /// Breaks rights that were granted long ago on files that others may change unreported; once a second.
    pub(crate) fn end_unreported(&self, now: Now) {
        let now_s = self.cache().now_s();
        if !self.rights().begin_second(now_s) || !self.directories().has_unreported() {
            return;
        }
        for file in self.open_files().all() {
            let is_over = file.granted_s.load(Ordering::Relaxed) + UNREPORTED_S <= now_s;
            if is_over && file.has_grants() && !self.hears_of(&file) {
                self.break_rights(
                    &file,
                    if file.is_directory { Need::Entries } else { Need::Change },
                    now.into(),
                );
            }
        }
    }

    /// Whether the host reports changes by others in a file, or in the entries of a directory.
    fn hears_of(&self, file: &Arc<File>) -> bool {
        if file.is_directory {
            return self.directories().get(file.id).is_some_and(|directory| directory.reports_changes());
        }
        let above: Vec<_> = file.state.lock().links.iter().map(|of| of.link.parent_and_name().0).collect();
        // A file that was found by its address has no known directory.
        !above.is_empty() && above.iter().all(|directory| directory.reports_changes())
    }
}
