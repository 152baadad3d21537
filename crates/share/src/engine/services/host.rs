//! Changes by others on the host: they invalidate caches, break rights, and are reported to watches.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::{HostChange, HostEvent, Name, NodeId, NodeKind};

use crate::caching::grants::{Need, Requester};
use crate::engine::Share;
use crate::engine::parts::file::{File, LinkState};
use crate::engine::parts::names::directory::Directory;
use crate::engine::values::effects::Effects;
use crate::{Cause, ChangeFilter, ChangeKind};

impl Share {
    /// Records the time, and takes in the earlier events of the host. Every request that looks up names
    /// begins with this.
    pub(crate) fn begin(&self, cause: Cause) {
        self.directories().set_time(cause.now);
        self.take_host_changes(cause);
    }

    /// Makes sure that the events of the host before `now` were taken in. Call it before names are looked up,
    /// so that no answer comes from an outdated cache. A batch of requests has one `now`, and the host is
    /// asked once for it.
    pub fn take_host_changes(&self, cause: impl Into<Cause>) {
        let cause = cause.into();
        if !self.names().is_taken_in(cause.now) {
            self.take_in(cause);
        }
    }

    /// Works in two steps. First all events are applied to the caches, by one thread at a time, so that no
    /// request goes on before they count. Then watches and holders are notified.
    pub(crate) fn take_in(&self, cause: Cause) {
        self.directories().set_time(cause.now);
        self.cache().set_time(cause.now);
        if !self.volume().properties().tells_changes {
            return;
        }
        let heard: Vec<(HostEvent, Option<NodeId>)> = self.names().take_in(cause.now, || {
            let mut events = Vec::new();
            self.volume().take_events(&mut |event| events.push(event));
            let mut applied: Vec<(HostEvent, Option<NodeId>)> = Vec::with_capacity(events.len());
            for event in events {
                // The event before it has led to the same node by its name.
                if let HostEvent::NodeChanged { node, .. } = &event
                    && applied.last().is_some_and(|(_, named)| *named == Some(*node))
                {
                    continue;
                }
                let node = self.apply_event(&event);
                applied.push((event, node));
            }
            applied
        });
        self.break_rights_on_removed_names(&heard, cause);
        for (event, node) in heard {
            self.notify_of_event(event, node, cause);
        }
    }

    /// Applies an event to the caches. Returns the node whose data, attributes or name were changed.
    fn apply_event(&self, event: &HostEvent) -> Option<NodeId> {
        let node = self.apply_to_names(event);
        // Only now: a name that was looked up before the move is known to be old by now.
        match event {
            HostEvent::Changed { change: HostChange::RenamedFrom, is_directory: true, .. }
            | HostEvent::Renamed { is_directory: true, .. }
            | HostEvent::Overflow
            | HostEvent::Mounts => self.directories().note_moved(),
            _ => {}
        }
        node
    }

    fn apply_to_names(&self, event: &HostEvent) -> Option<NodeId> {
        use HostChange::{Removed, RenamedFrom, RenamedTo};
        match event {
            HostEvent::Changed { directory, name: Some(name), change, is_directory } => {
                let directory = self.directories().get(*directory)?;
                match change {
                    HostChange::Created | RenamedTo => self.apply_added(&directory, name),
                    Removed | RenamedFrom => {
                        self.apply_removed(&directory, name, *is_directory);
                        None
                    }
                    HostChange::Modified | HostChange::Attributes => {
                        if *change == HostChange::Attributes {
                            directory.forget_new_file(name);
                        }
                        let changed = directory.node.stat_name(name).ok()?.id;
                        self.forget(changed);
                        Some(changed)
                    }
                }
            }
            HostEvent::Changed { directory: id, name: None, .. } => {
                // The change may decide whether the host lets this process reach its names.
                self.directories().get(*id)?.forget_names();
                self.forget(*id);
                Some(*id)
            }
            HostEvent::NodeChanged { node, .. } => {
                self.forget(*node);
                Some(*node)
            }
            HostEvent::Renamed { from: (from, name), to: (to, to_name), is_directory } => {
                if let Some(from) = self.directories().get(*from) {
                    self.apply_removed(&from, name, *is_directory);
                }
                let to = self.directories().get(*to)?;
                self.apply_added(&to, to_name)
            }
            HostEvent::Overflow | HostEvent::Mounts => {
                let share = self.name();
                match event {
                    HostEvent::Mounts => tracing::debug!(%share, "mounts below the share have changed"),
                    _ => tracing::warn!(%share, "changes on the host were lost; caches are dropped"),
                }
                self.directories().forget_names();
                self.open_files().all().iter().for_each(forget_file);
                self.open_files().note_changed();
                None
            }
        }
    }

    /// A name was created, or moved here.
    fn apply_added(&self, directory: &Directory, name: &Name) -> Option<NodeId> {
        directory.added(name);
        // Its entries under the old name are invalid now. If it is known by a further name, it has changed.
        let stat = directory.node.stat_name(name).ok()?;
        self.forget(stat.id);
        if stat.kind != NodeKind::Directory
            && let Some(file) = self.open_files().get(stat.id)
        {
            file.note_names(stat.links);
        }
        Some(stat.id)
    }

    /// A name was removed, or moved away.
    fn apply_removed(&self, directory: &Directory, name: &Name, is_directory: bool) {
        let child = directory.child(name, true).filter(|_| is_directory);
        directory.note_missing(name);
        // Moved directories are kept: they are found by their new location.
        if let Some((_, gone)) = child
            && gone.node.stat().is_ok_and(|stat| stat.links == 0)
        {
            self.directories().forget(gone.id);
        }
    }

    /// Events were lost, or directories lead elsewhere. Breaks the rights that an unknown change may
    /// invalidate, and notifies the watches.
    fn notify_of_loss(&self, cause: Cause) {
        for file in self.open_files().all() {
            let need = if file.is_directory { Need::Entries } else { Need::Change };
            self.break_rights(&file, need, cause);
        }
        self.wake_all(self.watches().overflow());
    }

    /// Notifies watches and holders of an event that was applied.
    fn notify_of_event(&self, event: HostEvent, node: Option<NodeId>, cause: Cause) {
        match event {
            HostEvent::Changed { directory, name: Some(name), is_directory, change } => {
                if let Some(directory) = self.directories().get(directory) {
                    self.notify_of_change(&directory, &name, change, is_directory, node, cause);
                } else if let Some(file) = node.and_then(|node| self.open_files().get(node)) {
                    self.break_rights(&file, broken_by(change), cause);
                }
            }
            // The directory above shows no attributes of a directory itself.
            HostEvent::Changed { name: None, .. } => {}
            HostEvent::NodeChanged { node, change } => {
                if let Some(file) = self.open_files().get(node) {
                    self.break_rights(&file, broken_by(change), cause);
                }
            }
            HostEvent::Renamed { from, to, is_directory } => {
                self.notify_of_rename(from, to, is_directory, node, cause);
            }
            HostEvent::Overflow | HostEvent::Mounts => self.notify_of_loss(cause),
        }
    }

    fn notify_of_change(
        &self,
        directory: &Arc<Directory>,
        name: &Name,
        change: HostChange,
        is_directory: bool,
        node: Option<NodeId>,
        cause: Cause,
    ) {
        if is_directory && matches!(change, HostChange::Created | HostChange::RenamedTo) {
            self.wake_all(self.watches().hold_new(self.directories(), directory, name));
        }
        if let Some(file) = node.and_then(|node| self.open_files().get(node)) {
            self.break_rights(&file, broken_by(change), cause);
        }
        let names = if is_directory { ChangeFilter::DIR_NAME } else { ChangeFilter::FILE_NAME };
        let (kind, what) = match change {
            // MS-FSCC 2.7.1: renamed is only what stays in its directory.
            HostChange::Created | HostChange::RenamedTo => (ChangeKind::Added, names),
            HostChange::Removed | HostChange::RenamedFrom => (ChangeKind::Removed, names),
            HostChange::Modified => (ChangeKind::Modified, ChangeFilter::SIZE | ChangeFilter::LAST_WRITE),
            HostChange::Attributes => {
                let what = ChangeFilter::ATTRIBUTES
                    | ChangeFilter::EA
                    | ChangeFilter::SECURITY
                    | ChangeFilter::LAST_ACCESS;
                (ChangeKind::Modified, what)
            }
        };
        self.entries_changed(directory, &Requester::NOBODY, cause);
        self.report_at(directory, name, None, kind, what);
    }

    fn notify_of_rename(
        &self,
        (from, name): (NodeId, Name),
        (to, to_name): (NodeId, Name),
        is_directory: bool,
        node: Option<NodeId>,
        cause: Cause,
    ) {
        let known = (self.directories().get(from), self.directories().get(to));
        // No request asks for one that is not known any more.
        let (from, to) = match known {
            (Some(from), Some(to)) => (from, to),
            (None, Some(to)) => {
                return self.notify_of_change(
                    &to,
                    &to_name,
                    HostChange::RenamedTo,
                    is_directory,
                    node,
                    cause,
                );
            }
            (Some(from), None) => {
                return self.notify_of_change(
                    &from,
                    &name,
                    HostChange::RenamedFrom,
                    is_directory,
                    None,
                    cause,
                );
            }
            (None, None) => return,
        };
        if is_directory {
            self.wake_all(self.watches().hold_new(self.directories(), &to, &to_name));
        }
        if let Some(file) = node.and_then(|node| self.open_files().get(node)) {
            self.break_rights(&file, Need::Rename, cause);
        }
        self.report_rename(from.entry(&name), to.entry(&to_name), is_directory, &Requester::NOBODY, cause);
    }

    /// Drops the cached properties of the file or directory with this id.
    fn forget(&self, id: NodeId) {
        if let Some(directory) = self.directories().get(id) {
            directory.own_changed();
        }
        if let Some(file) = self.open_files().get(id) {
            forget_file(&file);
        }
        self.open_files().note_changed();
    }

    /// Breaks the rights to keep files open whose names a program of the host has removed. A client with such
    /// a right caches the name and sends no request for it. A moved file that stays visible is found by its
    /// new location. An NFS client caches all names of a file for which it has a delegation, even those by
    /// which it never opened the file.
    fn break_rights_on_removed_names(&self, heard: &[(HostEvent, Option<NodeId>)], cause: Cause) {
        let gone: HashSet<(NodeId, &Name)> =
            heard.iter().flat_map(|(event, _)| removed_names(event)).collect();
        if gone.is_empty() {
            return;
        }
        for file in self.open_files().all() {
            let state = file.state.lock();
            let is_conflict = state.streams.iter().any(|stream| !stream.grants.is_empty());
            let is_lost = |of: &LinkState| {
                let (directory, name) = of.link.parent_and_name();
                gone.contains(&(directory.id, &name))
            };
            let has_lost = is_conflict && (state.has_unknown_names() || state.links.iter().any(is_lost));
            drop(state);
            if has_lost {
                self.break_rights(&file, Need::Rename, cause);
            }
        }
    }

    /// Breaks the rights on a file that an event invalidates.
    pub(crate) fn break_rights(&self, file: &Arc<File>, need: Need, cause: Cause) {
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        for stream in state.streams.iter_mut().filter(|stream| !stream.stream.is_named) {
            // A right to hold writes back can only be broken after the fact.
            self.require(file, stream, &Requester::NOBODY, need, cause, &mut effects);
        }
        drop(state);
        self.settle(effects);
    }
}

/// The rights that a change of a file breaks.
fn broken_by(change: HostChange) -> Need {
    match change {
        HostChange::Modified => Need::Change,
        HostChange::RenamedTo => Need::Rename,
        // As for a new descriptor.
        _ => Need::CloseKept,
    }
}

/// The names that no longer lead to their old targets.
fn removed_names(event: &HostEvent) -> impl Iterator<Item = (NodeId, &Name)> {
    use HostChange::{Removed, RenamedFrom, RenamedTo};
    let taken = match event {
        HostEvent::Changed {
            directory, name: Some(name), change: Removed | RenamedFrom | RenamedTo, ..
        } => [Some((*directory, name)), None],
        HostEvent::Renamed { from: (from, name), to: (to, to_name), .. } => {
            [Some((*from, name)), Some((*to, to_name))]
        }
        _ => [None, None],
    };
    taken.into_iter().flatten()
}

/// Drops the cached properties of a file. An open that is being decided reads them again.
fn forget_file(file: &Arc<File>) {
    file.own_changes.fetch_add(1, Ordering::SeqCst);
    let mut state = file.state.lock();
    (state.record, state.security, state.extended_size) = (None, None, None);
    // Its permission bits may be others.
    file.may_set_id.store(true, Ordering::Relaxed);
}
