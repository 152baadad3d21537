//! One history: workers on one session. Lines are cut, and messages are delayed and replayed, as the dice
//! decide. The model runs beside them.
//!
//! There is no timing: each step picks one of the possible next events. So any message may be arbitrarily
//! late on its line, and later messages may arrive first on another one.

use std::time::Duration;

use smb_wire::create::{CreateAction, OplockLevel, ShareAccess};
use smb_wire::create_context::ResponseContext;
use smb_wire::{FileId, Guid, NtStatus, SmbCommand, create, read};
use testkit::smb::client::{Dial, OpenFile};
use testkit::smb::peer::ReceivedMessage;
use testkit::smb::{Peer, SmbTestServer};
use volume::Failure;
use volume::faulty::VolumeCall;

use super::disk::{self, Disk, DiskFault, Failed};
use super::log;
use super::model::{Model, NAMES, Op};
use super::requests::{self, RequestTarget, Task};
use super::session::Session;
use testkit::dice::Dice;

/// A history with more steps than this does not end.
const MOST_STEPS: usize = 20_000;

/// The disk does not fail a reconnect more often than this.
const MOST_TIMES: usize = 20;

/// The parameters of a history.
#[derive(Debug, Clone, Copy)]
pub struct HistoryShape {
    pub channels: usize,
    pub workers: usize,
    pub operations: usize,
    /// The weight of line cuts among all events.
    pub cuts: usize,
    /// After this many cuts the network does not fail any more.
    pub most_cuts: u64,
    /// The server has no data in memory, so READs leave the connection's thread.
    pub is_cold: bool,
}

impl HistoryShape {
    fn roll(dice: &mut Dice) -> HistoryShape {
        HistoryShape {
            channels: 1 + dice.below(8),
            workers: 1 + dice.below(6),
            operations: 10 + dice.below(30),
            cuts: [2, 10, 30, 60][dice.below(4)],
            most_cuts: dice.below(30) as u64,
            is_cold: dice.chance(1, 2),
        }
    }
}

/// The events of a history. They show that the intended events happen.
#[derive(Debug, Clone, Copy, Default)]
pub struct HistoryTally {
    pub operations: u64,
    pub cuts: u64,
    pub sessions_lost: u64,
    pub replays: u64,
    pub late: u64,
    pub refused_late: u64,
    pub disk: disk::Tally,
}

impl std::ops::AddAssign for HistoryTally {
    fn add_assign(&mut self, other: HistoryTally) {
        self.operations += other.operations;
        self.cuts += other.cuts;
        self.sessions_lost += other.sessions_lost;
        self.replays += other.replays;
        self.late += other.late;
        self.refused_late += other.refused_late;
        self.disk += other.disk;
    }
}

/// A request without a reply yet.
struct Pending {
    task: Task,
    /// The line of its last copy and the message id there. `None` while it waits to be sent again.
    sent: Option<(u64, u64)>,
    /// It was sent on a session that is lost.
    is_orphan: bool,
    /// The number of disk failures when it began.
    failed: Failed,
}

#[derive(Default)]
struct HistoryWorker {
    model: Model,
    file: Option<(FileId, Guid)>,
    pending: Option<Pending>,
    left: usize,
    created: u32,
    locks: u32,
}

pub struct History {
    dice: Dice,
    world: SmbTestServer,
    shape: HistoryShape,
    session: Session,
    workers: Vec<HistoryWorker>,
    tally: HistoryTally,
    disk: Disk,
}

impl History {
    /// Runs the history of a seed to its end.
    ///
    /// # Panics
    /// If the server and the model differ.
    pub fn run(seed: u64, trouble: DiskFault) -> HistoryTally {
        let mut dice = Dice::new(seed);
        let shape = HistoryShape::roll(&mut dice);
        let (world, plan) = SmbTestServer::faulty();
        if shape.is_cold {
            plan.always(VolumeCall::ReadCached, Some(Failure::WouldBlock));
        }
        log::is_at(world.clock.time().mono_ns);
        log::line(|| format!("one session, seed {seed}, {trouble:?}: {shape:?}"));
        world.configure_server(|config| config.max_channels = 32);
        let mut guid = *b"a simulated mach";
        guid[..8].copy_from_slice(&seed.to_le_bytes());
        let session = Session::new(&world, Guid(guid));
        let workers = (0..shape.workers)
            .map(|_| HistoryWorker { left: shape.operations, ..HistoryWorker::default() })
            .collect();
        let disk = Disk::new(seed, trouble, plan);
        let mut history =
            History { dice, world, shape, session, workers, tally: HistoryTally::default(), disk };
        history.play();
        history.disk.mend();
        history.check_files();
        history.check_nothing_left();
        history.tally.disk = history.disk.tally;
        history.tally
    }

    fn play(&mut self) {
        for _ in 0..MOST_STEPS {
            if self.workers.iter().all(|worker| worker.left == 0 && worker.pending.is_none()) {
                return;
            }
            self.step();
        }
        let waiting: Vec<_> =
            self.workers.iter().filter_map(|w| w.pending.as_ref()).map(|p| &p.task).collect();
        panic!("the history does not end; these wait: {waiting:?}");
    }

    fn step(&mut self) {
        let took = self.disk.look();
        self.world.clock.advance(took);
        log::is_at(self.world.clock.time().mono_ns);
        self.disk.step();
        if self.session.heard() == 0 {
            return self.start_over();
        }
        let cuts = if self.tally.cuts < self.shape.most_cuts { self.shape.cuts } else { 0 };
        match self.dice.weighted(&[200, 200, 350, 250, 150, cuts, 4, 20, 30]) {
            0 => self.begin(),
            1 => self.send_again(),
            2 => self.arrive(),
            3 => self.answer(),
            4 => self.work(),
            5 => self.cut(),
            6 => self.notice_cut(),
            7 if self.session.heard() < self.shape.channels => self.session.bind(&self.world),
            8 => self.world.advance(Duration::from_millis(1 + self.dice.below(50) as u64)),
            _ => {}
        }
    }

    // Workers ---------------------------------------------------------------------------------------

    /// Begins the next operation of a worker.
    fn begin(&mut self) {
        let at = self.dice.below(self.workers.len());
        let worker = &mut self.workers[at];
        if worker.pending.is_some() || worker.left == 0 {
            return;
        }
        let is_last = worker.left == 1;
        let op = match &worker.model.held {
            Some(held) if is_last && held.doubtful.is_none() => Op::Close,
            None if is_last => {
                worker.left = 0;
                return;
            }
            _ => worker.model.propose(&mut self.dice),
        };
        let task = worker.task(at, op);
        let failed = self.disk.failed;
        worker.pending = Some(Pending { task, sent: None, is_orphan: false, failed });
        self.send(at);
    }

    /// Repeats a lost or refused request.
    fn send_again(&mut self) {
        let at = self.dice.below(self.workers.len());
        if self.workers[at].pending.as_ref().is_some_and(|pending| pending.sent.is_none()) {
            self.tally.replays += 1;
            self.send(at);
        }
    }

    fn send(&mut self, at: usize) {
        let Some(on) = self.session.pick(&mut self.dice, |line| line.is_heard) else { return };
        let line = &mut self.session.lines[on];
        let worker = &mut self.workers[at];
        let Some(pending) = &mut worker.pending else { return };
        let target = RequestTarget {
            worker: at,
            file: worker.file.map(|(id, _)| id),
            channel_sequence: self.session.channel_sequence,
        };
        let (frame, id) = requests::build(&mut line.peer, &pending.task, target);
        line.requests.push_back(frame);
        pending.sent = Some((line.number, id));
        let Task { op, is_replay, .. } = &pending.task;
        let again = if *is_replay { " again" } else { "" };
        log::line(|| format!("worker {at} sends {id} on line {}{again}: {}", line.number, op.describe()));
    }

    // The network -----------------------------------------------------------------------------------

    fn arrive(&mut self) {
        let Some(on) = self.session.pick(&mut self.dice, |line| !line.requests.is_empty()) else { return };
        let line = &mut self.session.lines[on];
        // A late message comes late enough for its replacement to arrive first.
        if !line.is_heard && !self.dice.chance(1, 10) {
            return;
        }
        self.tally.late += u64::from(!line.is_heard);
        if let Some(frame) = line.requests.pop_front() {
            log::line(|| format!("the server: a request comes on line {}", line.number));
            line.peer.deliver(frame);
        }
        assert!(!line.peer.is_closed, "the server hangs up on a client that keeps to the protocol");
    }

    fn answer(&mut self) {
        let Some(on) = self.session.pick(&mut self.dice, |_| true) else { return };
        let line = &mut self.session.lines[on];
        let (number, is_heard) = (line.number, line.is_heard);
        let Some(answer) = line.peer.next() else { return };
        let of = if is_heard { "" } else { ", which nobody hears" };
        let (id, status) = (answer.header.message_id(), answer.status());
        log::line(|| format!("the client hears {status:?} to {id} on line {number}{of}"));
        if !is_heard {
            self.tally.refused_late += u64::from(answer.status() == NtStatus::FILE_NOT_AVAILABLE);
        } else if answer.status() != NtStatus::PENDING {
            self.take(number, &answer);
        }
    }

    /// The server continues a job on the blocking pool.
    fn work(&mut self) {
        let Some(on) = self.session.pick(&mut self.dice, |line| line.peer.held_jobs() > 0) else { return };
        let jobs = self.session.lines[on].peer.held_jobs();
        let job = self.dice.below(jobs);
        log::line(|| format!("the server goes on with a request of line {}", self.session.lines[on].number));
        self.session.lines[on].peer.run_job(job);
    }

    fn cut(&mut self) {
        let Some(on) = self.session.pick(&mut self.dice, |line| line.is_heard) else { return };
        self.tally.cuts += 1;
        let number = self.session.lines[on].number;
        log::line(|| format!("line {number} is cut"));
        self.session.give_up(on);
        // Some messages on their way may never arrive.
        let kept = self.dice.below(self.session.lines[on].requests.len() + 1);
        self.session.lines[on].requests.truncate(kept);
        if self.dice.chance(1, 4) {
            self.session.end(on);
        }
        for pending in self.workers.iter_mut().filter_map(|worker| worker.pending.as_mut()) {
            if pending.sent.is_some_and(|(line, _)| line == number) {
                pending.sent = None;
                pending.task.is_replay = true;
            }
        }
    }

    fn notice_cut(&mut self) {
        if let Some(on) = self.session.pick(&mut self.dice, |line| !line.is_heard) {
            self.session.end(on);
        }
    }

    /// All channels are lost. A new session reconnects to the Opens.
    fn start_over(&mut self) {
        self.tally.sessions_lost += 1;
        log::line(|| "the session is lost; the client logs on again".to_owned());
        self.session.log_on(&self.world);
        let line = self.session.lines.last_mut().expect("the line that has just logged on");
        line.peer.holds_jobs = false;
        for (at, worker) in self.workers.iter_mut().enumerate() {
            worker.take_up(at, &mut line.peer, &mut self.disk);
        }
        line.peer.holds_jobs = true;
    }

    // Answers ---------------------------------------------------------------------------------------

    fn take(&mut self, line: u64, answer: &ReceivedMessage) {
        let id = Some((line, answer.header.message_id()));
        let of =
            |worker: &&mut HistoryWorker| worker.pending.as_ref().is_some_and(|pending| pending.sent == id);
        let Some(worker) = self.workers.iter_mut().find(of) else { return };
        let Some(mut pending) = worker.pending.take() else { return };
        if pending.task.is_replay && answer.status() == NtStatus::FILE_NOT_AVAILABLE {
            // MS-SMB2 3.2.5.12: the first copy is still under way.
            pending.sent = None;
            worker.pending = Some(pending);
            return;
        }
        // The faults of the calls that led to this reply.
        self.disk.see();
        worker.finish(&pending, answer, &mut self.disk);
        worker.left = worker.left.saturating_sub(1).max(usize::from(worker.model.held.is_some()));
        self.tally.operations += 1;
    }

    /// Compares the remaining files with the model.
    fn check_files(&mut self) {
        let mut peer = self.world.dial(&Dial::elsewhere());
        for (at, worker) in self.workers.iter().enumerate() {
            for name in 0..NAMES {
                let path = requests::path(at, name);
                let open = OpenFile { disposition: create::Disposition::Open, ..OpenFile::named(&path) };
                let answer = peer.create(&open);
                let content = worker.model.files.get(&name);
                if answer.status() == NtStatus::OBJECT_NAME_NOT_FOUND {
                    assert!(content.is_none_or(|content| content.may_be_absent), "{path} is not there");
                    continue;
                }
                let content = content.unwrap_or_else(|| panic!("{path} should not be there"));
                let id = answer.file_id();
                let response = create::Response::parse(&answer.message).expect("a CREATE response");
                let data = match response.info.end_of_file {
                    0 => Vec::new(),
                    _ => peer.read(id, 0, 4096).data().to_vec(),
                };
                assert_eq!(response.info.end_of_file, data.len() as u64, "the size of {path}");
                assert!(content.ways.contains(&data), "what is in {path}: {data:?}, and not {content:?}");
                peer.close(id);
            }
        }
    }

    /// Checks that everything works, for another client too, and that no state of the session is left.
    fn check_nothing_left(&mut self) {
        let mut peer = self.world.dial(&Dial::elsewhere());
        self.world.advance(Duration::from_secs(61));
        assert_eq!(self.world.engine.open_count(), 0, "all is closed");
        assert!(self.world.engine.held_ranges().is_empty(), "and no range is held");
        for at in 0..self.workers.len() {
            for name in 0..NAMES {
                let path = requests::path(at, name);
                let alone = OpenFile { share: ShareAccess::empty(), ..OpenFile::named(&path) };
                let id = peer.create(&alone).file_id();
                assert_eq!(peer.write(id, 0, b"all is well"), NtStatus::SUCCESS, "{path}");
                assert_eq!(peer.read(id, 0, 11).data(), b"all is well", "{path}");
                assert_eq!(peer.close(id), NtStatus::SUCCESS, "{path}");
            }
        }
    }
}

impl HistoryWorker {
    fn task(&mut self, number: usize, op: Op) -> Task {
        let mut guid = [0; 16];
        if matches!(op, Op::Make { .. } | Op::Open { .. }) {
            self.created += 1;
            guid[0] = 1 + number as u8;
            guid[4..8].copy_from_slice(&self.created.to_le_bytes());
        }
        let mut lock_sequence = (0, 0);
        if matches!(op, Op::Lock { .. } | Op::Unlock { .. }) {
            lock_sequence = (1 + self.locks % 64, (self.locks / 64 % 16) as u8);
            self.locks += 1;
        }
        Task { op, create_guid: Guid(guid), lock_sequence, is_replay: false }
    }

    /// Handles a reply. It must match the model.
    fn finish(&mut self, pending: &Pending, answer: &ReceivedMessage, disk: &mut Disk) {
        let (task, status) = (&pending.task, answer.status());
        let disk_failed = disk.failed.any_since(pending.failed);
        if disk::is_of_disk(status) {
            disk.refused(pending.failed, status, task);
            return self.failed(task);
        }
        match &task.op {
            Op::Make { name } if status == NtStatus::OBJECT_NAME_COLLISION => {
                // The lost session made the file, and nobody can reconnect to that Open. Or a failed CREATE
                // made it.
                let may_be_there = self.model.files.contains_key(name);
                let was_made = pending.is_orphan || (task.is_replay && disk_failed);
                assert!(may_be_there || was_made, "nobody made it: {task:?}");
                return self.model.found(*name, was_made);
            }
            Op::Close if task.is_replay && status == NtStatus::FILE_CLOSED => {}
            Op::Read { offset, length } => return self.read((*offset, *length), task, answer),
            _ => assert_eq!(status, NtStatus::SUCCESS, "{task:?}"),
        }
        match &task.op {
            Op::Close => self.model.let_go(disk_failed),
            op => self.model.apply(op),
        }
        match &task.op {
            Op::Make { .. } => self.opened(task, answer, CreateAction::Created),
            Op::Open { .. } => self.opened(task, answer, CreateAction::Opened),
            Op::Close => self.file = None,
            _ => {}
        }
    }

    /// A failing disk has refused the operation. A CLOSE can fail only because of its delete on close.
    fn failed(&mut self, task: &Task) {
        let op = &task.op;
        let is_doomed = self.model.held.as_ref().is_some_and(|held| held.doomed);
        let can_fail = match op {
            Op::Close => is_doomed,
            Op::Lock { .. } | Op::Unlock { .. } => false,
            _ => true,
        };
        assert!(can_fail, "{op:?} needs no disk");
        self.model.failed(op, task.is_replay);
        if *op == Op::Close {
            self.file = None;
        }
    }

    fn read(&mut self, (offset, length): (usize, usize), task: &Task, answer: &ReceivedMessage) {
        let mut data: &[u8] = &[];
        if answer.status() != NtStatus::END_OF_FILE {
            assert_eq!(answer.status(), NtStatus::SUCCESS, "{task:?}");
            data = read::Response::parse(&answer.message).expect("a READ response").data;
            assert!(!data.is_empty(), "{task:?}");
        }
        let before = self.model.content().clone();
        assert!(self.model.saw(offset, length, data), "{task:?}: {data:?} is not of {before:?}");
    }

    fn opened(&mut self, task: &Task, answer: &ReceivedMessage, action: CreateAction) {
        let response = create::Response::parse(&answer.message).expect("a CREATE response");
        assert_eq!(response.create_action, action, "{task:?}");
        assert_eq!(response.oplock_level, OplockLevel::Batch, "{task:?}");
        let mut contexts = response.contexts.responses();
        let is_durable = contexts.any(|it| matches!(it, Ok(ResponseContext::DurableHandleV2 { .. })));
        assert!(is_durable, "{task:?} can be replayed");
        let size = response.info.end_of_file;
        assert!(self.model.content().narrow(|way| way.len() as u64 == size), "{task:?}: {size} bytes");
        self.file = Some((response.file_id, task.create_guid));
    }

    /// Reconnects to the Open on a new session.
    fn take_up(&mut self, number: usize, peer: &mut Peer, disk: &mut Disk) {
        let failed = self.pending.as_ref().map_or(disk.failed, |pending| pending.failed);
        if let Some(pending) = &mut self.pending {
            pending.sent = None;
            match &pending.task.op {
                // MS-SMB2 3.3.5.9: a CREATE is replayed only on its own session.
                Op::Make { .. } | Op::Open { .. } => {
                    let op = pending.task.op.clone();
                    let task = self.task(number, op);
                    self.pending = Some(Pending { task, sent: None, is_orphan: true, failed });
                }
                _ => pending.task.is_replay = true,
            }
        }
        let (Some((old, guid)), Some(held)) = (self.file, &self.model.held) else { return };
        let mut answer = reconnect(peer, number, held.name, (old, guid));
        // The client tries again if a failing disk refuses.
        for _ in 0..MOST_TIMES {
            if !disk::is_of_disk(answer.status()) {
                break;
            }
            disk.see();
            disk.refused(failed, answer.status(), held);
            answer = reconnect(peer, number, held.name, (old, guid));
        }
        log::line(|| format!("worker {number} takes file {} up again: {:?}", held.name, answer.status()));
        let closes = self.pending.as_ref().is_some_and(|pending| pending.task.op == Op::Close);
        if closes && answer.status() == NtStatus::OBJECT_NAME_NOT_FOUND {
            disk.see();
            self.pending = None;
            self.file = None;
            return self.model.let_go(disk.failed.any_since(failed));
        }
        assert_eq!(answer.status(), NtStatus::SUCCESS, "taking {held:?} up again");
        assert_eq!(answer.file_id().persistent, old.persistent);
        self.file = Some((answer.file_id(), guid));
    }
}

fn reconnect(peer: &mut Peer, number: usize, name: usize, (old, guid): (FileId, Guid)) -> ReceivedMessage {
    peer.call(SmbCommand::Create, |out| out.extend_from_slice(&requests::reconnect(number, name, old, guid)))
}
