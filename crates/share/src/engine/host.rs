//! What others do on the host: it makes us forget, take rights back, and tell watches.

use std::sync::Arc;

use volume::{HostChange, HostEvent, Name, NodeId, OpenHow};
use wire::Now;

use super::Share;
use super::directory::Directory;
use super::waits::Effects;
use crate::caching::grants::{Asker, Need};
use crate::{ChangeFilter, ChangeKind};

impl Share {
    /// Takes in what happened on the host since the last call; to be called before a batch of requests
    /// is answered, so that no answer comes from a cache that the host has overtaken.
    pub fn before_batch(&self, now: Now) {
        self.directories.set_time(now);
        if !self.volume.facts().tells_changes {
            return;
        }
        let mut events = Vec::new();
        self.volume.take_events(&mut |event| events.push(event));
        for event in events {
            match event {
                HostEvent::Overflow => self.trust_nothing(),
                HostEvent::Changed { directory, name, is_directory, change } => {
                    self.host_changed(directory, name, is_directory, change, now);
                }
            }
        }
    }

    /// Events were lost: whatever is remembered may be wrong.
    fn trust_nothing(&self) {
        tracing::warn!(share = %self.name(), "changes on the host were lost; caches are dropped");
        self.directories.forget_names();
        for file in self.files.all() {
            let mut state = file.state.lock();
            (state.record, state.security, state.extended_size) = (None, None, None);
        }
        let wakes = self.watching.all().iter().flat_map(|watch| watch.overflow()).collect();
        self.wake_all(wakes);
    }

    fn host_changed(&self, id: NodeId, name: Option<Name>, is_directory: bool, change: HostChange, now: Now) {
        let Some(directory) = self.directories.get(id) else {
            return;
        };
        let Some(name) = name else {
            directory.set_security(None);
            self.forget_file(id, false, now);
            return;
        };
        let names = if is_directory { ChangeFilter::DIR_NAME } else { ChangeFilter::FILE_NAME };
        let (kind, what) = match change {
            HostChange::Created => (ChangeKind::Added, names),
            HostChange::Removed => (ChangeKind::Removed, names),
            HostChange::RenamedFrom => (ChangeKind::RenamedFrom, names),
            HostChange::RenamedTo => (ChangeKind::RenamedTo, names),
            HostChange::Modified => (ChangeKind::Modified, ChangeFilter::SIZE | ChangeFilter::LAST_WRITE),
            HostChange::Attributes => {
                let what = ChangeFilter::ATTRIBUTES
                    | ChangeFilter::EA
                    | ChangeFilter::SECURITY
                    | ChangeFilter::LAST_ACCESS;
                (ChangeKind::Modified, what)
            }
        };
        match change {
            HostChange::Created | HostChange::RenamedTo => {
                directory.added(&name);
                if is_directory {
                    self.hold_new(&directory, &name);
                }
            }
            HostChange::Removed | HostChange::RenamedFrom => directory.removed(&name),
            HostChange::Modified | HostChange::Attributes => {
                if let Ok(stat) = directory.node.stat_name(&name) {
                    self.forget_file(stat.id, change == HostChange::Modified, now);
                }
            }
        }
        if !matches!(change, HostChange::Modified) {
            self.entries_changed(&directory, &Asker::NOBODY, now);
        }
        self.tell_at(&directory, &name, None, kind, what);
    }

    /// Forgets what is remembered of a file, and takes rights to cached data back when it changed.
    fn forget_file(&self, id: NodeId, data: bool, now: Now) {
        if let Some(directory) = self.directories.get(id) {
            directory.set_security(None);
        }
        let Some(file) = self.files.get(id) else {
            return;
        };
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        (state.record, state.security, state.extended_size) = (None, None, None);
        if data {
            for stream in state.streams.iter_mut().filter(|stream| !stream.stream.is_named) {
                // A right to write back can be taken from its holder only after the fact.
                self.require(&file, stream, &Asker::NOBODY, Need::Change, now, &mut effects);
            }
        }
        drop(state);
        self.settle(effects);
    }

    /// Lets watches that go deep hear of a directory that the host made.
    fn hold_new(&self, parent: &Arc<Directory>, name: &Name) {
        if self.watching.is_empty() {
            return;
        }
        let mut above: Vec<NodeId> = parent.ancestors().iter().map(|(directory, _)| directory.id).collect();
        above.push(parent.id);
        for watch in above.iter().flat_map(|id| self.watching.on(*id)).filter(|watch| watch.recursive) {
            if let Ok(node) = parent.node.lookup(name, OpenHow::Attributes) {
                let directory = self.directories.enter(&self.volume, parent, name, name, node);
                self.hold(&watch, directory);
            }
        }
    }
}
