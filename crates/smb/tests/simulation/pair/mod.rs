//! One history of two clients with the same files: workers on a session of each, lines that are cut, time
//! that passes, a server that is killed, and the record that checks all of it.
//!
//! [`client`] has the client's actions, [`cache`] its data in memory and its view of its leases, and
//! [`record`] the observations of both and the check that they are possible. As in [`crate::history`] there
//! is no timing, so any message may be arbitrarily late. The [`PairShape`] of a seed's history says which
//! events it has.

mod cache;
mod client;
mod record;
mod requests;
mod watch;

use std::time::Duration;

use share::ClientKey;
use smb_wire::create_context::LeaseState;
use smb_wire::{NtStatus, create};
use testkit::smb::client::OpenFile;
use testkit::smb::{Dial, SmbTestServer, Store};
use volume::Failure;
use volume::faulty::VolumeCall;

use crate::disk::{self, Disk, DiskFault};
use crate::log;
use testkit::dice::Dice;

use client::{Client, ClientEnvironment};
use record::Observations;
use watch::{LeaseView, LeaseWatch, ReachablePaths};

/// The files of both clients, their cells, and the byte ranges for locks.
const FILES: usize = 2;
const CELLS: usize = 6;
const SLOTS: usize = 3;

/// A history with more steps than this does not end.
const MOST_STEPS: usize = 60_000;

/// The lengths of pauses in seconds: the time for a host to acknowledge a notice, the time after which a
/// silent host is given up, and the times of a break and of a handle without its client.
const PAUSES: [u64; 5] = [1, 3, 11, 36, 61];

/// The events of a history, and their number.
#[derive(Debug, Clone, Copy)]
pub struct PairShape {
    channels: [usize; 2],
    workers: usize,
    operations: usize,
    cuts: usize,
    most_cuts: u64,
    /// Files are opened with leases.
    leases: bool,
    /// The share is continuously available, and clients request persistent handles.
    is_lasting: bool,
    /// The most kills of the server.
    kills: u64,
    /// The weights of a client's loss of all channels, and of a pause.
    losses: usize,
    pauses: usize,
    is_cold: bool,
    /// The history has only closes left.
    closes: bool,
}

impl PairShape {
    fn roll(dice: &mut Dice, trouble: DiskFault) -> PairShape {
        let is_lasting = dice.chance(1, 3);
        let shape = PairShape {
            channels: [1 + dice.below(8), 1 + dice.below(8)],
            workers: 1 + dice.below(3),
            operations: 10 + dice.below(40),
            cuts: [0, 2, 10, 30][dice.below(4)],
            most_cuts: dice.below(20) as u64,
            leases: dice.chance(3, 4),
            is_lasting,
            kills: if is_lasting { dice.below(4) as u64 } else { 0 },
            losses: [0, 1, 4][dice.below(3)],
            pauses: [4, 10][dice.below(2)],
            is_cold: !is_lasting && dice.chance(1, 3),
            closes: false,
        };
        match trouble {
            DiskFault::DiskAndKills => {
                PairShape { is_lasting: true, is_cold: false, kills: 1 + dice.below(3) as u64, ..shape }
            }
            DiskFault::Nothing | DiskFault::Disk => shape,
        }
    }

    /// The cells of a byte range: none if clients keep data in memory.
    fn slot_cells(&self) -> usize {
        if self.leases { 0 } else { CELLS / SLOTS }
    }
}

/// The events of a history. They show that the intended events happen.
#[derive(Debug, Clone, Copy, Default)]
pub struct PairTally {
    pub operations: u64,
    pub cuts: u64,
    pub sessions_lost: u64,
    pub replays: u64,
    pub late: u64,
    pub kills: u64,
    /// Files whose opens were restored before a request needed them.
    pub restored_behind: u64,
    pub taken_up: u64,
    pub handles_lost: u64,
    pub breaks: u64,
    pub acknowledgements: u64,
    pub refused_acknowledgements: u64,
    pub cached_reads: u64,
    /// Those reads whose value the server had let others replace by then.
    pub stale_reads: u64,
    pub cached_writes: u64,
    pub refused_opens: u64,
    pub refused_ranges: u64,
    pub refused_accesses: u64,
    pub disk: disk::Tally,
}

impl PairTally {
    fn parts(&mut self) -> [&mut u64; 18] {
        [
            &mut self.operations,
            &mut self.cuts,
            &mut self.sessions_lost,
            &mut self.replays,
            &mut self.late,
            &mut self.kills,
            &mut self.restored_behind,
            &mut self.taken_up,
            &mut self.handles_lost,
            &mut self.breaks,
            &mut self.acknowledgements,
            &mut self.refused_acknowledgements,
            &mut self.cached_reads,
            &mut self.stale_reads,
            &mut self.cached_writes,
            &mut self.refused_opens,
            &mut self.refused_ranges,
            &mut self.refused_accesses,
        ]
    }

    /// Whether each of these events has happened.
    pub fn shows_all(mut self) -> bool {
        self.parts().into_iter().all(|part| *part > 0)
    }
}

impl std::ops::AddAssign for PairTally {
    fn add_assign(&mut self, mut other: PairTally) {
        self.parts().into_iter().zip(other.parts()).for_each(|(part, more)| *part += *more);
        self.disk += other.disk;
    }
}

pub struct PairHistory {
    dice: Dice,
    world: SmbTestServer,
    store: Store,
    shape: PairShape,
    clients: [Client; 2],
    record: Observations,
    tally: PairTally,
    now: u64,
    seconds: u64,
    next: u64,
    watch: LeaseWatch,
    disk: Disk,
    /// The time before the server's last start, including earlier starts.
    before_ns: u64,
}

impl PairHistory {
    /// Runs the history of a seed to its end.
    ///
    /// # Panics
    /// If the observations of the clients are impossible.
    pub fn run(seed: u64, trouble: DiskFault) -> PairTally {
        let mut dice = Dice::new(seed);
        let shape = PairShape::roll(&mut dice, trouble);
        let mut store = Store::new();
        let (world, plan) = if shape.is_lasting { store.serve_faulty() } else { SmbTestServer::faulty() };
        if shape.is_cold {
            plan.always(VolumeCall::ReadCached, Some(Failure::WouldBlock));
        }
        log::is_at(world.clock.time().mono_ns);
        log::line(|| format!("two clients, seed {seed}, {trouble:?}: {shape:?}"));
        allow_channels(&world);
        let mut record = Observations::default();
        make_files(&world, &mut record);
        let clients = [1, 2].map(|number| Client::new(&world, number, seed, &shape));
        let mut history = PairHistory {
            dice,
            world,
            store,
            shape,
            clients,
            record,
            tally: PairTally::default(),
            now: 1,
            seconds: 0,
            next: 0,
            watch: LeaseWatch::default(),
            disk: Disk::new(seed, trouble, plan),
            before_ns: 0,
        };
        history.play();
        history.disk.mend();
        history.settle();
        history.check_beliefs();
        history.shape.closes = true;
        history.clients.iter_mut().for_each(Client::wind_up);
        history.play();
        history.settle();
        history.check_end();
        history.record.check(history.shape.slot_cells());
        history.tally.disk = history.disk.tally;
        history.tally
    }

    /// A client with its surroundings.
    fn scene(&mut self, of: usize) -> (&mut Client, &SmbTestServer, ClientEnvironment<'_>) {
        let scene = ClientEnvironment {
            dice: &mut self.dice,
            record: &mut self.record,
            tally: &mut self.tally,
            shape: &self.shape,
            now: self.now,
            seconds: self.seconds,
            next: &mut self.next,
            disk: &mut self.disk,
        };
        (&mut self.clients[of], &self.world, scene)
    }

    fn play(&mut self) {
        for _ in 0..MOST_STEPS {
            if self.clients.iter().all(Client::is_done) {
                return;
            }
            self.step();
            self.look();
        }
        panic!("the history does not end");
    }

    fn step(&mut self) {
        self.now += 1;
        self.see_disk();
        self.disk.step();
        let of = self.dice.below(2);
        let PairShape { cuts, losses, pauses, .. } = self.shape;
        let cuts = if self.tally.cuts < self.shape.most_cuts { cuts } else { 0 };
        let (losses, kills) = match self.shape.closes {
            true => (0, 0),
            false => (losses, usize::from(self.tally.kills < self.shape.kills)),
        };
        let restores = if self.world.engine.is_restoring() { 40 } else { 0 };
        let weights = [200, 200, 350, 250, 150, cuts, 4, 20, 30, 200, 20, pauses, losses, kills, restores];
        match self.dice.weighted(&weights) {
            0 => self.act(of, |client, _, scene| client.begin(scene)),
            1 => self.act(of, |client, _, scene| client.send_again(scene)),
            2 => self.arrive(of),
            3 => self.answer(of),
            4 => self.work(of),
            5 => self.cut(of),
            6 => self.notice_cut(of),
            7 => self.bind(of),
            8 => self.world.advance(Duration::from_millis(1 + self.dice.below(50) as u64)),
            9 => self.act(of, |client, _, scene| client.tend(scene, false)),
            10 => self.act(of, |client, world, scene| client.come_back(world, scene)),
            11 => {
                let pause = PAUSES[self.dice.weighted(&[6, 6, 3, 4, 1])];
                self.pause(pause);
            }
            12 => self.cut_all(of),
            13 => self.kill(),
            _ => self.restore(),
        }
    }

    /// Passes the time that the disk has taken. Whole seconds pass for all.
    fn see_disk(&mut self) {
        let took = self.disk.look();
        self.world.clock.advance(Duration::from_nanos(u64::from(took.subsec_nanos())));
        log::is_at(self.before_ns + self.world.clock.time().mono_ns);
        if took.as_secs() > 0 {
            self.pause(took.as_secs());
        }
    }

    fn act(&mut self, of: usize, what: impl FnOnce(&mut Client, &SmbTestServer, &mut ClientEnvironment<'_>)) {
        let (client, world, mut scene) = self.scene(of);
        what(client, world, &mut scene);
    }

    // The network -----------------------------------------------------------------------------------

    fn bind(&mut self, of: usize) {
        let session = &mut self.clients[of].session;
        if (1..self.shape.channels[of]).contains(&session.heard()) {
            session.bind(&self.world);
        }
    }

    fn arrive(&mut self, of: usize) {
        let session = &mut self.clients[of].session;
        let Some(on) = session.pick(&mut self.dice, |line| !line.requests.is_empty()) else { return };
        // A late message comes late enough for its replacement to arrive first.
        if !session.lines[on].is_heard && !self.dice.chance(1, 10) {
            return;
        }
        self.tally.late += u64::from(!session.lines[on].is_heard);
        self.deliver(of, on);
    }

    fn deliver(&mut self, of: usize, on: usize) {
        let line = &mut self.clients[of].session.lines[on];
        if line.peer.is_closed {
            assert!(!line.is_heard, "the server hangs up on a client that keeps to the protocol");
            return self.clients[of].session.end(on);
        }
        let Some(frame) = line.requests.pop_front() else { return };
        let answered =
            self.clients[of].files.iter().position(|file| requests::acknowledges(&frame, file.key));
        let before = answered.and_then(|file| self.view(of, file));
        self.clients[of].session.lines[on].peer.deliver(frame);
        answered.into_iter().for_each(|file| self.watch.answered((of, file)));
        // MS-SMB2 3.3.5.22.2: an acknowledgment without a break changes nothing.
        if let (Some(file), Some(before)) = (answered, before.filter(|view| !view.is_breaking)) {
            let view = self.view(of, file);
            let keeps = view.is_some_and(|view| view.state.contains(before.state));
            assert!(keeps, "nobody waited for the acknowledgement: {before:?}, {view:?}");
        }
    }

    fn answer(&mut self, of: usize) {
        let Some(on) = self.clients[of].session.pick(&mut self.dice, |_| true) else { return };
        self.hear(of, on);
    }

    /// The client takes the next message of a line. Returns false if there is none.
    fn hear(&mut self, of: usize, on: usize) -> bool {
        let (client, _, mut scene) = self.scene(of);
        let line = &mut client.session.lines[on];
        let (number, is_heard) = (line.number, line.is_heard);
        let Some(answer) = line.peer.next() else { return false };
        // The faults of the calls that led to this reply count. Their time passes later.
        scene.disk.see();
        if is_heard && answer.status() != NtStatus::PENDING {
            client.take(number, &answer, &mut scene);
        }
        true
    }

    /// The server continues a job on the blocking pool.
    fn work(&mut self, of: usize) {
        let session = &mut self.clients[of].session;
        let Some(on) = session.pick(&mut self.dice, |line| line.peer.held_jobs() > 0) else { return };
        let job = self.dice.below(session.lines[on].peer.held_jobs());
        session.lines[on].peer.run_job(job);
    }

    fn cut(&mut self, of: usize) {
        let session = &self.clients[of].session;
        let Some(on) = session.pick(&mut self.dice, |line| line.is_heard) else { return };
        self.tally.cuts += 1;
        self.cut_line(of, on);
    }

    fn cut_line(&mut self, of: usize, on: usize) {
        let (client, _, mut scene) = self.scene(of);
        log::line(|| format!("line {} of client {} is cut", client.session.lines[on].number, of + 1));
        client.give_up(on, &mut scene);
        // Some messages on their way may never arrive.
        let kept = scene.dice.below(client.session.lines[on].requests.len() + 1);
        client.session.lines[on].requests.truncate(kept);
        if scene.dice.chance(1, 4) {
            client.session.end(on);
        }
    }

    fn cut_all(&mut self, of: usize) {
        while let Some(on) = self.clients[of].session.lines.iter().position(|line| line.is_heard) {
            self.cut_line(of, on);
        }
    }

    fn notice_cut(&mut self, of: usize) {
        let session = &mut self.clients[of].session;
        if let Some(on) = session.pick(&mut self.dice, |line| !line.is_heard) {
            session.end(on);
        }
    }

    /// The server is killed without warning and started again.
    fn kill(&mut self) {
        log::line(|| "the server is killed, and started again".to_owned());
        self.tally.kills += 1;
        self.see_disk();
        self.before_ns += self.world.clock.time().mono_ns;
        let (world, plan) = self.store.serve_faulty();
        self.disk.serve(plan);
        allow_channels(&world);
        for of in 0..2 {
            self.act(of, |client, _, scene| client.lose_server(scene));
        }
        self.world = world;
        self.watch.forget();
    }

    /// The server restores the opens of a file that no request has needed since it was killed.
    fn restore(&mut self) {
        let is_one = self.world.engine.restore_next();
        self.tally.restored_behind += u64::from(is_one);
        if !is_one {
            self.world.engine.restore_again();
        }
    }

    /// Lets time pass. The client's host reads the messages that arrive, and messages to the server stay on
    /// their way.
    fn pause(&mut self, seconds: u64) {
        log::line(|| format!("{seconds} s pass"));
        for _ in 0..seconds {
            self.each_line(
                |history, of, on| {
                    while history.clients[of].session.lines[on].is_heard && history.hear(of, on) {}
                },
            );
            self.seconds += 1;
            self.world.advance(Duration::from_secs(1));
            log::is_at(self.before_ns + self.world.clock.time().mono_ns);
            self.each_line(|history, of, on| {
                let line = &mut history.clients[of].session.lines[on];
                line.peer.answer_receipts(line.is_heard);
            });
            self.look();
        }
    }

    fn each_line(&mut self, mut what: impl FnMut(&mut PairHistory, usize, usize)) {
        for of in 0..2 {
            (0..self.clients[of].session.lines.len()).for_each(|on| what(self, of, on));
        }
    }

    // Observation -----------------------------------------------------------------------------------

    /// The server's view of a client's lease.
    fn view(&self, of: usize, file: usize) -> Option<LeaseView> {
        let client = &self.clients[of];
        let key = ClientKey(u128::from_be_bytes(client.session.dial.guid.0));
        let ids = self.world.server.index.by_lease(key, client.files[file].key);
        let opens: Vec<_> = ids.into_iter().filter_map(|id| self.world.server.opens.get(id)).collect();
        let grant = opens.first()?.file()?.1.caching()?;
        let state = LeaseState::from_bits_retain(u32::from(grant.state.bits()));
        let persistent = || opens.iter().map(|open| open.id.persistent);
        let (oldest, newest) = (persistent().min()?, persistent().max()?);
        Some(LeaseView { state, is_breaking: grant.breaking.is_some(), epoch: grant.epoch?, oldest, newest })
    }

    /// Compares the clients' views with the server's.
    fn look(&mut self) {
        if !self.shape.leases {
            return;
        }
        let now_ns = self.world.clock.read().mono_ns;
        for of in 0..2 {
            let lines = &self.clients[of].session.lines;
            let oldest_heard = lines.iter().filter(|line| line.is_heard).map(|line| line.number).min();
            let newest = lines.iter().map(|line| line.number).max().unwrap_or(0);
            let reach = ReachablePaths { now_ns, oldest_heard, newest };
            for file in 0..FILES {
                let view = self.view(of, file);
                self.watch.see((of, file), view, reach);
                self.clients[of].files[file].look(view, self.now, &mut self.record);
            }
        }
    }

    /// Lets everything come to rest.
    fn settle(&mut self) {
        for _ in 0..MOST_STEPS {
            self.now += 1;
            for of in 0..2 {
                self.act(of, |client, world, scene| client.come_back(world, scene));
                self.act(of, |client, _, scene| client.tend(scene, true));
                self.act(of, |client, _, scene| client.send_again(scene));
            }
            self.each_line(|history, of, on| history.settle_line(of, on));
            self.clients.iter_mut().for_each(|client| {
                while let Some(on) = client.session.lines.iter().position(|line| !line.is_heard) {
                    client.session.end(on);
                }
            });
            self.look();
            if self.dice.chance(1, 20) {
                self.pause(11);
            }
            if self.now.is_multiple_of(50) && self.clients.iter().all(Client::is_quiet) {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    fn settle_line(&mut self, of: usize, on: usize) {
        if self.clients[of].session.lines[on].is_heard {
            self.deliver(of, on);
            let peer = &mut self.clients[of].session.lines[on].peer;
            (0..peer.held_jobs()).for_each(|_| peer.run_job(0));
            while self.hear(of, on) {}
        }
    }

    /// At rest, no client believes that it has more rights than the server knows of.
    fn check_beliefs(&self) {
        for (of, client) in self.clients.iter().enumerate() {
            for (file, cache) in client.files.iter().enumerate().filter(|(file, _)| client.has_open(*file)) {
                let view = self.view(of, file);
                let has = view.map_or(LeaseState::empty(), |view| view.state);
                assert!(has.contains(cache.state), "{of} was not told: {:?}, {view:?}", cache.state);
            }
        }
    }

    /// The remaining data must match the observations, and no handle is open any more.
    fn check_end(&mut self) {
        self.world.engine.restore_all().expect("the disk is sound");
        let mut peer = self.world.dial(&Dial::elsewhere());
        self.world.advance(Duration::from_secs(61));
        for file in 0..FILES {
            let path = requests::path(file);
            let open = OpenFile { disposition: create::Disposition::Open, ..OpenFile::named(&path) };
            let id = peer.create(&open).file_id();
            let data = peer.read(id, 0, 4096).data().to_vec();
            assert_eq!(data.len(), CELLS * requests::CELL as usize);
            for (cell, bytes) in data.chunks_exact(requests::CELL as usize).enumerate() {
                let value = u64::from_le_bytes(bytes.try_into().expect("a whole cell"));
                self.record.read((file, cell), value, (self.now, self.now));
            }
            peer.close(id);
        }
        assert_eq!(self.world.engine.open_count(), 0, "all is closed");
        assert!(self.world.engine.held_ranges().is_empty(), "and no range is held");
    }
}

fn allow_channels(world: &SmbTestServer) {
    world.configure_server(|config| config.max_channels = 32);
}

/// Creates the files, filled with zeros.
fn make_files(world: &SmbTestServer, record: &mut Observations) {
    let mut peer = world.dial(&Dial::elsewhere());
    for file in 0..FILES {
        peer.make(&requests::path(file), &[0; CELLS * requests::CELL as usize]);
        for cell in 0..CELLS {
            record.writes((file, cell), 0, 0);
            record.wrote((file, cell), 0, 0);
        }
    }
}
