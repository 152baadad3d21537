//! Restores opens that were recorded before a restart.
//!
//! Each is restored as it was, under its old id. Its file is found by its path and must be the same file,
//! because a path may lead to another file by now.
//!
//! Each file takes a few calls of the store, which may be far away. So clients are served before the opens
//! are restored. A request that decides about a file restores the opens of that file first
//! ([`Share::restore_file`]), and threads of the background restore those of all files
//! ([`Share::restore_next`]). Both know a file by the inode number in its record, before it is found. A move
//! of a directory changes the paths of the files below it, and so those are restored first, by others if they
//! are many.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use volume::journal::Journal;
use volume::security::{Rights, Sid};
use volume::{Name, Node, NodeId, NodeKind, OpenHow, Time};
use wire::Now;

use crate::caching::grants::{Grant, Holder, Requester};
use crate::engine::Share;
use crate::engine::lookup::name::{ResolvedName, Search};
use crate::engine::operations::reservation::how_for_rights;
use crate::engine::parts::file::{Deletion, FileState, HardLinkedName, Member, Stream, counted, only_looks};
use crate::engine::parts::names::directory::Directory;
use crate::engine::parts::open_files::FileRef;
use crate::engine::parts::persistence::{FileTurn, RecordedState, Recorder};
use crate::open::{AuditedUse, OpenParty};
use crate::persistence::ledger::Ledger;
use crate::persistence::record::{JournalRecord, OpenRecord, RecordedRight, RemovalMark};
use crate::ranked::{Mutex, Rank, RwLock};
use crate::{
    Deny, Identity, Open, OpenRestorer, Options, Refusal, Restored, Unreadable, UnrestoredOpen, UserLookup,
};

/// The host's user and group that own nothing.
const NOBODY: u32 = 65_534;

/// The most files of a directory whose opens one request restores.
const MOST_BELOW: usize = 16;

/// The threads that restore opens at once.
const THREADS: usize = 16;

/// The file of an open that was found again.
#[derive(Clone)]
struct RestoredFile {
    parent_and_name: Option<(Arc<Directory>, Name)>,
    node: Arc<dyn Node>,
}

/// That file, opened as its open needs it.
struct ReopenedFile<'a> {
    file: FileRef<'a>,
    found: RestoredFile,
    /// The data of the open: the file's or that of a stream.
    data: Arc<dyn Node>,
}

/// The files that were found for the opens of one turn. Mostly all of them are of the same file.
#[derive(Default)]
struct FoundFiles(Vec<(SearchKey, Result<RestoredFile, &'static str>)>);

/// All that decides which file is found for an open of a turn.
struct SearchKey {
    address: Vec<u8>,
    paths: Vec<Vec<Name>>,
    born: Option<Time>,
}

thread_local! {
    /// Whether this thread restores the opens of a file just now. It waits for no other such thread then.
    static IS_RESTORING: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that restores opens, until this is dropped.
struct RestoringMark;

impl RestoringMark {
    fn set() -> RestoringMark {
        IS_RESTORING.set(true);
        RestoringMark
    }
}

impl Drop for RestoringMark {
    fn drop(&mut self) {
        IS_RESTORING.set(false);
    }
}

/// Collects restored opens for a caller that waits for all of them.
struct RestoredCollector {
    users: HashMap<Sid, Option<Arc<Identity>>>,
    opens: Sender<Restored>,
}

impl OpenRestorer for RestoredCollector {
    fn user(&self, sid: &Sid) -> Option<Arc<Identity>> {
        self.users.get(sid).cloned().flatten()
    }

    fn take(&self, restored: Restored) {
        // The receiver outlives the restoring.
        let _sent = self.opens.send(restored);
    }
}

impl Share {
    /// Records opens in `journal` from `now` on, and restores all opens of its `records` at once. It must be
    /// called once, before the share is used. The restored opens are then to be detached
    /// ([`Share::detach_restored`]) or closed. An open is dropped with a line in the log if its file is gone
    /// or another one, or if its user is gone.
    ///
    /// # Errors
    /// [`Unreadable`]; nothing was changed.
    pub fn keep_opens(
        &self,
        journal: Arc<dyn Journal>,
        records: &[Vec<u8>],
        who: UserLookup<'_>,
        now: Now,
    ) -> Result<Vec<Restored>, Unreadable> {
        let ledger = Ledger::read(records)?;
        let users = ledger.live.values().map(|entry| entry.made.user);
        let users = users.map(|user| (user, who(&user))).collect();
        let files = ledger.live.len();
        self.keep_ledger(journal, ledger, now)?;
        let (opens, restored) = channel();
        self.restore_for(Arc::new(RestoredCollector { users, opens }));
        thread::scope(|scope| {
            let work = || while self.restore_next() {};
            for _ in 1..THREADS.min(files) {
                // If the host has no more threads, the others do the work.
                let _spawned = thread::Builder::new().name("restore".into()).spawn_scoped(scope, work);
            }
            work();
        });
        let mut restored: Vec<_> = restored.try_iter().collect();
        restored.sort_by_key(|restored| restored.open.id);
        Ok(restored)
    }

    /// Records opens in `journal` from `now` on. Returns the opens of its `records`, which are restored one
    /// after the other once [`Share::restore_for`] has said who takes them over. Both must be called once,
    /// before the share is used. An open is dropped with a line in the log if its file is gone or another
    /// one, or if its user is gone.
    ///
    /// # Errors
    /// [`Unreadable`]; nothing was changed.
    pub fn begin_restoring(
        &self,
        journal: Arc<dyn Journal>,
        records: &[Vec<u8>],
        now: Now,
    ) -> Result<Vec<UnrestoredOpen>, Unreadable> {
        let ledger = Ledger::read(records)?;
        let unrestored =
            ledger.live.iter().map(|(id, entry)| UnrestoredOpen { id: *id, note: entry.made.note.clone() });
        let unrestored = unrestored.collect();
        self.keep_ledger(journal, ledger, now)?;
        Ok(unrestored)
    }

    fn keep_ledger(&self, journal: Arc<dyn Journal>, ledger: Ledger, now: Now) -> Result<(), Unreadable> {
        let changes: Vec<_> =
            self.open_files().versions().begin(&ledger, now).map(JournalRecord::Ahead).into_iter().collect();
        let next = ledger.live.last_key_value().map_or(1, |(id, _)| id + 1);
        self.open_files().begin_ids_at(next);
        for owner in self.persistence().unrestored().enter(&ledger) {
            self.persistence().detached().await_restored(owner);
        }
        let freeze = Arc::clone(&self.config().record_freeze);
        self.persistence().record_in(Recorder::new(journal, ledger, changes, freeze)?);
        Ok(())
    }

    /// Sets who takes the opens over that are restored.
    pub fn restore_for(&self, restorer: Arc<dyn OpenRestorer>) {
        self.persistence().unrestored().restore_for(restorer);
    }

    /// Whether some opens from before the restart are not restored yet.
    pub fn is_restoring(&self) -> bool {
        !self.persistence().unrestored().is_empty()
    }

    /// Restores the opens of one more file. Returns false if each is restored, or another thread is at it.
    pub fn restore_next(&self) -> bool {
        let Some(turn) = self.persistence().unrestored().begin_next() else { return false };
        self.restore_in(turn);
        true
    }

    /// Restores all opens that are left, together with the threads that are at it. The caller holds no lock.
    pub fn restore_all(&self) {
        while self.restore_next() {}
        self.persistence().unrestored().await_others();
    }

    /// Restores the opens of a file before a request decides about it. Returns when that is done. The caller
    /// holds no lock.
    #[inline]
    pub fn restore_file(&self, file: NodeId) {
        if self.is_restoring() {
            self.restore_inode(file.inode);
        }
    }

    /// Restores an open, and the others of its file, before a request asks for it. The caller holds no lock.
    pub fn restore_open(&self, id: u64) {
        if let Some(inode) = self.persistence().unrestored().file_of(id) {
            self.restore_inode(inode);
        }
    }

    /// Restores the opens under the key of a caching right, before the key is used for another file. The
    /// caller holds no lock.
    pub(crate) fn restore_holder(&self, holder: &Holder) {
        if self.is_restoring()
            && let Some(inode) = self.persistence().unrestored().file_held_by(holder)
        {
            self.restore_inode(inode);
        }
    }

    /// Restores the opens of files that were in this directory or below. Returns false if there are too many
    /// for one request, which has to wait until others have restored them. The caller holds no lock.
    pub(crate) fn restore_below(&self, directory: impl FnOnce() -> Vec<Name>) -> bool {
        if !self.is_restoring() {
            return true;
        }
        let below = self.persistence().unrestored().below(&directory());
        let is_few = below.len() <= MOST_BELOW;
        if is_few {
            below.into_iter().for_each(|inode| self.restore_inode(inode));
        }
        is_few
    }

    #[cold]
    fn restore_inode(&self, inode: u64) {
        if IS_RESTORING.get() {
            return;
        }
        if let Some(turn) = self.persistence().unrestored().begin(inode) {
            self.restore_in(turn);
        }
    }

    /// Restores the opens of a file in the order of their ids. Only then they are taken over, because one
    /// that is closed must find the others.
    fn restore_in(&self, turn: FileTurn<'_>) {
        let _marked = RestoringMark::set();
        let Some(recorder) = self.persistence().recorder() else { return };
        let (mut found, mut restored, mut is_any_gone) = (FoundFiles::default(), Vec::new(), false);
        for &id in &turn.opens {
            let Some(state) = recorder.recorded(id) else { continue };
            match self.restore(&state, &mut found, turn.restorer.as_ref()) {
                Ok(open) => {
                    let OpenRecord { keep_ns, note, address, .. } = state.made;
                    let is_doubtful = recorder.is_doubtful();
                    restored.push(Restored { open, keep_ns, note, address, is_doubtful });
                }
                Err(why) => {
                    self.tell_gone(&state.made, why, recorder.is_doubtful());
                    self.note_change(JournalRecord::Closed { id });
                    is_any_gone = true;
                }
            }
        }
        for restored in restored {
            turn.restorer.take(restored);
        }
        for owner in &turn.owners {
            self.persistence().detached().note_restored(*owner);
        }
        drop(turn);
        if is_any_gone {
            self.write_changes();
        }
    }

    /// Logs that an open is not restored.
    fn tell_gone(&self, made: &OpenRecord, why: &str, is_doubtful: bool) {
        let (share, path) = (self.name(), shown(made));
        if is_doubtful {
            tracing::info!(
                %share,
                %path,
                why,
                "an open from before the restart is gone; \
                 that it was closed may stand in a damaged record"
            );
        } else {
            tracing::warn!(%share, %path, why, "an open from before the restart is gone");
        }
    }

    fn restore(
        &self,
        state: &RecordedState,
        found: &mut FoundFiles,
        restorer: &dyn OpenRestorer,
    ) -> Result<Arc<Open>, &'static str> {
        let made = &state.made;
        let reopened = self.reopen(made, found)?;
        // The client that claims it will authenticate.
        let identity =
            if made.address.is_empty() { restorer.user(&made.user) } else { Some(nobody(made.user)) };
        let identity = identity.ok_or("there is no such user any more")?;
        if state.right.is_some() && reopened.found.parent_and_name.is_none() {
            // A change by a program of the host would not be reported.
            self.directories().note_unreported();
        }
        Ok(self.enter_again(state, reopened, identity))
    }

    /// Finds and opens the file of an open.
    fn reopen(&self, made: &OpenRecord, files: &mut FoundFiles) -> Result<ReopenedFile<'_>, &'static str> {
        let found = files.find(made, || self.find_again(made))?;
        let granted = Rights::from_bits_retain(made.granted);
        let file = self.open_files().enter(found.node.id(), found.node.kind());
        let how = if made.stream.is_some() { OpenHow::Attributes } else { how_for_rights(granted) };
        let node = self.shared_node(&file, &found.node, how).map_err(|_| "its file cannot be opened")?;
        let data = match &made.stream {
            None => Arc::clone(&node),
            Some(name) => node.open_stream(name, false, false).map_err(|_| "its file cannot be opened")?,
        };
        Ok(ReopenedFile { file, found: RestoredFile { node, ..found }, data })
    }

    /// Enters the open among the others of its file.
    fn enter_again(
        &self,
        RecordedState { made, ranges, right }: &RecordedState,
        ReopenedFile { file, found: RestoredFile { parent_and_name, node }, data }: ReopenedFile<'_>,
        identity: Arc<Identity>,
    ) -> Arc<Open> {
        let (whole, charge) =
            (!made.address.is_empty(), self.client_memory().charge_open(made.client, &identity));
        let requester = Requester { client: Some(made.client), key: made.key, parent: made.parent, whole };
        let options = Options::from_bits_retain(made.options);
        let (granted, deny) = (Rights::from_bits_retain(made.granted), Deny::from_bits_truncate(made.deny));
        // Its permission bits were not checked.
        file.may_set_id.store(true, Ordering::Relaxed);
        let mut state = file.state.lock();
        let link = parent_and_name.map(|(parent, name)| state.enter_link(&parent, &name));
        let stream = state.enter_stream(made.stream.as_ref());
        let open = Arc::new(Open {
            id: made.id,
            file: Arc::clone(&file),
            stream: Arc::clone(&stream),
            data,
            node: node.into(),
            link: link.clone(),
            granted,
            deny,
            options,
            party: RwLock::new(
                Rank::Party,
                OpenParty { client: made.client, identity, requester, details: None },
            ),
            opened_at: made.opened_at,
            closed: AtomicBool::new(false),
            detached: AtomicBool::new(false),
            persistent: AtomicBool::new(true),
            claimed: AtomicBool::new(!made.address.is_empty()),
            fixed_times: AtomicU8::new(0),
            unreported: AtomicU32::new(0),
            told_failures: AtomicU64::new(file.failed_syncs()),
            followed: OnceLock::new(),
            watch: Mutex::new(Rank::OpenWatch, None),
            charge: Mutex::new(Rank::OpenCharge, charge),
            audited: AuditedUse::default(),
        });
        state.members.push(Member {
            id: made.id,
            stream: Arc::clone(&stream),
            link: link.clone(),
            access: counted(granted, options),
            looks: only_looks(granted, options),
            deny,
            requester,
            delete_on_close: Deletion::on_close(made.id, options),
            open: Arc::downgrade(&open),
        });
        mark(&mut state, made, link.as_ref(), &stream, requester);
        let entered = state.stream(&stream);
        entered.ranges.restore(self.client_memory(), open.account(), ranges.iter());
        if let Some((holder, RecordedRight { state, epoch, counts, parent })) = *right {
            let grant = Grant { state, epoch: counts.then_some(epoch), parent, breaking: None, whole };
            entered.grants.restore(holder, grant);
            self.rights().keys().enter(holder, &file, &stream);
            self.note_goes(&requester, &stream, options);
            if made.goes.is_some() {
                self.rights().keys().set_goes(&requester, &stream, true);
            }
        }
        entered.publish();
        drop(state);
        self.open_files().count_opened();
        open
    }

    /// The file of an open, at one of its recorded paths, if it is still the same file.
    fn find_again(&self, made: &OpenRecord) -> Result<RestoredFile, &'static str> {
        if !made.address.is_empty() {
            let node = self.volume().find(&made.address).map_err(|_| "its file is gone")?;
            let is_same = node.kind() != NodeKind::Directory && node.id().inode == made.inode;
            if !is_same {
                return Err("another file has its address");
            }
            let named = made.paths.iter().filter_map(|path| self.find_path(path).ok().flatten());
            let parent_and_name =
                named.filter(|found| found.node.id() == node.id()).find_map(|found| found.parent_and_name);
            return Ok(RestoredFile { parent_and_name, node });
        }
        let mut why = "its file is gone";
        for path in &made.paths {
            let Ok(Some(found)) = self.find_path(path) else { continue };
            let Ok(stat) = found.node.stat() else { continue };
            if stat.kind != NodeKind::Directory && stat.id.inode == made.inode && stat.born == made.born {
                return Ok(found);
            }
            why = "another file has its name";
        }
        Err(why)
    }

    /// The target of an exact path, without following links.
    fn find_path(&self, path: &[Name]) -> Result<Option<RestoredFile>, Refusal> {
        let search = Search { exact: true, how: OpenHow::Attributes, rather_missing: false };
        let Some((last, above)) = path.split_last() else { return Ok(None) };
        let mut here = Arc::clone(self.root());
        for name in above {
            let generation = here.generation();
            let Some(ResolvedName { name: real, node, .. }) = self.look_up(&here, name, search)? else {
                return Ok(None);
            };
            if node.kind() != NodeKind::Directory {
                return Ok(None);
            }
            here = self.directories().enter(&here, (name, &real), node, Some(generation));
        }
        let found = self.look_up(&here, last, search)?;
        Ok(found.map(|found| RestoredFile { parent_and_name: Some((here, found.name)), node: found.node }))
    }
}

impl FoundFiles {
    /// The file of an open. `find` finds it if none was looked for in the same way.
    fn find(
        &mut self,
        made: &OpenRecord,
        find: impl FnOnce() -> Result<RestoredFile, &'static str>,
    ) -> Result<RestoredFile, &'static str> {
        let OpenRecord { address, paths, born, .. } = made;
        let is_same = |by: &SearchKey| by.address == *address && by.paths == *paths && by.born == *born;
        if let Some((_, known)) = self.0.iter().find(|(by, _)| is_same(by)) {
            return known.clone();
        }
        let found = find();
        let by = SearchKey { address: address.clone(), paths: paths.clone(), born: *born };
        self.0.push((by, found.clone()));
        found
    }
}

/// Restores the marks for deletion.
fn mark(
    state: &mut FileState,
    made: &OpenRecord,
    link: Option<&Arc<HardLinkedName>>,
    stream: &Arc<Stream>,
    requester: Requester,
) {
    let Some(goes) = made.goes else { return };
    if stream.is_named {
        state.stream(stream).delete = true;
    } else if let Some(entry) = link.and_then(|link| state.link(link)) {
        let how = match goes {
            RemovalMark::WithLast => Deletion::WithLast,
            RemovalMark::WithOpen => Deletion::WithOpen(made.id),
        };
        (entry.delete, entry.deleter) = (Some(how), requester);
    }
}

/// An identity without any right. It owns an open until the open is claimed.
fn nobody(sid: volume::security::Sid) -> Arc<Identity> {
    Arc::new(Identity {
        name: String::new(),
        sid,
        groups: Vec::new(),
        uid: NOBODY,
        gid: NOBODY,
        host_groups: Vec::new(),
        actor: None,
        administrator: false,
        unbound: false,
        limit: Rights::empty(),
        home: None,
    })
}

/// A readable path.
fn shown(made: &OpenRecord) -> String {
    if !made.address.is_empty() {
        return format!("inode {}", made.inode);
    }
    let names = made.paths.last().map_or(&[][..], |path| path);
    names.iter().map(|name| name.display().into_owned()).collect::<Vec<_>>().join("/")
}
