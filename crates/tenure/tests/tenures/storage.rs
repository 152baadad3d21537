//! The shared storage: one journal for each virtual server, and the storage clients that are fenced.
//!
//! Appends arrive in the order of their writer, and may arrive late: the writer may be dead by then. A
//! storage is coherent within one boot of a node. So who reads a journal sees what an earlier process on the
//! same boot has written, even if it is under way.

use std::collections::{BTreeMap, VecDeque};

use crate::checks::Breach;
use crate::clock::{MILLI, SECOND};
use crate::process::ProcessEvent;
use crate::world::{Defect, LOCKS, ProcessId, World, WorldEvent};

/// The number of a simulated client of a virtual server.
pub type ClientNumber = u8;

/// A record of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalRecord {
    /// The data have this version now. Each write has a higher one.
    Version(u64),
    Locked(usize, ClientNumber),
    Unlocked(usize),
}

/// The contents of a journal.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    pub version: u64,
    pub locks: [Option<ClientNumber>; LOCKS],
}

impl Contents {
    pub fn apply(&mut self, record: JournalRecord) {
        match record {
            JournalRecord::Version(version) => self.version = version,
            JournalRecord::Locked(lock, client) => self.locks[lock] = Some(client),
            JournalRecord::Unlocked(lock) => self.locks[lock] = None,
        }
    }
}

/// An append that is under way.
#[derive(Debug, Clone, Copy)]
pub struct Append {
    pub id: u64,
    pub writer: ProcessId,
    pub node: u32,
    pub boot: u64,
    pub storage_client: u64,
    pub epoch: u64,
    pub record: JournalRecord,
}

/// The journal of one virtual server.
#[derive(Debug, Default)]
pub struct FileJournal {
    pub contents: Contents,
    /// The last epoch whose owner has read the journal.
    pub read_by: u64,
    pub under_way: VecDeque<Append>,
    /// The last writer, and the time at which its last append arrives.
    last: Option<(ProcessId, u64)>,
    /// The writers of the last epochs.
    owners: BTreeMap<u64, ProcessId>,
}

/// The writers of older epochs are forgotten.
const OWNERS_KEPT: usize = 8;

impl World {
    /// Sends an append on its way.
    pub fn append(&mut self, server: u32, append: Append) {
        let mut delay = self.chance.between(MILLI / 5, 3 * MILLI);
        if self.chance.one_in(200) {
            delay = self.chance.between(MILLI, 4 * SECOND);
        }
        let journal = &mut self.servers[server as usize].journal;
        // A writer's appends keep their order.
        let after = journal.last.filter(|(writer, _)| *writer == append.writer).map_or(0, |(_, at)| at + 1);
        let at = (self.now + delay).max(after);
        journal.last = Some((append.writer, at));
        journal.under_way.push_back(append);
        self.push(at, WorldEvent::Append { server, id: append.id });
    }

    /// An append arrives, unless its boot has read the journal since.
    pub fn append_arrives(&mut self, server: u32, id: u64) {
        let journal = &mut self.servers[server as usize].journal;
        let Some(&append) = journal.under_way.iter().find(|append| append.id == id) else { return };
        let node = &self.nodes[append.node as usize];
        if node.boot == append.boot && node.storage_cut_until > self.now {
            // It is sent again when the storage is back, in the same order.
            let at = node.storage_cut_until;
            return self.push(at, WorldEvent::Append { server, id });
        }
        // What the writer has sent before comes first.
        let (here, others): (VecDeque<_>, _) =
            journal.under_way.drain(..).partition(|other| other.writer == append.writer && other.id <= id);
        journal.under_way = others;
        for append in here {
            self.arrived(server, append);
        }
    }

    fn arrived(&mut self, server: u32, append: Append) {
        let is_accepted = !self.fenced.contains(&append.storage_client);
        if is_accepted {
            self.accept(server, append);
        } else {
            self.checks.tally.fenced_appends += 1;
            self.checks.line(self.now, || format!("server {server}: refused {append:?}"));
        }
        let at = self.now + self.jitter();
        self.push(
            at,
            WorldEvent::process(append.writer, ProcessEvent::Appended { id: append.id, is_accepted }),
        );
    }

    fn accept(&mut self, server: u32, append: Append) {
        let (checks, now) = (&mut self.checks, self.now);
        let journal = &mut self.servers[server as usize].journal;
        let owner = *journal.owners.entry(append.epoch).or_insert(append.writer);
        if journal.owners.len() > OWNERS_KEPT {
            journal.owners.pop_first();
        }
        checks.tally.appends += 1;
        checks.must(owner == append.writer, Breach::TwoOwners, now, || {
            format!("{server}: {append:?}, {owner:?}")
        });
        let read_by = journal.read_by;
        checks.must(append.epoch >= read_by, Breach::LateAppend, now, || {
            format!("server {server}: {append:?} after epoch {read_by} has read the journal")
        });
        if let JournalRecord::Version(version) = append.record {
            let last = journal.contents.version;
            checks.must(version > last, Breach::LostRecord, now, || {
                format!("server {server}: {append:?} after version {last}")
            });
        }
        if let JournalRecord::Locked(lock, client) = append.record {
            let holder = self.servers[server as usize].holders[lock];
            self.checks.must(holder.is_none_or(|it| it == client), Breach::GrantedTwice, now, || {
                format!("server {server}: client {holder:?} holds it: {append:?}")
            });
        }
        self.checks
            .line(now, || format!("server {server}: epoch {} records {:?}", append.epoch, append.record));
        self.servers[server as usize].journal.contents.apply(append.record);
    }

    /// The owner of an epoch reads the journal.
    pub fn read_journal(&mut self, server: u32, node: u32, epoch: u64) -> Contents {
        let boot = self.nodes[node as usize].boot;
        let under_way = std::mem::take(&mut self.servers[server as usize].journal.under_way);
        for append in under_way {
            let is_here = append.node == node && append.boot == boot;
            match is_here && !self.fenced.contains(&append.storage_client) {
                true => self.accept(server, append),
                false => self.servers[server as usize].journal.under_way.push_back(append),
            }
        }
        let it = &mut self.servers[server as usize];
        it.journal.read_by = it.journal.read_by.max(epoch);
        let mut contents = it.journal.contents.clone();
        if self.defect == Defect::LastRecordMissed {
            contents.version = contents.version.saturating_sub(1);
        }
        let (told, now) = (it.told_version, self.now);
        let lost =
            (0..LOCKS).find(|lock| it.holders[*lock].is_some() && it.holders[*lock] != contents.locks[*lock]);
        self.checks.must(contents.version >= told && lost.is_none(), Breach::LostRecord, now, || {
            format!("server {server}, epoch {epoch}: version {told} was told, lock {lost:?}: {contents:?}")
        });
        contents
    }

    /// A machine dies with what it has not sent yet.
    pub fn forget_unsent(&mut self, server: u32, node: u32) {
        let boot = self.nodes[node as usize].boot;
        let journal = &mut self.servers[server as usize].journal;
        let is_here = |append: &Append| append.node == node && append.boot == boot;
        let all = journal.under_way.iter().filter(|append| is_here(append)).count();
        let mut left = self.chance.below(all + 1);
        journal.under_way.retain(|append| {
            let is_sent = left > 0;
            left = left.saturating_sub(usize::from(is_here(append)));
            !is_here(append) || is_sent
        });
    }
}
