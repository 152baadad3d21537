//! What others do on the host: it makes us forget, take rights back, and tell watches.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::{HostChange, HostEvent, Name, NodeId, OpenHow};
use wire::Now;

use super::Share;
use super::directory::Directory;
use super::file::File;
use super::waits::Effects;
use crate::caching::grants::{Asker, Need};
use crate::{ChangeFilter, ChangeKind};

impl Share {
    /// Makes sure that what happened on the host before `now` was taken in; to be called before names are answered, so
    /// that no answer comes from a cache that the host has overtaken. A batch of requests has one `now`, and the host is
    /// asked once for it.
    pub fn take_host_changes(&self, now: Now) {
        if self.looked_at_ns.load(Ordering::Acquire) < now.mono_ns {
            self.before_batch(now);
            self.looked_at_ns.fetch_max(now.mono_ns, Ordering::AcqRel);
        }
    }

    /// Takes in what happened on the host since the last call.
    pub fn before_batch(&self, now: Now) {
        self.directories.set_time(now);
        if !self.volume.facts().tells_changes {
            return;
        }
        let mut events = Vec::new();
        self.volume.take_events(&mut |event| events.push(event));
        for event in events {
            match event {
                HostEvent::Overflow => self.trust_nothing(now),
                HostEvent::Changed { directory, name, is_directory, change } => {
                    self.host_changed(directory, name, is_directory, change, now);
                }
            }
        }
    }

    /// Events were lost: whatever is remembered may be wrong, here and with clients.
    fn trust_nothing(&self, now: Now) {
        tracing::warn!(share = %self.name(), "changes on the host were lost; caches are dropped");
        self.directories.forget_names();
        for file in self.files.all() {
            let need = if file.is_directory { Need::Entries } else { Need::Change };
            self.forget_file(&file, Some(need), now);
        }
        let wakes = self.watching.all().iter().flat_map(|watch| watch.overflow()).collect();
        self.wake_all(wakes);
    }

    fn host_changed(&self, id: NodeId, name: Option<Name>, is_directory: bool, change: HostChange, now: Now) {
        let Some(directory) = self.directories.get(id) else {
            return;
        };
        let Some(name) = name else {
            self.forget(id, None, now);
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
                    self.forget(stat.id, (change == HostChange::Modified).then_some(Need::Change), now);
                }
            }
        }
        self.entries_changed(&directory, &Asker::NOBODY, now);
        self.tell_at(&directory, &name, None, kind, what);
    }

    /// Forgets what is remembered of what is open or kept under this id.
    fn forget(&self, id: NodeId, need: Option<Need>, now: Now) {
        if let Some(directory) = self.directories.get(id) {
            directory.set_security(None);
        }
        if let Some(file) = self.files.get(id) {
            self.forget_file(&file, need, now);
        }
    }

    /// Forgets what is remembered of a file, and takes rights back that what happened leaves to nobody.
    fn forget_file(&self, file: &Arc<File>, need: Option<Need>, now: Now) {
        let mut effects = Effects::default();
        let mut state = file.state.lock();
        (state.record, state.security, state.extended_size) = (None, None, None);
        if let Some(need) = need {
            for stream in state.streams.iter_mut().filter(|stream| !stream.stream.is_named) {
                // A right to write back can be taken from its holder only after the fact.
                self.require(file, stream, &Asker::NOBODY, need, now, &mut effects);
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
