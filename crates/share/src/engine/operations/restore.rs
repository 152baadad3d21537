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
//!
//! The host may fail to open a file, and nobody knows then whether the file is still there
//! ([`RestoreFailure`]). Its opens stay recorded, and all of them are tried again. Until then, requests that
//! decide about the file fail with the host's error.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use volume::journal::Journal;
use volume::security::{Rights, Sid};
use volume::{Name, Node, NodeId, NodeKind, OpenHow, Stat, Time};
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
    Deny, Identity, Open, OpenRestorer, Options, Refusal, Restored, Unreadable, UnrestoredOpen, UserFailure,
};

/// The host's user and group that own nothing.
const NOBODY: u32 = 65_534;

/// The most files of a directory whose opens one request restores.
const MOST_BELOW: usize = 16;

/// The number of rounds in which all files that are left are tried.
const ROUNDS: usize = 3;

const GONE: &str = "its file is gone";
const NOT_OPENED: &str = "its file cannot be opened";

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
struct FoundFiles(Vec<(SearchKey, Result<RestoredFile, RestoreFailure>)>);

/// The reason why an open is not restored.
#[derive(Clone)]
enum RestoreFailure {
    /// Its file or its user is not there any more, or is another one. The open has ended.
    Gone(&'static str),
    /// The host cannot say. The open is tried again later.
    Host(Refusal),
}

impl RestoreFailure {
    /// Sorts the host's answer to the search for a file, or to its opening. `gone` says what a final answer
    /// means. A host that fails here fails for the next request too, so a refusal keeps no file from anybody.
    fn of(why: Refusal, gone: &'static str) -> RestoreFailure {
        match why {
            // A directory on the path has gone while it was used, or the whole file system has.
            Refusal::Gone | Refusal::WouldBlock => RestoreFailure::Host(Refusal::Io),
            Refusal::NoSpace
            | Refusal::Quota
            | Refusal::Exhausted
            | Refusal::Busy
            | Refusal::HostKeeps
            | Refusal::Io => RestoreFailure::Host(why),
            Refusal::NotFound
            | Refusal::PathNotFound
            | Refusal::Exists
            | Refusal::NotADirectory
            | Refusal::IsADirectory
            | Refusal::NotEmpty
            | Refusal::AccessDenied
            | Refusal::PrivilegeNotHeld
            | Refusal::BadOwner
            | Refusal::SharingConflict
            | Refusal::RangeConflict
            | Refusal::RangeNotGranted
            | Refusal::RangeNotHeld
            | Refusal::BadRange
            | Refusal::DeletePending
            | Refusal::CannotDelete
            | Refusal::BadName
            | Refusal::NameTooLong
            | Refusal::StoppedAtLink { .. }
            | Refusal::StoppedAtReparse { .. }
            | Refusal::BadLink
            | Refusal::TooLarge
            | Refusal::ReadOnly
            | Refusal::CrossVolume
            | Refusal::TooManyLinks
            | Refusal::Invalid
            | Refusal::NotSupported
            | Refusal::BadAttributeName
            | Refusal::AttributesTooLarge
            | Refusal::NoSuchAttribute
            | Refusal::NoSuchNote
            | Refusal::EndOfFile
            | Refusal::NoMoreEntries
            | Refusal::WatchOverflow
            | Refusal::Cancelled
            | Refusal::InUse
            | Refusal::Running
            | Refusal::OwnerAway
            | Refusal::NoSuchGrant
            | Refusal::TooMuchKept => RestoreFailure::Gone(gone),
        }
    }
}

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

impl Share {
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
        let unrestored = ledger.live.iter().map(|(id, entry)| UnrestoredOpen {
            id: *id,
            client: entry.made.client,
            note: entry.made.note.clone(),
        });
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

    /// The number of files with opens from before the restart that are not restored yet.
    pub fn unrestored_files(&self) -> usize {
        self.persistence().unrestored().file_count()
    }

    /// Restores the opens of one more file, if the host can open it. Returns false when each file had its
    /// turn in this round: it is restored, has failed, or another thread is at it.
    pub fn restore_next(&self) -> bool {
        let Some(turn) = self.persistence().unrestored().begin_next() else { return false };
        // The failure is logged, and the next round tries again.
        let _failed = self.restore_in(turn);
        true
    }

    /// Begins another round: [`Share::restore_next`] tries the files again that the host failed to open.
    pub fn restore_again(&self) {
        self.persistence().unrestored().begin_round();
    }

    /// Restores all opens that are left, together with the threads that are at it. A file that the host fails
    /// to open is tried a few times. The caller holds no lock.
    ///
    /// # Errors
    /// The host's error; some opens are not restored.
    pub fn restore_all(&self) -> Result<(), Refusal> {
        let mut failure = None;
        for _ in 0..ROUNDS {
            self.restore_again();
            while self.restore_next() {}
            self.persistence().unrestored().await_others();
            failure = self.persistence().unrestored().any_failure();
            if failure.is_none() {
                break;
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Ends the opens that are not restored, as if their files were gone. A file that was to be deleted with
    /// its last open stays. Returns the number of opens.
    pub fn give_up_unrestored(&self) -> usize {
        let (opens, owners) = self.persistence().unrestored().give_up();
        opens.iter().for_each(|id| self.note_change(JournalRecord::Closed { id: *id }));
        owners.iter().for_each(|owner| self.persistence().detached().note_restored(*owner));
        self.write_changes();
        opens.len()
    }

    /// Restores the opens of a file before a request decides about it. Returns when that is done. The caller
    /// holds no lock.
    ///
    /// # Errors
    /// The host's error. The opens are tried again later, and the request must not go on.
    #[inline]
    pub fn restore_file(&self, file: NodeId) -> Result<(), Refusal> {
        if self.is_restoring() { self.restore_inode(file.inode) } else { Ok(()) }
    }

    /// Restores an open, and the others of its file, before a request asks for it. The caller holds no lock.
    ///
    /// # Errors
    /// As [`Share::restore_file`].
    pub fn restore_open(&self, id: u64) -> Result<(), Refusal> {
        let file = self.persistence().unrestored().file_of(id);
        file.map_or(Ok(()), |inode| self.restore_inode(inode))
    }

    /// Restores the opens under the key of a caching right, before the key is used for another file. The
    /// caller holds no lock.
    ///
    /// # Errors
    /// As [`Share::restore_file`].
    pub(crate) fn restore_holder(&self, holder: &Holder) -> Result<(), Refusal> {
        if !self.is_restoring() {
            return Ok(());
        }
        let file = self.persistence().unrestored().file_held_by(holder);
        file.map_or(Ok(()), |inode| self.restore_inode(inode))
    }

    /// Restores the opens of files that were in this directory or below. Returns false if there are too many
    /// for one request, which has to wait until others have restored them. The caller holds no lock.
    ///
    /// # Errors
    /// As [`Share::restore_file`].
    pub(crate) fn restore_below(&self, directory: impl FnOnce() -> Vec<Name>) -> Result<bool, Refusal> {
        if !self.is_restoring() {
            return Ok(true);
        }
        let below = self.persistence().unrestored().below(&directory());
        if below.len() <= MOST_BELOW {
            return below.into_iter().try_for_each(|inode| self.restore_inode(inode)).map(|()| true);
        }
        // The wait would not end while the host fails.
        self.persistence().unrestored().failure_among(&below).map_or(Ok(false), Err)
    }

    #[cold]
    fn restore_inode(&self, inode: u64) -> Result<(), Refusal> {
        if IS_RESTORING.get() {
            return Ok(());
        }
        match self.persistence().unrestored().begin(inode)? {
            Some(turn) => self.restore_in(turn),
            None => Ok(()),
        }
    }

    /// Restores the opens of a file in the order of their ids. All are found before any is entered, because
    /// the host may fail at the last. All are entered before any is taken over, because one that is closed
    /// must find the others.
    fn restore_in(&self, turn: FileTurn<'_>) -> Result<(), Refusal> {
        let _marked = RestoringMark::set();
        let Some(recorder) = self.persistence().recorder() else { return Ok(()) };
        let (mut files, mut found) = (FoundFiles::default(), Vec::new());
        for state in turn.opens.iter().filter_map(|id| recorder.recorded(*id)) {
            match self.find_for(&state.made, &mut files, turn.restorer.as_ref()) {
                Ok(file) => found.push((state, Ok(file))),
                Err(RestoreFailure::Gone(why)) => found.push((state, Err(why))),
                Err(RestoreFailure::Host(why)) => {
                    self.tell_failing(&state.made, &why);
                    turn.fail(why.clone());
                    return Err(why);
                }
            }
        }
        let (mut restored, mut is_any_gone, is_doubtful) = (Vec::new(), false, recorder.is_doubtful());
        for (state, found) in found {
            match found {
                Ok((reopened, identity)) => {
                    let open = self.enter_again(&state, reopened, identity);
                    let OpenRecord { keep_ns, note, address, .. } = state.made;
                    restored.push(Restored { open, keep_ns, note, address, is_doubtful });
                }
                Err(why) => {
                    self.tell_gone(&state.made, why, is_doubtful);
                    turn.restorer.lose(state.made.client, &state.made.note);
                    self.note_change(JournalRecord::Closed { id: state.made.id });
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
        self.tell_sound();
        if is_any_gone {
            self.write_changes();
        }
        Ok(())
    }

    /// Logs that the host fails to open files, once until it does so again.
    #[cold]
    fn tell_failing(&self, made: &OpenRecord, why: &Refusal) {
        if !self.persistence().unrestored().told_failing.swap(true, Ordering::Relaxed) {
            let (share, path) = (self.name(), shown(made));
            tracing::warn!(
                %share,
                %path,
                %why,
                "a file that was open before the restart cannot be opened: its clients wait, other requests \
                 for it are refused, and it is tried again; look at the disk or at the network of the store"
            );
        }
    }

    /// Logs that no file fails any more.
    fn tell_sound(&self) {
        let unrestored = self.persistence().unrestored();
        if unrestored.told_failing.load(Ordering::Relaxed)
            && !unrestored.is_failing()
            && unrestored.told_failing.swap(false, Ordering::Relaxed)
        {
            tracing::info!(share = %self.name(), "the host opens all files again");
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

    /// Finds the file of an open, and the identity of its user.
    fn find_for(
        &self,
        made: &OpenRecord,
        files: &mut FoundFiles,
        restorer: &dyn OpenRestorer,
    ) -> Result<(ReopenedFile<'_>, Arc<Identity>), RestoreFailure> {
        let reopened = self.reopen(made, files)?;
        // The client that claims it will authenticate.
        if !made.address.is_empty() {
            return Ok((reopened, nobody(made.user)));
        }
        match restorer.user(&made.user) {
            Ok(identity) => Ok((reopened, identity)),
            Err(UserFailure::Unreachable) => Ok((reopened, nobody(made.user))),
            Err(UserFailure::Gone) => Err(RestoreFailure::Gone("there is no such user any more")),
        }
    }

    /// Finds and opens the file of an open.
    fn reopen(&self, made: &OpenRecord, files: &mut FoundFiles) -> Result<ReopenedFile<'_>, RestoreFailure> {
        let found = files.find(made, || self.find_again(made))?;
        let granted = Rights::from_bits_retain(made.granted);
        let file = self.open_files().enter(found.node.id(), found.node.kind());
        let how = if made.stream.is_some() { OpenHow::Attributes } else { how_for_rights(granted) };
        let not_opened = |why| RestoreFailure::of(why, NOT_OPENED);
        let node = self.with_room(|| self.shared_node(&file, &found.node, how)).map_err(not_opened)?;
        let data = match &made.stream {
            None => Arc::clone(&node),
            Some(name) => node.open_stream(name, false, false).map_err(Refusal::from).map_err(not_opened)?,
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
        if right.is_some() && parent_and_name.is_none() {
            // A change by a program of the host would not be reported.
            self.directories().note_unreported();
        }
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
    fn find_again(&self, made: &OpenRecord) -> Result<RestoredFile, RestoreFailure> {
        if !made.address.is_empty() {
            return self.find_at_address(made);
        }
        let (mut why, mut failure) = (GONE, None);
        for path in &made.paths {
            match self.find_named(path) {
                Ok(Some((found, stat)))
                    if stat.kind != NodeKind::Directory
                        && stat.id.inode == made.inode
                        && stat.born == made.born =>
                {
                    return Ok(found);
                }
                Ok(Some(_)) => why = "another file has its name",
                Ok(None) | Err(RestoreFailure::Gone(_)) => {}
                Err(RestoreFailure::Host(why)) => failure = Some(why),
            }
        }
        // One of the paths may be that of the file.
        Err(failure.map_or(RestoreFailure::Gone(why), RestoreFailure::Host))
    }

    /// The target of a path, and its properties.
    fn find_named(&self, path: &[Name]) -> Result<Option<(RestoredFile, Stat)>, RestoreFailure> {
        let of_host = |why| RestoreFailure::of(why, GONE);
        let Some(found) = self.find_path(path).map_err(of_host)? else { return Ok(None) };
        let stat = found.node.stat().map_err(Refusal::from).map_err(of_host)?;
        Ok(Some((found, stat)))
    }

    /// The file at the recorded address of an open, with its name if it still has a recorded one.
    fn find_at_address(&self, made: &OpenRecord) -> Result<RestoredFile, RestoreFailure> {
        let found = self.with_room(|| Ok(self.volume().find(&made.address)?));
        let node = found.map_err(|why| self.missing_at_address(why))?;
        if node.kind() == NodeKind::Directory || node.id().inode != made.inode {
            return Err(RestoreFailure::Gone("another file has its address"));
        }
        for path in &made.paths {
            match self.find_path(path).map_err(|why| RestoreFailure::of(why, GONE)) {
                Ok(Some(found)) if found.node.id() == node.id() => {
                    return Ok(RestoredFile { parent_and_name: found.parent_and_name, node });
                }
                Ok(_) | Err(RestoreFailure::Gone(_)) => {}
                // Without its name it could not be deleted with its last open.
                Err(why) => return Err(why),
            }
        }
        Ok(RestoredFile { parent_and_name: None, node })
    }

    /// Sorts the failure to find an address. A file system that is lost knows no address, and not its own
    /// root either.
    fn missing_at_address(&self, why: Refusal) -> RestoreFailure {
        match why {
            Refusal::Gone if self.root().node.stat().is_ok() => RestoreFailure::Gone(GONE),
            why => RestoreFailure::of(why, GONE),
        }
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
        find: impl FnOnce() -> Result<RestoredFile, RestoreFailure>,
    ) -> Result<RestoredFile, RestoreFailure> {
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
fn nobody(sid: Sid) -> Arc<Identity> {
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
