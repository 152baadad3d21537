//! Restores opens that were recorded before a restart.
//!
//! Each is restored as it was, under its old id. Its file is found by its path and must be the same file,
//! because a path may lead to another file by now. No client is asked for anything meanwhile, because no
//! client is connected yet.
//!
//! Each file takes a few calls of the store, which may be far away. So several threads open the files
//! ([`Share::reopen_all`]). One thread then enters the opens in the order of their ids.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use volume::journal::Journal;
use volume::security::Rights;
use volume::{Name, Node, NodeKind, OpenHow};
use wire::Now;

use crate::caching::grants::{Grant, Requester};
use crate::engine::Share;
use crate::engine::lookup::name::{ResolvedName, Search};
use crate::engine::operations::reservation::how_for_rights;
use crate::engine::parts::file::{Deletion, FileState, HardLinkedName, Member, Stream, counted, only_looks};
use crate::engine::parts::names::directory::Directory;
use crate::engine::parts::open_files::FileRef;
use crate::engine::parts::persistence::Recorder;
use crate::open::{AuditedUse, OpenParty};
use crate::persistence::ledger::{Ledger, RecordedOpen};
use crate::persistence::record::{JournalRecord, OpenRecord, RecordedRight, RemovalMark};
use crate::ranked::{Mutex, Rank, RwLock};
use crate::{Deny, Identity, Open, Options, Refusal, Restored, Unreadable, UserLookup};

/// The host's user and group that own nothing.
const NOBODY: u32 = 65_534;

/// The threads that open files at once.
const THREADS: usize = 16;

/// The file of an open that was found again.
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

impl Share {
    /// Records opens in `journal` from `now` on, and restores the opens of its `records`. It must be called
    /// once, before the share is used. The restored opens are then to be detached ([`Share::detach_open`]) or
    /// closed. An open is dropped with a line in the log if its file is gone or another one, or if its user
    /// is gone.
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
        let mut changes: Vec<_> =
            self.open_files().versions().begin(&ledger, now).map(JournalRecord::Ahead).into_iter().collect();
        let next = ledger.live.last_key_value().map_or(1, |(id, _)| id + 1);
        self.open_files().begin_ids_at(next);
        let is_doubtful = journal.lacks_some();
        let mut restored = Vec::new();
        for ((id, entry), reopened) in ledger.live.iter().zip(self.reopen_all(&ledger)) {
            let right = entry.holder().and_then(|holder| ledger.rights.get(&holder)).copied();
            match reopened.and_then(|reopened| self.restore(entry, right, reopened, who)) {
                Ok(open) => {
                    let OpenRecord { keep_ns, note, address, .. } = &entry.made;
                    let (note, address) = (note.clone(), address.clone());
                    restored.push(Restored { open, keep_ns: *keep_ns, note, address, is_doubtful });
                }
                Err(why) => {
                    let path = shown(&entry.made);
                    if is_doubtful {
                        tracing::info!(
                            share = %self.name(),
                            %path,
                            why,
                            "an open from before the restart is gone; \
                             that it was closed may stand in a damaged record"
                        );
                    } else {
                        tracing::warn!(
                            share = %self.name(),
                            %path,
                            why,
                            "an open from before the restart is gone"
                        );
                    }
                    changes.push(JournalRecord::Closed { id: *id });
                }
            }
        }
        self.persistence().record_in(Recorder::new(
            journal,
            ledger,
            changes,
            Arc::clone(&self.config().record_freeze),
        )?);
        Ok(restored)
    }

    /// Finds and opens the file of each open. The results are in the order of the ids.
    fn reopen_all(&self, ledger: &Ledger) -> Vec<Result<ReopenedFile<'_>, &'static str>> {
        let entries: Vec<_> = ledger.live.values().collect();
        let slots: Vec<_> = entries.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < entries.len()) {
                slots[at].get_or_init(|| self.reopen(&entries[at].made));
            }
        };
        thread::scope(|scope| {
            for _ in 1..THREADS.min(entries.len()) {
                // If the host has no more threads, the others do the work.
                let _spawned = thread::Builder::new().name("restore".into()).spawn_scoped(scope, work);
            }
            work();
        });
        slots
            .into_iter()
            .map(|slot| slot.into_inner().unwrap_or(Err("its file was not looked for")))
            .collect()
    }

    fn restore(
        &self,
        entry: &RecordedOpen,
        right: Option<RecordedRight>,
        reopened: ReopenedFile<'_>,
        who: UserLookup<'_>,
    ) -> Result<Arc<Open>, &'static str> {
        let made = &entry.made;
        // The client that claims it will authenticate.
        let identity = if made.address.is_empty() { who(&made.user) } else { Some(nobody(made.user)) };
        let identity = identity.ok_or("there is no such user any more")?;
        if right.is_some() && reopened.found.parent_and_name.is_none() {
            // A change by a program of the host would not be reported.
            self.directories().note_unreported();
        }
        Ok(self.enter_again(entry, right, reopened, identity))
    }

    /// Finds and opens the file of an open.
    fn reopen(&self, made: &OpenRecord) -> Result<ReopenedFile<'_>, &'static str> {
        let found = self.find_again(made)?;
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
        entry: &RecordedOpen,
        right: Option<RecordedRight>,
        ReopenedFile { file, found: RestoredFile { parent_and_name, node }, data }: ReopenedFile<'_>,
        identity: Arc<Identity>,
    ) -> Arc<Open> {
        let made = &entry.made;
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
        entered.ranges.restore(self.client_memory(), open.account(), entry.ranges.held());
        if let (Some(holder), Some(right)) = (entry.holder(), right) {
            let RecordedRight { state, epoch, counts, parent } = right;
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
