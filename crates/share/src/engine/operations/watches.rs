//! Watches: their start, and the changes that they have collected.

use std::sync::Arc;

use volume::security::Rights;

use crate::engine::Share;
use crate::watch::CollectedChanges;
use crate::{CallResult, Change, ChangeFilter, DirectoryWatch, Open, Refusal, Waiter};

impl Share {
    /// Begins to collect changes below a directory. The first call fixes the filter until the open is closed.
    /// If more than `max_bytes` of changes are not taken, they count as lost.
    ///
    /// # Errors
    /// [`Refusal::AccessDenied`], [`Refusal::Invalid`] if it is no directory, [`Refusal::NotSupported`] if
    /// the share's settings say so.
    // MS-FSA 2.1.5.11
    pub fn watch(
        &self,
        open: &Arc<Open>,
        filter: ChangeFilter,
        recursive: bool,
        max_bytes: usize,
    ) -> Result<(), Refusal> {
        if !open.is_directory() {
            return Err(Refusal::Invalid);
        }
        if !self.settings().watches {
            return Err(Refusal::NotSupported);
        }
        if !open.granted.contains(Rights::LIST_DIRECTORY) {
            return Err(Refusal::AccessDenied);
        }
        if open.file.is_deleted(open.link.as_ref()) {
            return Err(Refusal::DeletePending);
        }
        let mut own = open.watch.lock();
        if open.is_closed() {
            return Err(Refusal::Gone);
        }
        if own.is_some() {
            return Ok(());
        }
        let watch =
            Arc::new(DirectoryWatch::new(open.file.id, open.party().identity, filter, recursive, max_bytes));
        self.watches().add(&watch);
        *own = Some(Arc::clone(&watch));
        drop(own);
        if self.volume().properties().tells_changes
            && let Some(directory) = self.names().directory_of(&open.node, || open.parent_and_name())
        {
            let tree = self.watches().tree_of(directory, recursive, self.directories(), self.descriptors());
            let is_cut = tree.is_cut();
            *watch.tree.lock() = Some(tree);
            if is_cut {
                self.wake_all(watch.overflow());
            }
        }
        Ok(())
    }

    /// Takes the collected changes; waits if there are none.
    // MS-FSA 2.1.5.11.1
    pub fn take_changes(&self, open: &Arc<Open>, waiter: Option<&Waiter>) -> CallResult<Vec<Change>> {
        let Some(watch) = open.watch.lock().clone() else {
            return CallResult::Refused(if open.is_closed() { Refusal::Gone } else { Refusal::Invalid });
        };
        let (taken, ticket) = watch.take(|| waiter.map(|waiter| self.waits().add(waiter, &open.file)));
        match (taken, ticket) {
            (CollectedChanges::Changes(changes), _) => CallResult::Done(changes),
            (CollectedChanges::Refused(why), _) => CallResult::Refused(why),
            (CollectedChanges::Nothing, Some(ticket)) => CallResult::Wait(ticket),
            (CollectedChanges::Nothing, None) => CallResult::Refused(Refusal::NoMoreEntries),
        }
    }
}
