//! What is remembered of names and files, so that the volume need not be asked again.
//!
//! Three tables with a limit in bytes, and nothing in them that could be old:
//!
//! - **Names** ([`Answer`]): what an exact name in a directory leads to, as a node that is kept open, or that nothing has
//!   that name. Trusted only in directories in which the volume tells of changes by others. The engine's own changes take
//!   a name out in the same step ([`super::directory::Directory::added`] and `removed`), and so do events; what was
//!   looked up while names changed is not kept.
//! - **Figures** ([`Known`]): the attribute record, the descriptor and the size of extended attributes of a file. They
//!   count while the host shows the same time of change, which was old enough when they were read that no later change
//!   can have the same ([`Cache::remember`]), and while the engine itself has stored none of them since
//!   ([`Cache::wrote`]): what lies beside a file moves none of its times.
//!
//! - **Made** ([`Made`]): that a file which was made through the share a moment ago has no attribute record, under its name
//!   and with its address. It goes with the name's answer, and with the news of a change by that name.
//!
//! What directories list is kept with them ([`super::pages`]).
//!
//! Sizes, times, links and permission bits are asked of the volume each time: hosts do not tell of everything that
//! changes them (mappings of memory, names of the same file elsewhere).
//!
//! Start with [`crate::engine::finding::look_up`], which asks the first table, and [`crate::engine::services::records`], which asks the second.

mod bounded;
mod made;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use volume::security::Acl;
use volume::{Name, Node, NodeId, Stat, Time};

use crate::engine::values::address::Address;
use crate::engine::values::descriptors::Descriptors;
use crate::engine::values::ids::IdHash;
use crate::engine::values::protection::Security;
use crate::engine::values::record::Record;
use bounded::{Bounded, PARTS, Weight};
use made::MADE_BYTES;
pub(crate) use made::Made;

/// For how many bytes a name counts that leads to something, beside its own length: what is kept here, and what the host
/// keeps for an open descriptor.
const KEPT_BYTES: usize = 2048;
/// For how many bytes a name counts that leads to nothing.
const ABSENT_BYTES: usize = 160;
/// For how many bytes the figures of a file count, without a descriptor.
const FIGURES_BYTES: usize = 320;
/// How long a name is kept that nobody asks for, in seconds: as long the descriptor of a file may hold the storage of one
/// that was removed out of sight, or keep a file system from being unmounted.
const IDLE_S: u64 = 10;
/// Parts of the count of records that were written.
const WRITTEN: usize = 1024;

/// What an exact name in a directory leads to.
#[derive(Clone)]
pub(crate) enum Answer {
    /// To this.
    There(Arc<KeptNode>),
    /// To nothing.
    Absent,
}

impl Answer {
    /// What it takes under a name.
    fn weight(&self, name: &Name) -> Weight {
        match self {
            Answer::There(_) => weight_of_node(name),
            Answer::Absent => Weight::of_bytes(ABSENT_BYTES + name.as_bytes().len()),
        }
    }
}

/// What a node takes under a name.
fn weight_of_node(name: &Name) -> Weight {
    Weight { bytes: KEPT_BYTES + name.as_bytes().len(), descriptors: 1 }
}

/// A node that is kept, never open for writing: the host would not run such a file.
pub(crate) struct KeptNode {
    pub node: Arc<dyn Node>,
    pub address: Address,
}

impl KeptNode {
    pub fn new(node: Arc<dyn Node>) -> Arc<KeptNode> {
        Arc::new(KeptNode { node, address: Address::default() })
    }
}

/// What was read of a file beside its figures, at one time of change.
#[derive(Clone)]
pub(crate) struct Known {
    changed: Time,
    born: Option<Time>,
    written: u64,
    pub record: Record,
    pub security: Option<Arc<Security>>,
    /// Size of the extended attributes in list form.
    pub extended: Option<u32>,
    /// Its address ([`volume::Node::address`]).
    pub address: Option<Box<[u8]>>,
}

impl Known {
    fn bytes(&self) -> usize {
        let address = self.address.as_deref().map_or(0, <[u8]>::len);
        FIGURES_BYTES + address + self.security.as_deref().map_or(0, security_bytes)
    }
}

fn security_bytes(security: &Security) -> usize {
    let list = |list: &Option<Acl>| list.as_ref().map_or(0, |list| list.encoded_len() + 96 * list.aces.len());
    256 + list(&security.descriptor.dacl) + list(&security.descriptor.sacl)
}

/// How much of a share is remembered, and what that was good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MetadataCaching {
    /// Whether anything is.
    pub on: bool,
    /// Names that were found without asking the volume, since the share was opened.
    pub hits: u64,
    /// Names for which it was asked, while something was remembered.
    pub misses: u64,
    /// Names that are remembered.
    pub names: usize,
    /// Files whose attributes and descriptors are.
    pub files: usize,
    /// Bytes that all of it counts for.
    pub bytes: usize,
}

/// What is remembered.
pub(crate) struct Cache {
    is_on: AtomicBool,
    names: Bounded<(u64, Name), Answer>,
    figures: Bounded<NodeId, Arc<Known>, IdHash>,
    made: Bounded<(u64, Name), Arc<Made>>,
    written: Box<[AtomicU64]>,
    /// How often the engine has stored something with any file.
    stores: AtomicU64,
    /// Monotonic seconds, as the last request or tick said.
    now_s: AtomicU64,
    /// The part that is looked through for idle names next.
    turn: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Tells directories apart for good.
    serials: AtomicU64,
    /// Whether anything may be kept that is on another file system than the root.
    has_mounted: AtomicBool,
    /// How often everything was forgotten.
    epoch: AtomicU64,
    /// How often a name of the share went, or may have: removed, moved, replaced.
    names_gone: AtomicU64,
}

impl Cache {
    /// For at most so many bytes: two thirds for names, a quarter for figures, the rest for what was just made. Nodes are kept
    /// with descriptors from there.
    pub fn new(bytes: usize, descriptors: &Arc<Descriptors>, is_on: bool) -> Cache {
        let none = Descriptors::new(0);
        Cache {
            is_on: AtomicBool::new(is_on),
            names: Bounded::new(bytes / 3 * 2, descriptors),
            figures: Bounded::new(bytes / 4, &none),
            made: Bounded::new(bytes / 12, &none),
            written: (0..WRITTEN).map(|_| AtomicU64::new(0)).collect(),
            stores: AtomicU64::new(0),
            now_s: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            serials: AtomicU64::new(1),
            has_mounted: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            names_gone: AtomicU64::new(1),
        }
    }

    /// Whether anything is remembered.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Remembers from now on, or forgets everything and remembers no more.
    pub fn set(&self, on: bool) {
        self.is_on.store(on, Ordering::Release);
        if !on {
            self.clear();
        }
    }

    /// A number that no directory had before.
    pub fn next_serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes note of the time.
    pub fn set_time(&self, now: wire::Now) {
        self.now_s.store(now.mono_ns / 1_000_000_000, Ordering::Relaxed);
    }

    /// Monotonic seconds, as the last request or tick said.
    pub fn now_s(&self) -> u64 {
        self.now_s.load(Ordering::Relaxed)
    }

    /// To be taken before a name is looked up: who has entered what was found among the opens of its file and finds another number
    /// then, must look whether the name still leads there. Never zero.
    pub fn names_gone(&self) -> u64 {
        self.names_gone.load(Ordering::Acquire)
    }

    /// A name has gone, and nothing that is remembered leads to it any more.
    pub fn name_went(&self) {
        self.names_gone.fetch_add(1, Ordering::AcqRel);
    }

    /// To be taken before anything is read, settings too, that [`Cache::add`] is to add.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.names.clear();
        self.figures.clear();
        self.made.clear();
    }

    /// Gives every descriptor back; false when none was kept.
    pub(crate) fn give_back(&self) -> bool {
        let keeps = self.names.usage().0 > 0;
        if keeps {
            self.clear();
        }
        keeps
    }

    /// Forgets names and figures that nobody has asked for lately; each call looks through a part of them.
    pub fn drop_idle(&self) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % PARTS;
        let now_s = self.now_s();
        let since_s = now_s.saturating_sub(IDLE_S);
        self.names.drop_idle(turn, since_s, now_s);
        self.figures.drop_idle(turn, since_s, now_s);
        self.made.drop_idle(turn, since_s, now_s);
    }

    /// Something is kept from here on that is on another file system than the root.
    pub fn note_mounted(&self) {
        self.has_mounted.store(true, Ordering::Release);
    }

    /// Forgets names of files on other file systems than `home` that nobody has asked for in so many seconds.
    pub fn drop_mounted(&self, home: u64, idle_s: u64) {
        if !self.has_mounted.swap(false, Ordering::AcqRel) {
            return;
        }
        let now_s = self.now_s();
        let is_mounted =
            |answer: &Answer| matches!(answer, Answer::There(kept) if kept.node.id().device != home);
        let is_any_left =
            self.names.drop_where(|answer| is_mounted(answer), |used_s| used_s + idle_s <= now_s);
        if is_any_left {
            self.note_mounted();
        }
    }

    /// A name was found without asking the volume.
    pub fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// The volume had to be asked for a name.
    pub fn missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// What is known of a name in the directory with this serial.
    pub fn answer(&self, directory: u64, name: &Name) -> Option<Answer> {
        self.names.get(&(directory, name.clone()), self.now_s())
    }

    /// Whether a node that a name is about to lead to would be worth its room. To be asked once before it is kept.
    pub fn lets_node_in(&self, directory: u64, name: &Name) -> bool {
        self.is_on() && self.names.lets_in(&(directory, name.clone()), weight_of_node(name), self.now_s())
    }

    /// Keeps what a name leads to if that is worth its room, unless `is_right` no longer says so.
    pub fn keep(&self, directory: u64, name: &Name, answer: Answer, is_right: impl FnOnce() -> bool) {
        let key = (directory, name.clone());
        if self.is_on() && self.names.lets_in(&key, answer.weight(name), self.now_s()) {
            self.keep_let_in(directory, name, answer, is_right);
        }
    }

    /// The same for a node of which [`Cache::lets_node_in`] has said so.
    pub fn keep_let_in(&self, directory: u64, name: &Name, answer: Answer, is_right: impl FnOnce() -> bool) {
        let (key, weight) = ((directory, name.clone()), answer.weight(name));
        self.names.put(key, answer, weight, self.now_s(), || self.is_on() && is_right());
    }

    /// Forgets a name.
    pub fn forget(&self, directory: u64, name: &Name) {
        let key = (directory, name.clone());
        drop(self.made.remove(&key));
        // Closing a descriptor takes time, so it is dropped behind the lock.
        drop(self.names.remove(&key));
    }

    /// A file that was made under a name a moment ago.
    pub fn made(&self, directory: u64, name: &Name) -> Option<Arc<Made>> {
        if self.is_on() { self.made.get(&(directory, name.clone()), self.now_s()) } else { None }
    }

    /// Keeps that a file was made under a name, unless `is_right` no longer says so.
    pub fn note_made(&self, directory: u64, name: &Name, made: &Arc<Made>, is_right: impl FnOnce() -> bool) {
        let (key, now_s) = ((directory, name.clone()), self.now_s());
        let weight = Weight::of_bytes(MADE_BYTES + name.as_bytes().len());
        if self.is_on() && self.made.lets_in(&key, weight, now_s) {
            self.made.put(key, Arc::clone(made), weight, now_s, || self.is_on() && is_right());
        }
    }

    /// Forgets that a file was made under a name.
    pub fn forget_made(&self, directory: u64, name: &Name) {
        drop(self.made.remove(&(directory, name.clone())));
    }

    fn counter(&self, id: NodeId) -> &AtomicU64 {
        let mixed = (id.inode ^ id.device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.written[(mixed >> 48) as usize % WRITTEN]
    }

    /// To be taken before something is read of a file that is to be remembered.
    pub fn written(&self, id: NodeId) -> u64 {
        self.counter(id).load(Ordering::Acquire)
    }

    /// The engine stores something with a file; to be said before and after.
    pub fn wrote(&self, id: NodeId) {
        self.stores.fetch_add(1, Ordering::AcqRel);
        self.counter(id).fetch_add(1, Ordering::AcqRel);
    }

    /// To be taken before a file is made that is to be remembered ([`Cache::made_now`]).
    pub fn stores(&self) -> u64 {
        self.stores.load(Ordering::Acquire)
    }

    /// A file that showed these figures when it was made; none when something was stored with any file since `stores`, which
    /// may have been this one.
    pub fn made_now(&self, stat: &Stat, stores: u64) -> Option<Arc<Made>> {
        let made = Made::new(stat, self.written(stat.id));
        (self.is_on() && self.stores() == stores).then(|| Arc::new(made))
    }

    /// The cached knowledge of a file at some figures, which [`Cache::counts`] compares with those that it shows.
    pub fn figures_of(&self, id: NodeId) -> Option<Arc<Known>> {
        if self.is_on() { self.figures.get(&id, self.now_s()) } else { None }
    }

    /// Whether what is known of a file holds for these figures of it, now.
    pub fn counts(&self, known: &Known, stat: &Stat) -> bool {
        (known.changed, known.born, known.written) == (stat.changed, stat.born, self.written(stat.id))
    }

    /// What is known of a file that shows these figures.
    pub fn known(&self, stat: &Stat) -> Option<Arc<Known>> {
        self.figures_of(stat.id).filter(|known| self.counts(known, stat))
    }

    /// Remembers what was read of a file that showed these figures before, and shows a time of change that no later change
    /// can have too; `written` was taken before it was read.
    pub fn remember(&self, stat: &Stat, written: u64, record: Record) {
        let (changed, born) = (stat.changed, stat.born);
        let known = Known { changed, born, written, record, security: None, extended: None, address: None };
        self.put(stat.id, known, self.epoch());
    }

    /// Remembers more of a file that is known. What was read meanwhile belongs to what is known: a change of either side
    /// makes all of it void.
    pub fn add(&self, stat: &Stat, epoch: u64, more: impl FnOnce(&mut Known)) {
        if let Some(known) = self.known(stat) {
            let mut known = Known::clone(&known);
            more(&mut known);
            self.put(stat.id, known, epoch);
        }
    }

    fn put(&self, id: NodeId, known: Known, epoch: u64) {
        let (weight, written) = (Weight::of_bytes(known.bytes()), known.written);
        let is_right = || self.is_on() && self.epoch() == epoch && self.written(id) == written;
        if self.figures.lets_in(&id, weight, self.now_s()) {
            self.figures.put(id, Arc::new(known), weight, self.now_s(), is_right);
        }
    }

    /// How much is remembered, and what that was good for.
    pub fn summary(&self) -> MetadataCaching {
        let ((names, name_bytes), (files, file_bytes)) = (self.names.usage(), self.figures.usage());
        let (made, made_bytes) = self.made.usage();
        MetadataCaching {
            on: self.is_on(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            names,
            files: files + made,
            bytes: name_bytes + file_bytes + made_bytes,
        }
    }
}

/// Where the volume itself folds case, one file has many exact names, and events tell of one.
pub(crate) fn can_remember(facts: &volume::VolumeProperties) -> bool {
    facts.tells_changes && !facts.folds_case
}

#[cfg(test)]
mod tests {
    use volume::NodeKind;

    use super::*;

    /// A file that was changed last at this second.
    pub(super) fn stat(changed: i64) -> Stat {
        let at = |secs| Time { secs, nanos: 0 };
        Stat {
            id: NodeId { device: 1, inode: 2 },
            file_system: 0,
            kind: NodeKind::File,
            size: 0,
            allocated: 0,
            links: 1,
            mode: 0o644,
            uid: 0,
            gid: 0,
            rdev: 0,
            accessed: at(1),
            modified: at(1),
            changed: at(changed),
            born: Some(at(1)),
            fixed: false,
        }
    }

    #[test]
    fn figures_count_until_the_time_of_change_moves_or_the_engine_writes() {
        let cache = Cache::new(1 << 20, &Descriptors::new(99), true);
        let record = Record { extended_size: 7, ..Record::default() };
        cache.remember(&stat(5), cache.written(stat(5).id), record);
        cache.add(&stat(5), cache.epoch() + 1, |known| known.extended = Some(8));
        cache.add(&stat(5), cache.epoch(), |known| known.extended = Some(9));
        let known = cache.known(&stat(5)).unwrap();
        assert_eq!((known.record, known.extended), (record, Some(9)));
        assert!(cache.known(&stat(6)).is_none());
        assert!(cache.known(&Stat { born: None, ..stat(5) }).is_none(), "another file with its number");
        cache.wrote(stat(5).id);
        assert!(cache.known(&stat(5)).is_none());
        let before = cache.written(stat(5).id);
        cache.wrote(stat(5).id);
        cache.remember(&stat(5), before, record);
        assert!(cache.known(&stat(5)).is_none(), "read before it was written");
    }

    #[test]
    fn nothing_is_remembered_while_it_is_off() {
        let cache = Cache::new(1 << 20, &Descriptors::new(99), false);
        let name = Name::new(b"a").unwrap();
        cache.keep(1, &name, Answer::Absent, || true);
        cache.remember(&stat(5), 0, Record::default());
        assert_eq!(cache.summary(), MetadataCaching::default());
        cache.set(true);
        cache.keep(1, &name, Answer::Absent, || true);
        cache.keep(2, &name, Answer::Absent, || false);
        cache.remember(&stat(5), 0, Record::default());
        assert!(matches!(cache.answer(1, &name), Some(Answer::Absent)) && cache.answer(2, &name).is_none());
        let summary = cache.summary();
        assert_eq!((summary.on, summary.names, summary.files), (true, 1, 1));
        assert_eq!(summary.bytes, ABSENT_BYTES + 1 + FIGURES_BYTES);
        cache.set(false);
        assert_eq!(cache.summary(), MetadataCaching::default());
    }
}
