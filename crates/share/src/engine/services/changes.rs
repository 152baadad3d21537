//! Notices of our own changes to watches and to holders of rights on directories.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::{Name, NodeId};

use crate::caching::grants::{Need, Requester};
use crate::engine::Share;
use crate::engine::parts::file::HardLinkedName;
use crate::engine::parts::names::directory::{Directory, DirectoryEntry};
use crate::engine::parts::recycle_bin::NameReport;
use crate::engine::values::effects::Effects;
use crate::open::UNSEEN;
use crate::{Cause, Change, ChangeFilter, ChangeKind, Identity, Open};

impl Share {
    /// Reports a change of the file that a name leads to.
    pub(crate) fn report(
        &self,
        link: &Arc<HardLinkedName>,
        stream: Option<Name>,
        kind: ChangeKind,
        what: ChangeFilter,
    ) {
        if self.watches().is_empty() {
            return;
        }
        let (directory, name) = link.parent_and_name();
        self.report_at(&directory, &name, stream, kind, what);
    }

    /// Reports a change of a name in a directory.
    // MS-FSA 2.1.4.1
    pub(crate) fn report_at(
        &self,
        directory: &Arc<Directory>,
        name: &Name,
        stream: Option<Name>,
        kind: ChangeKind,
        what: ChangeFilter,
    ) {
        self.report_together(vec![(directory, Change { kind, path: vec![name.clone()], stream })], what);
    }

    /// Reports that a name was moved. Within one directory it is renamed. Otherwise it is removed from one
    /// and added to the other. A watch that covers both gets them in one reply: a client takes an old name
    /// without a new one for a removal.
    // MS-FSCC 2.7.1
    pub(crate) fn report_rename(
        &self,
        from: DirectoryEntry<'_>,
        to: DirectoryEntry<'_>,
        is_directory: bool,
        requester: &Requester,
        cause: Cause,
    ) {
        let is_one = from.parent.id == to.parent.id;
        self.entries_changed(from.parent, requester, cause);
        if !is_one {
            self.entries_changed(to.parent, requester, cause);
        }
        let (gone, count_opened) = match is_one {
            true => (ChangeKind::RenamedFrom, ChangeKind::RenamedTo),
            false => (ChangeKind::Removed, ChangeKind::Added),
        };
        let change = |kind, name: &Name| Change { kind, path: vec![name.clone()], stream: None };
        let what = if is_directory { ChangeFilter::DIR_NAME } else { ChangeFilter::FILE_NAME };
        self.report_together(
            vec![(from.parent, change(gone, from.name)), (to.parent, change(count_opened, to.name))],
            what,
        );
    }

    /// Reports that a stream was renamed.
    pub(crate) fn report_stream_rename(&self, link: &Arc<HardLinkedName>, from: Name, to: Name) {
        let (directory, name) = link.parent_and_name();
        let change = |kind, stream| {
            let stream = Some(stream);
            (&directory, Change { kind, path: vec![name.clone()], stream })
        };
        let (gone, count_opened) = (ChangeKind::StreamRemoved, ChangeKind::StreamAdded);
        self.report_together(vec![change(gone, from), change(count_opened, to)], ChangeFilter::STREAM_NAME);
    }

    /// Reports names that were added and removed, and breaks the rights on their directories.
    pub(crate) fn report_names(&self, reports: &[NameReport], requester: &Requester, cause: Cause) {
        for report in reports {
            self.entries_changed(&report.directory, requester, cause);
            if let Some(file) = report.purged {
                self.audit_purge(&report.directory, &report.name, file);
            }
        }
        for what in [ChangeFilter::DIR_NAME, ChangeFilter::FILE_NAME] {
            let of_kind = reports.iter().filter(|report| report.what == what);
            let change = |report: &NameReport| Change {
                kind: report.kind,
                path: vec![report.name.clone()],
                stream: None,
            };
            let changes: Vec<_> = of_kind.map(|report| (&report.directory, change(report))).collect();
            if !changes.is_empty() {
                self.report_together(changes, what);
            }
        }
    }

    /// Reports changes in directories that belong together. A user who may not pass a directory does not
    /// hear of changes in it.
    fn report_together(&self, changes: Vec<(&Arc<Directory>, Change)>, what: ChangeFilter) {
        let hears = |identity: &Arc<Identity>, directory: &Arc<Directory>| self.passes(identity, directory);
        self.wake_all(self.watches().report(changes, what, &hears));
    }

    /// Whether a user may know of changes in a directory. Only the descriptors of the folders in the recycle
    /// folder say no.
    fn passes(&self, identity: &Arc<Identity>, directory: &Arc<Directory>) -> bool {
        let Ok(security) = self.directory_security(directory) else { return true };
        let guards = security.is_stored && security.descriptor.guards_path();
        !guards || self.may_pass(identity, &security)
    }

    /// Reports the writes through an open that were not reported yet.
    // MS-FSA 2.1.5.5
    pub(crate) fn report_pending(&self, open: &Open, cause: Cause) {
        let unreported = open.unreported.swap(0, Ordering::AcqRel);
        if unreported & UNSEEN != 0 {
            self.directory_entry_changed(open, cause);
        }
        let unreported = ChangeFilter::from_bits_truncate(unreported);
        let Some(link) = open.link.as_ref().filter(|_| !unreported.is_empty()) else {
            return;
        };
        if open.stream.is_named {
            self.report(link, open.stream(), ChangeKind::StreamModified, unreported);
        } else {
            self.report(link, None, ChangeKind::Modified, unreported);
        }
    }

    /// Breaks rights on the directory of an open's file, because the directory shows another size, time or
    /// attribute of it.
    // MS-SMB2 3.3.1.4
    pub(crate) fn directory_entry_changed(&self, open: &Open, cause: Cause) {
        if let Some(link) = &open.link {
            self.entries_changed(&link.parent_and_name().0, &open.requester(), cause);
        }
    }

    /// Breaks rights on a directory whose entries were changed. No request waits for that.
    // MS-FSA 2.1.4.12
    pub(crate) fn entries_changed(&self, directory: &Arc<Directory>, requester: &Requester, cause: Cause) {
        self.open_files().versions().touch(directory.id);
        let Some(file) = self.open_files().get(directory.id) else {
            return;
        };
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        for stream in state.streams.iter_mut().filter(|stream| !stream.stream.is_named) {
            self.require(&file, stream, requester, Need::Entries, cause, &mut effects);
        }
        drop(state);
        self.settle(effects);
    }

    /// Ends the watch of an open that is closed.
    pub(crate) fn end_watch(&self, open: &Open) {
        let watch = open.watch.lock().clone();
        if let Some(watch) = watch {
            self.wake_all(self.watches().end(&watch));
        }
    }

    /// Ends every watch on a directory that is removed.
    pub(crate) fn end_watches_of(&self, directory: NodeId) {
        self.wake_all(self.watches().end_on(directory));
    }
}
