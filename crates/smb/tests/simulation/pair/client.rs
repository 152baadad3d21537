//! One of the clients: its session, its workers with their open files, its cache, and its handling of the
//! server's replies.

use smb_wire::create_context::{DurableFlags, LeaseState, ResponseContext};
use smb_wire::oplock_break::{Notification, NotificationFlags};
use smb_wire::{FileId, Guid, LeaseKey, NtStatus, SmbCommand, create, read};
use testkit::smb::SmbTestServer;
use testkit::smb::peer::ReceivedMessage;

use super::cache::{FileCache, HANDLE, READ, WRITE};
use super::record::{HoldKind, NEVER, Observations, Time};
use super::requests::{self, CellLayout, Op, OpenParameters, Task};
use super::{CELLS, FILES, PairShape, PairTally, SLOTS};
use crate::disk::{self, Disk, Failed};
use crate::log;
use crate::session::Session;
use testkit::dice::Dice;

use std::collections::BTreeMap;

/// How long a handle is kept for its client, in seconds.
const KEPT: u64 = 60;

/// The disk does not fail a reconnect more often than this.
const MOST_TIMES: usize = 20;

/// The owner of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestOwner {
    Worker(usize),
    /// A value is written back through this worker's handle.
    Back(usize),
    /// A break of this file is acknowledged.
    Acknowledgement(usize),
}

/// A request without a reply yet.
#[derive(Debug)]
struct PendingRequest {
    owner: RequestOwner,
    task: Task,
    /// The line of its last copy and the message id there. `None` while it waits to be sent again.
    sent: Option<(u64, u64)>,
    start: Time,
    /// The generation of the file's cache when it began.
    generation: u64,
    /// The requested hold.
    hold: Option<usize>,
    /// The number of disk failures when it began.
    failed: Failed,
}

/// An open file.
#[derive(Debug)]
struct Handle {
    id: FileId,
    create_guid: Guid,
    wish: OpenParameters,
    /// The unique number of the handle.
    number: usize,
    is_durable: bool,
    hold: usize,
    ranges: BTreeMap<usize, usize>,
    /// Ranges of a repeated LOCK that was refused. The first copy may still come. LOCK is not one of the
    /// requests that are refused for an old ChannelSequence (MS-SMB2 3.3.5.2.10).
    strays: Vec<usize>,
}

impl Handle {
    fn holds(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.hold).chain(self.ranges.values().copied()).chain(self.strays.iter().copied())
    }
}

#[derive(Debug, Default)]
struct ClientWorker {
    handle: Option<Handle>,
    left: usize,
    locks: u32,
}

/// The surroundings of a client: the time, the disk and the shared record.
pub struct ClientEnvironment<'a> {
    pub dice: &'a mut Dice,
    pub record: &'a mut Observations,
    pub tally: &'a mut PairTally,
    pub shape: &'a PairShape,
    pub now: Time,
    /// The server's clock in seconds, including the time before restarts.
    pub seconds: u64,
    /// The source of unique values and handle numbers.
    pub next: &'a mut u64,
    pub disk: &'a mut Disk,
}

impl ClientEnvironment<'_> {
    fn fresh(&mut self) -> u64 {
        *self.next += 1;
        *self.next
    }
}

pub struct Client {
    pub session: Session,
    pub files: Vec<FileCache>,
    workers: Vec<ClientWorker>,
    pending: Vec<PendingRequest>,
    number: u8,
    created: u32,
    /// Since when no channel is left, in the history's time and in seconds.
    down: Option<(Time, u64)>,
}

impl Client {
    pub fn new(world: &SmbTestServer, number: u8, seed: u64, shape: &PairShape) -> Client {
        let mut guid = *b"simulated pair: ";
        guid[..8].copy_from_slice(&seed.to_le_bytes());
        guid[15] = number;
        let key = |file: usize| LeaseKey([number, file as u8, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        let worker = || ClientWorker { left: shape.operations, ..ClientWorker::default() };
        Client {
            session: Session::new(world, Guid(guid)),
            files: (0..FILES).map(|file| FileCache::new(file, key(file))).collect(),
            workers: (0..shape.workers).map(|_| worker()).collect(),
            pending: Vec::new(),
            number,
            created: 0,
            down: None,
        }
    }

    // Actions -----------------------------------------------------------------------------------------

    /// Whether only the closes are left.
    pub fn is_done(&self) -> bool {
        self.pending.is_empty() && self.workers.iter().all(|worker| worker.left == 0)
    }

    /// Whether no message is on its way in either direction, and no data or acknowledgment is due.
    pub fn is_quiet(&self) -> bool {
        let sent = self.session.lines.iter().all(|line| line.requests.is_empty());
        let kept = self.files.iter().any(|file| file.owes || !file.dirty.is_empty());
        self.pending.is_empty() && sent && !kept && self.down.is_none()
    }

    /// Makes all workers close their files.
    pub fn wind_up(&mut self) {
        for worker in &mut self.workers {
            worker.left = usize::from(worker.handle.is_some());
        }
    }

    pub fn has_open(&self, file: usize) -> bool {
        self.handles_of(file).next().is_some()
    }

    fn handles_of(&self, file: usize) -> impl Iterator<Item = (usize, &Handle)> {
        let handles = self.workers.iter().enumerate().filter_map(|(at, w)| Some((at, w.handle.as_ref()?)));
        handles.filter(move |(_, handle)| handle.wish.file == file)
    }

    fn is_busy(&self, owner: RequestOwner) -> bool {
        self.pending.iter().any(|pending| pending.owner == owner)
    }

    /// Whether a write of this cell is under way.
    fn is_written(&self, at: (usize, usize)) -> bool {
        self.pending.iter().any(|pending| match pending.task.op {
            Op::Write { file, cell, .. } | Op::WriteBack { file, cell, .. } => (file, cell) == at,
            _ => false,
        })
    }

    /// Begins the next operation of a worker. Returns true if it is the last one, a close.
    pub fn begin(&mut self, scene: &mut ClientEnvironment<'_>) {
        let at = scene.dice.below(self.workers.len());
        let left = self.workers[at].left;
        if left == 0 || self.is_busy(RequestOwner::Worker(at)) || self.session.heard() == 0 {
            return;
        }
        let Some(handle) = &self.workers[at].handle else { return self.begin_open(at, scene) };
        let (file, writes) = (handle.wish.file, handle.wish.writes);
        let cell = scene.dice.below(CELLS);
        match scene.dice.weighted(&[6, 6, 3, 1]) {
            _ if scene.shape.closes => self.begin_close(at, scene),
            1 if writes => self.begin_write(at, (file, cell), scene),
            0 | 1 => self.begin_read(at, (file, cell), scene),
            2 => self.begin_range(at, scene),
            _ => self.begin_close(at, scene),
        }
    }

    fn begin_open(&mut self, at: usize, scene: &mut ClientEnvironment<'_>) {
        let file = scene.dice.below(FILES);
        // MS-SMB2 3.3.5.22.2: it does not go together with an acknowledgment of a break either, since it
        // could not be replayed after that.
        if self.is_crossed(file, |op| *op == Op::Close) || self.is_busy(RequestOwner::Acknowledgement(file)) {
            return;
        }
        let states = [LeaseState::empty(), READ, READ | HANDLE, READ | WRITE, READ | HANDLE | WRITE];
        let state = states[scene.dice.weighted(&[1, 2, 4, 2, 6])];
        let shares = [(true, true), (true, false), (false, false)][scene.dice.weighted(&[10, 2, 1])];
        let wish = OpenParameters {
            file,
            writes: scene.dice.chance(2, 3),
            shares,
            lease: scene.shape.leases.then_some((self.files[file].key, state)),
            persistent: scene.shape.is_lasting && scene.dice.chance(2, 3),
        };
        let what = HoldKind::Open { writes: wish.writes, shares };
        let number = scene.fresh() as usize;
        let hold = scene.record.asks(file, number, what, scene.now);
        self.push(RequestOwner::Worker(at), Op::Open(wish), Some(hold), scene);
    }

    fn begin_read(&mut self, at: usize, (file, cell): (usize, usize), scene: &mut ClientEnvironment<'_>) {
        let kept = self.files[file].get(cell);
        let Some((value, is_dirty)) = kept else {
            return self.push(RequestOwner::Worker(at), Op::Read { file, cell }, None, scene);
        };
        if !is_dirty {
            let since = self.files[file].true_since(scene.now);
            scene.record.read((file, cell), value, (since, scene.now));
            scene.tally.cached_reads += 1;
            scene.tally.stale_reads += u64::from(since < scene.now);
        }
        self.workers[at].left -= 1;
    }

    fn begin_write(&mut self, at: usize, (file, cell): (usize, usize), scene: &mut ClientEnvironment<'_>) {
        let cache = &mut self.files[file];
        let in_memory = cache.state.contains(WRITE) && !cache.owes;
        if !in_memory && cache.dirty.contains_key(&cell) || self.is_written((file, cell)) {
            return;
        }
        let value = scene.fresh();
        scene.record.writes((file, cell), value, scene.now);
        let cache = &mut self.files[file];
        if in_memory {
            scene.record.wrote((file, cell), value, scene.now);
            cache.write(cell, value);
            scene.tally.cached_writes += 1;
            self.workers[at].left -= 1;
        } else {
            cache.forget(cell);
            self.push(RequestOwner::Worker(at), Op::Write { file, cell, value }, None, scene);
        }
    }

    fn begin_range(&mut self, at: usize, scene: &mut ClientEnvironment<'_>) {
        let Some(handle) = &self.workers[at].handle else { return };
        let slot = scene.dice.below(SLOTS);
        if let Some(&hold) = handle.ranges.get(&slot) {
            scene.record.holds[hold].until.0 = scene.now;
            return self.push(RequestOwner::Worker(at), Op::Unlock { slot }, Some(hold), scene);
        }
        let exclusive = scene.dice.chance(2, 3);
        let what = HoldKind::Range { slot, exclusive };
        let hold = scene.record.asks(handle.wish.file, handle.number, what, scene.now);
        self.push(RequestOwner::Worker(at), Op::Lock { slot, exclusive }, Some(hold), scene);
    }

    fn begin_close(&mut self, at: usize, scene: &mut ClientEnvironment<'_>) {
        let Some(handle) = &self.workers[at].handle else { return };
        let file = handle.wish.file;
        let closes =
            |at| self.pending.iter().any(|p| p.owner == RequestOwner::Worker(at) && p.task.op == Op::Close);
        let others = self.handles_of(file).filter(|&(other, _)| other != at && !closes(other));
        let is_last_to_write = !others.into_iter().any(|(_, other)| other.wish.writes);
        let is_opened = self.is_crossed(file, |op| matches!(op, Op::Open(_)));
        let keeps = is_last_to_write && !self.files[file].dirty.is_empty();
        if is_opened || keeps || self.is_busy(RequestOwner::Back(at)) {
            return;
        }
        handle.holds().for_each(|hold| scene.record.holds[hold].until.0 = scene.now);
        self.push(RequestOwner::Worker(at), Op::Close, None, scene);
    }

    /// Writes data back, and acknowledges breaks when none is left. With `now_or_never` it must do so now.
    pub fn tend(&mut self, scene: &mut ClientEnvironment<'_>, now_or_never: bool) {
        if self.session.heard() == 0 {
            return;
        }
        let file = scene.dice.below(FILES);
        let cache = &self.files[file];
        if let Some((&cell, &value)) = cache.dirty.iter().find(|(cell, _)| !self.is_written((file, **cell))) {
            if cache.owes || now_or_never || scene.dice.chance(1, 4) {
                self.write_back((file, cell), value, scene);
            }
        } else if cache.dirty.is_empty() && cache.owes && self.may_acknowledge(file) {
            let (key, state) = (cache.key, cache.state);
            self.files[file].owes = false;
            self.push(RequestOwner::Acknowledgement(file), Op::Acknowledge { key, state }, None, scene);
        }
    }

    /// Whether a break may be acknowledged. An acknowledgment tells the server that the client knows all
    /// Opens under the lease, so they could not be replayed after it.
    // MS-SMB2 3.2.5.19.2, note 202
    // MS-SMB2 3.3.5.22.2
    fn may_acknowledge(&self, file: usize) -> bool {
        let is_opened = self.is_crossed(file, |op| matches!(op, Op::Open(_)));
        !self.is_busy(RequestOwner::Acknowledgement(file)) && !is_opened
    }

    /// Whether such an operation on a file is under way. An OPEN and a CLOSE of a file do not run at the
    /// same time: the client could not tell whether the lease ends between them, and it uses a new key for a
    /// new lease (MS-SMB2 3.2.4.3).
    fn is_crossed(&self, file: usize, fits: impl Fn(&Op) -> bool) -> bool {
        self.pending.iter().filter(|pending| fits(&pending.task.op)).any(|pending| match pending.owner {
            RequestOwner::Worker(at) => match (pending.task.op, &self.workers[at].handle) {
                (Op::Open(wish), _) => wish.file == file,
                (_, Some(handle)) => handle.wish.file == file,
                (_, None) => false,
            },
            _ => false,
        })
    }

    fn write_back(&mut self, (file, cell): (usize, usize), value: u64, scene: &mut ClientEnvironment<'_>) {
        let writers = self.handles_of(file).filter(|(_, handle)| handle.wish.writes);
        let writers: Vec<usize> = writers.map(|(at, _)| at).collect();
        let closes =
            |at| self.pending.iter().any(|p| p.owner == RequestOwner::Worker(at) && p.task.op == Op::Close);
        let fit = |at: &&usize| !closes(**at) && !self.is_busy(RequestOwner::Back(**at));
        if let Some(&at) = writers.iter().find(fit) {
            self.push(RequestOwner::Back(at), Op::WriteBack { file, cell, value }, None, scene);
        } else if writers.is_empty() {
            self.files[file].lose_writes(scene.record, scene.now);
        }
    }

    fn push(&mut self, owner: RequestOwner, op: Op, hold: Option<usize>, scene: &mut ClientEnvironment<'_>) {
        let (mut guid, mut lock_sequence) = ([self.number; 16], (0, 0));
        let (mut epoch, mut generation) = (0, 0);
        match op {
            Op::Open(wish) => {
                self.created += 1;
                guid[4..8].copy_from_slice(&self.created.to_le_bytes());
                epoch = self.files[wish.file].epoch;
            }
            Op::Lock { .. } | Op::Unlock { .. } => {
                if let RequestOwner::Worker(at) = owner {
                    let locks = &mut self.workers[at].locks;
                    lock_sequence = (1 + *locks % 64, (*locks / 64 % 16) as u8);
                    *locks += 1;
                }
            }
            Op::Read { file, .. } | Op::WriteBack { file, .. } => generation = self.files[file].generation,
            _ => {}
        }
        let task = Task { op, create_guid: Guid(guid), epoch, lock_sequence, is_replay: false };
        scene.disk.see();
        let failed = scene.disk.failed;
        self.pending.push(PendingRequest {
            owner,
            task,
            sent: None,
            start: scene.now,
            generation,
            hold,
            failed,
        });
        self.send(self.pending.len() - 1, scene);
    }

    /// Repeats a lost or refused request.
    pub fn send_again(&mut self, scene: &mut ClientEnvironment<'_>) {
        if self.pending.is_empty() {
            return;
        }
        let at = scene.dice.below(self.pending.len());
        if self.pending[at].sent.is_none() {
            scene.tally.replays += 1;
            if let Op::Write { file, cell, value } | Op::WriteBack { file, cell, value } =
                self.pending[at].task.op
            {
                scene.record.sends_again((file, cell), value);
            }
            self.send(at, scene);
        }
    }

    fn send(&mut self, at: usize, scene: &mut ClientEnvironment<'_>) {
        let Some(on) = self.session.pick(scene.dice, |line| line.is_heard) else { return };
        let pending = &mut self.pending[at];
        let through = match pending.owner {
            RequestOwner::Worker(at) | RequestOwner::Back(at) => self.workers[at].handle.as_ref(),
            RequestOwner::Acknowledgement(_) => None,
        };
        let layout = CellLayout {
            file: through.map(|handle| handle.id),
            channel_sequence: self.session.channel_sequence,
            slot_cells: scene.shape.slot_cells(),
        };
        let line = &mut self.session.lines[on];
        let (frame, id) = requests::build(&mut line.peer, &pending.task, layout);
        line.requests.push_back(frame);
        pending.sent = Some((line.number, id));
        let (owner, op) = (pending.owner, pending.task.op);
        let again = if pending.task.is_replay { " again" } else { "" };
        log::line(|| {
            format!("client {} {owner:?} sends {id} on line {}{again}: {op:?}", self.number, line.number)
        });
    }

    // Channels --------------------------------------------------------------------------------------

    /// Gives a line up. Its requests must be sent again.
    pub fn give_up(&mut self, on: usize, scene: &mut ClientEnvironment<'_>) {
        let number = self.session.lines[on].number;
        self.session.give_up(on);
        for pending in self.pending.iter_mut().filter(|p| p.sent.is_some_and(|(line, _)| line == number)) {
            pending.sent = None;
            pending.task.is_replay = true;
        }
        self.see_channels(scene);
    }

    /// Loses all lines with the server.
    pub fn lose_server(&mut self, scene: &mut ClientEnvironment<'_>) {
        self.session.lines.clear();
        self.see_channels(scene);
    }

    fn see_channels(&mut self, scene: &mut ClientEnvironment<'_>) {
        if self.session.heard() == 0 {
            self.down.get_or_insert((scene.now, scene.seconds));
        }
    }

    /// Logs on again after all channels are lost, and reconnects to the handles.
    pub fn come_back(&mut self, world: &SmbTestServer, scene: &mut ClientEnvironment<'_>) {
        let Some(down) = self.down.take() else { return };
        scene.tally.sessions_lost += 1;
        self.session.log_on(world);
        log::line(|| format!("client {} is back, down since step {} at {} s", self.number, down.0, down.1));
        for at in 0..self.workers.len() {
            let is_back = self.take_up(at, down, scene);
            let handle = if is_back { None } else { self.workers[at].handle.take() };
            if let Some(handle) = &handle {
                self.lose(at, handle, down.0, scene);
            }
        }
        let is_lasting = scene.shape.is_lasting;
        // MS-SMB2 3.3.5.9: only a CREATE for a persistent handle is known on another session. A client that
        // still waits for a break's acknowledgment requests it again.
        let abandoned = |p: &PendingRequest| match p.task.op {
            Op::Open(wish) => !(wish.persistent && is_lasting),
            Op::Acknowledge { .. } => true,
            _ => false,
        };
        for pending in self.pending.extract_if(.., |pending| abandoned(pending)) {
            if let RequestOwner::Worker(at) = pending.owner {
                self.workers[at].left = self.workers[at].left.saturating_sub(1);
            }
        }
        for pending in &mut self.pending {
            pending.sent = None;
            pending.task.is_replay = true;
        }
        for file in 0..FILES {
            if !self.has_open(file) {
                self.files[file].lose_writes(scene.record, scene.now);
            }
            self.see_open(file);
        }
    }

    /// Reconnects to a worker's handle, if possible.
    fn take_up(&mut self, at: usize, down: (Time, u64), scene: &mut ClientEnvironment<'_>) -> bool {
        let Some(handle) = self.workers[at].handle.as_mut().filter(|handle| handle.is_durable) else {
            return false;
        };
        let (wish, old) = (handle.wish, (handle.id, handle.create_guid));
        let epoch = self.files[wish.file].epoch;
        let failed = scene.disk.failed;
        let mut answer = self.reconnect(wish, epoch, old);
        // The client tries again if a failing disk refuses, or says nothing about the handle.
        for _ in 0..MOST_TIMES {
            let is_unknown = answer.status() == NtStatus::FILE_NOT_AVAILABLE;
            if !is_unknown && !disk::is_of_disk(answer.status()) {
                break;
            }
            scene.disk.see();
            if is_unknown {
                assert!(scene.disk.failed.any_since(failed), "the disk did not fail: {wish:?}");
            } else {
                scene.disk.refused(failed, answer.status(), &wish);
            }
            answer = self.reconnect(wish, epoch, old);
        }
        let handle = self.workers[at].handle.as_mut().expect("it is being taken up");
        log::line(|| {
            format!("client {} takes file {} up again: {:?}", self.number, wish.file, answer.status())
        });
        if answer.status() == NtStatus::OBJECT_NAME_NOT_FOUND {
            let closes =
                self.pending.iter().any(|p| p.owner == RequestOwner::Worker(at) && p.task.op == Op::Close);
            let is_over = scene.seconds - down.1 >= KEPT;
            assert!(!wish.persistent || closes || is_over, "a persistent handle is gone: {handle:?}");
            return false;
        }
        assert_eq!(answer.status(), NtStatus::SUCCESS, "taking {handle:?} up again");
        assert_eq!(answer.file_id().persistent, old.0.persistent);
        handle.id = answer.file_id();
        scene.tally.taken_up += 1;
        self.see_lease(wish.file, &answer);
        true
    }

    fn reconnect(&mut self, wish: OpenParameters, epoch: u16, old: (FileId, Guid)) -> ReceivedMessage {
        let line = self.session.lines.last_mut().expect("the line that has just logged on");
        line.peer.holds_jobs = false;
        let create = line.peer.start(SmbCommand::Create, |out| requests::reconnect(wish, epoch, old, out));
        let mut answer = line.peer.answer(create).expect("an answer at once");
        if answer.status() == NtStatus::PENDING {
            // The changes of the ended session take effect first.
            for line in &mut self.session.lines {
                (0..line.peer.held_jobs()).for_each(|_| line.peer.run_job(0));
            }
            let line = self.session.lines.last_mut().expect("the same line");
            answer = line.peer.answer(create).expect("the answer behind the last change");
        }
        self.session.lines.last_mut().expect("the same line").peer.holds_jobs = true;
        answer
    }

    /// Handles a handle that ended without a CLOSE, or whose CLOSE was not answered.
    fn lose(&mut self, at: usize, handle: &Handle, since: Time, scene: &mut ClientEnvironment<'_>) {
        scene.tally.handles_lost += 1;
        let through = |pending: &mut PendingRequest| match pending.owner {
            RequestOwner::Worker(worker) | RequestOwner::Back(worker) => worker == at,
            _ => false,
        };
        let pending: Vec<PendingRequest> = self.pending.extract_if(.., through).collect();
        for pending in &pending {
            if let Op::Write { file, cell, value } = pending.task.op {
                scene.record.gives_up((file, cell), value, scene.now);
            }
        }
        let asked = pending.iter().filter_map(|pending| pending.hold);
        for hold in handle.holds().chain(asked) {
            let hold = &mut scene.record.holds[hold];
            hold.until = (hold.until.0.min(since), hold.until.1.min(scene.now));
        }
        let worker = &mut self.workers[at];
        worker.left = worker.left.saturating_sub(1);
    }

    // Answers ---------------------------------------------------------------------------------------

    /// Handles a reply or a notice on a line that the client hears.
    pub fn take(&mut self, line: u64, answer: &ReceivedMessage, scene: &mut ClientEnvironment<'_>) {
        if answer.header.message_id() == u64::MAX {
            return self.take_notice(answer, scene);
        }
        let id = Some((line, answer.header.message_id()));
        let Some(at) = self.pending.iter().position(|pending| pending.sent == id) else { return };
        let (status, mut pending) = (answer.status(), self.pending.swap_remove(at));
        let (owner, op, of) = (pending.owner, pending.task.op, answer.header.message_id());
        log::line(|| {
            format!("client {} {owner:?} hears {status:?} to {of} on line {line}: {op:?}", self.number)
        });
        if status == NtStatus::FILE_NOT_AVAILABLE {
            // MS-SMB2 3.2.5.12: an earlier copy is still under way, or a request that was sent after a cut
            // was faster.
            (pending.sent, pending.task.is_replay) = (None, true);
            self.pending.push(pending);
            return;
        }
        scene.tally.operations += 1;
        if let RequestOwner::Worker(at) = pending.owner {
            self.workers[at].left = self.workers[at].left.saturating_sub(1);
        }
        if disk::is_of_disk(status) {
            scene.disk.refused(pending.failed, status, &pending);
            return self.refused_by_disk(&pending, scene);
        }
        self.finish(&pending, status, answer, scene);
    }

    fn take_notice(&mut self, answer: &ReceivedMessage, scene: &mut ClientEnvironment<'_>) {
        let notice = Notification::parse(&answer.message).expect("a notification");
        let Notification::Lease { new_epoch, flags, key, current_state, new_state } = notice else {
            panic!("nobody has an oplock: {notice:?}");
        };
        log::line(|| format!("client {} hears {notice:?}", self.number));
        assert!(current_state.contains(new_state), "it gives nothing: {notice:?}");
        scene.tally.breaks += 1;
        let file = self.files.iter_mut().find(|file| file.key == key).expect("one of the client's keys");
        file.broken(new_epoch, new_state, flags.contains(NotificationFlags::ACK_REQUIRED));
    }

    /// Handles a request that a failing disk has refused. A write may have been done, and no other request
    /// was.
    fn refused_by_disk(&mut self, pending: &PendingRequest, scene: &mut ClientEnvironment<'_>) {
        match pending.task.op {
            Op::Open(_) => {
                let hold = pending.hold.expect("an open is held against others");
                scene.record.holds[hold].until = (scene.now, scene.now);
            }
            Op::Write { file, cell, value } => {
                self.files[file].forget(cell);
                scene.record.gives_up((file, cell), value, scene.now);
            }
            // The value must still be written back.
            Op::WriteBack { file, cell, value } => scene.record.sends_again((file, cell), value),
            Op::Read { .. } => {}
            Op::Lock { .. } | Op::Unlock { .. } | Op::Close | Op::Acknowledge { .. } => {
                panic!("that needs no disk: {pending:?}")
            }
        }
    }

    fn finish(
        &mut self,
        pending: &PendingRequest,
        status: NtStatus,
        answer: &ReceivedMessage,
        scene: &mut ClientEnvironment<'_>,
    ) {
        let asked = (pending.start, scene.now);
        let is_done = status == NtStatus::SUCCESS;
        match (pending.task.op, pending.owner) {
            (Op::Open(wish), RequestOwner::Worker(at)) => self.opened(at, wish, (pending, answer), scene),
            (Op::Read { file, cell }, RequestOwner::Worker(at)) => {
                self.accessed(at, (file, cell), (false, status), asked, scene);
                if is_done {
                    let data = read::Response::parse(&answer.message).expect("a READ response").data;
                    let value = u64::from_le_bytes(data.try_into().expect("a whole cell"));
                    scene.record.read((file, cell), value, asked);
                    // The client gets no break for a value that it is about to replace.
                    if !self.is_written((file, cell)) {
                        self.files[file].keep(cell, value, pending.generation);
                    }
                }
            }
            (Op::Write { file, cell, value }, RequestOwner::Worker(at)) => {
                self.accessed(at, (file, cell), (true, status), asked, scene);
                self.files[file].forget(cell);
                match is_done {
                    true => scene.record.wrote((file, cell), value, scene.now),
                    false => scene.record.gives_up((file, cell), value, scene.now),
                }
            }
            (Op::WriteBack { file, cell, value }, _) => {
                assert!(is_done, "{pending:?}: {status:?}");
                scene.record.wrote((file, cell), value, scene.now);
                self.files[file].is_sent(cell, value, pending.generation);
            }
            (Op::Lock { .. } | Op::Unlock { .. }, RequestOwner::Worker(at)) => {
                self.finish_range(at, pending, status, scene);
            }
            (Op::Close, RequestOwner::Worker(at)) => {
                let was_closed = pending.task.is_replay && status == NtStatus::FILE_CLOSED;
                assert!(is_done || was_closed, "{pending:?}: {status:?}");
                self.closed(at, scene);
            }
            (Op::Acknowledge { .. }, RequestOwner::Acknowledgement(file)) if !is_done => {
                let late =
                    [NtStatus::UNSUCCESSFUL, NtStatus::OBJECT_NAME_NOT_FOUND, NtStatus::REQUEST_NOT_ACCEPTED];
                assert!(late.contains(&status), "{pending:?}: {status:?}");
                scene.tally.refused_acknowledgements += 1;
                // MS-SMB2 3.2.5.19.4
                self.files[file].lower(LeaseState::empty());
            }
            (Op::Acknowledge { .. }, _) => scene.tally.acknowledgements += 1,
            (op, owner) => unreachable!("{op:?} is not asked by {owner:?}"),
        }
    }

    /// Records a read or write of a cell, or its refusal because of a lock.
    fn accessed(
        &self,
        at: usize,
        cell: (usize, usize),
        (writes, status): (bool, NtStatus),
        asked: (Time, Time),
        scene: &mut ClientEnvironment<'_>,
    ) {
        let is_refused = status == NtStatus::FILE_LOCK_CONFLICT;
        assert!(is_refused || status == NtStatus::SUCCESS, "{cell:?}, to write: {writes}: {status:?}");
        let handle = self.workers[at].handle.as_ref().expect("what is used is open");
        scene.record.accessed(cell, handle.number, writes, asked, is_refused);
        scene.tally.refused_accesses += u64::from(is_refused);
    }

    fn opened(
        &mut self,
        at: usize,
        wish: OpenParameters,
        (pending, answer): (&PendingRequest, &ReceivedMessage),
        scene: &mut ClientEnvironment<'_>,
    ) {
        let hold = pending.hold.expect("an open is held against others");
        if answer.status() == NtStatus::SHARING_VIOLATION {
            scene.tally.refused_opens += 1;
            return scene.record.refused(hold, scene.now, pending.task.is_replay);
        }
        assert_eq!(answer.status(), NtStatus::SUCCESS, "{pending:?}");
        let response = create::Response::parse(&answer.message).expect("a CREATE response");
        let durable = response.contexts.responses().find_map(|it| match it {
            Ok(ResponseContext::DurableHandleV2 { flags, .. }) => Some(flags),
            _ => None,
        });
        let (is_durable, flags) = (durable.is_some(), durable.unwrap_or(DurableFlags::empty()));
        // A handle that cannot be recorded does not outlive the server.
        let outlives = flags.contains(DurableFlags::PERSISTENT);
        let may_fail = scene.disk.failed.any_since(pending.failed);
        assert!(outlives || !wish.persistent || may_fail, "{pending:?} outlives the server");
        let wish = OpenParameters { persistent: outlives, ..wish };
        scene.record.holds[hold].from.1 = scene.now;
        let number = scene.record.holds[hold].by;
        let (id, create_guid) = (response.file_id, pending.task.create_guid);
        let (ranges, strays) = (BTreeMap::new(), Vec::new());
        let handle = Handle { id, create_guid, wish, number, is_durable, hold, ranges, strays };
        self.workers[at].handle = Some(handle);
        self.workers[at].locks = 0;
        self.see_lease(wish.file, answer);
    }

    fn see_lease(&mut self, file: usize, answer: &ReceivedMessage) {
        let response = create::Response::parse(&answer.message).expect("a CREATE response");
        for context in response.contexts.responses() {
            if let Ok(ResponseContext::Lease(lease)) = context {
                assert_eq!(lease.key, self.files[file].key);
                self.files[file].granted(lease);
            }
        }
    }

    fn finish_range(
        &mut self,
        at: usize,
        pending: &PendingRequest,
        status: NtStatus,
        scene: &mut ClientEnvironment<'_>,
    ) {
        let hold = pending.hold.expect("a range is held against others");
        let handle = self.workers[at].handle.as_mut().expect("what is locked is open");
        match (pending.task.op, status) {
            (Op::Lock { slot, .. }, NtStatus::SUCCESS) => {
                scene.record.holds[hold].from.1 = scene.now;
                handle.ranges.insert(slot, hold);
            }
            (Op::Unlock { slot }, NtStatus::SUCCESS) => {
                scene.record.holds[hold].until.1 = scene.now;
                handle.ranges.remove(&slot);
            }
            (Op::Lock { .. }, NtStatus::LOCK_NOT_GRANTED) => {
                scene.tally.refused_ranges += 1;
                scene.record.refused(hold, scene.now, pending.task.is_replay);
                if pending.task.is_replay {
                    scene.record.holds[hold].until.1 = NEVER;
                    handle.strays.push(hold);
                }
            }
            _ => panic!("{pending:?}: {status:?}"),
        }
    }

    fn closed(&mut self, at: usize, scene: &mut ClientEnvironment<'_>) {
        let handle = self.workers[at].handle.take().expect("what is closed was open");
        handle.holds().for_each(|hold| scene.record.holds[hold].until.1 = scene.now);
        self.see_open(handle.wish.file);
    }

    /// A client that has closed all its handles of a file keeps no data of it, and owes no acknowledgment.
    // MS-SMB2 3.2.5.19.2
    fn see_open(&mut self, file: usize) {
        if !self.has_open(file) {
            self.files[file].lower(LeaseState::empty());
            self.files[file].owes = false;
        }
    }
}
