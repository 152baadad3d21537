//! The charges of a share's limits for READ and WRITE. However an operation ends, the share, the file and the
//! account have the same as before, less the bytes transferred.

use std::sync::Arc;
use std::time::Duration;

use nfs_wire::NfsStat;
use nfs_wire::compound::Reply;
use nfs_wire::op::{Args, destroy, read_plus};
use nfs_wire::rpc::{self, Accepted, Message};
use nfs_wire::types::StateId;
use share::FileNumber;
use share::limits::{AccountProvision, Alarm, Limits, MeteredWork, Provision, ShareLimits, Throughput};
use testkit::nfs::{Client, NfsTestServer, Wire, closing, put, reading, writing};
use volume::faulty::{FaultPlan, FaultyVolume, VolumeCall};
use volume::memory::MemoryVolume;
use volume::{Failure, Name, OpenHow, Volume};
use volume_posix::PosixVolume;

/// Bytes a second at each gate. Half of the bytes of a twentieth of a second are available at once.
const RATE: u64 = 50_000_000;
/// Operations a second. Those of a twentieth of a second can run at once.
const OPERATIONS: u64 = 1000;
/// The content of the file.
const SIZE: u32 = 600_000;
/// The length of most READs.
const LEN: u32 = 65_536;

/// The test itself lets time pass.
struct ManualTime;

impl Alarm for ManualTime {
    fn set(&self, _at_ns: u64) {}
}

/// A client with a file on a share with limits.
struct ChargedShare {
    world: NfsTestServer,
    limits: Arc<Limits>,
    share: ShareLimits,
    number: FileNumber,
    plan: Arc<FaultPlan>,
    wire: Wire,
    client: Client,
    file: Vec<u8>,
    stateid: StateId,
}

impl ChargedShare {
    fn new() -> ChargedShare {
        let memory = MemoryVolume::new(3);
        memory.root().expect("a root").set_mode(0o777).expect("a mode");
        let faulty = FaultyVolume::new(Arc::new(memory.clone()));
        let plan = Arc::clone(faulty.plan());
        ChargedShare::on(Arc::new(faulty), &memory, plan)
    }

    /// On a volume without cached data: every READ must leave the connection's thread.
    fn cold() -> ChargedShare {
        let scene = ChargedShare::new();
        scene.plan.always(VolumeCall::ReadCached, Some(Failure::WouldBlock));
        scene
    }

    /// On a volume whose files another one shows too.
    fn on(volume: Arc<dyn Volume>, shown: &dyn Volume, plan: Arc<FaultPlan>) -> ChargedShare {
        let world = NfsTestServer::on(volume);
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 2);
        let (file, stateid) = client.create(&mut wire, b"file");
        client.on(&mut wire, &file, &[writing(stateid, 0, &vec![7; SIZE as usize])]).ok();
        let name = Name::new(b"file").expect("a name");
        let root = shown.root().expect("the root");
        let node = root.lookup(&name, OpenHow::Read).and_then(|node| node.stat()).expect("the file").id;
        let number = FileNumber { device: node.device, inode: node.inode };
        let throughput = Throughput::Together(RATE);
        let account = AccountProvision { operations: OPERATIONS, throughput };
        let provision = Provision {
            operations: OPERATIONS,
            burst: OPERATIONS,
            burst_credits: 0,
            throughput,
            metadata: 1000,
            file_operations: 1 << 30,
            file_bytes: RATE,
            file_size: 4 << 40,
        };
        let limits = Limits::new(Some(account), Arc::new(ManualTime), world.now);
        let share = limits.set_share(1, provision, Some(0), world.now);
        world.engine.set_limits(Some(share.clone()));
        let scene = ChargedShare { world, limits, share, number, plan, wire, client, file, stateid };
        scene.share.charge(scene.work(RATE / 40), scene.wire.now).used_up();
        assert_eq!(scene.left(), [(RATE / 40) as i64; 3]);
        scene
    }

    fn work(&self, len: u64) -> MeteredWork {
        MeteredWork::Read { file: self.number, len }
    }

    /// Bytes that are left to the file, the share and the account.
    fn left(&self) -> Vec<i64> {
        self.share.bytes_left(self.work(0), self.wire.now)
    }

    /// Runs `end`, after which this many bytes must have been transferred.
    #[track_caller]
    fn costs(mut self, transferred: u32, end: impl FnOnce(&mut ChargedShare)) {
        let (before, began) = (self.left(), self.wire.now.mono_ns);
        end(&mut self);
        let passed_ns = self.wire.now.mono_ns - began;
        let came = (RATE / 1_000_000 * passed_ns / 1000) as i64;
        let expected: Vec<i64> = before.iter().map(|left| left + came - i64::from(transferred)).collect();
        assert_eq!(self.left(), expected, "of the file, the share and the account");
        assert_eq!(self.held(), 0);
    }

    fn held(&self) -> usize {
        self.share.state(self.wire.now).expect("the share").held
    }

    /// Lets no operation pass for a millisecond.
    fn shut(&self) {
        (0..OPERATIONS / 20).for_each(|_| self.share.charge(self.work(0), self.wire.now).used_up());
    }

    /// Lets time pass, and resumes the operations whose time has come.
    fn pass(&mut self) {
        self.wire.now = self.wire.now.plus(Duration::from_millis(2));
        self.limits.release(self.wire.now);
    }

    /// Begins a COMPOUND on the file in a slot. Operations that must wait for the device do not begin.
    fn ask(&mut self, slot: u32, operations: &[Args<'_>]) {
        let before = [self.client.sequence(slot, false), put(&self.file)];
        self.wire.begin(2, &[&before[..], operations].concat());
    }

    fn read(&self, offset: u32, count: u32) -> Args<'static> {
        reading(self.stateid, offset.into(), count)
    }

    fn read_plus(&self, offset: u32, count: u32) -> Args<'static> {
        Args::ReadPlus(read_plus::Args { stateid: self.stateid, offset: offset.into(), count })
    }

    /// Runs the operations that wait for the device. Returns the status of the COMPOUNDs.
    fn answers(&mut self) -> Vec<NfsStat> {
        self.wire.collect();
        self.wire.work().iter().map(|answer| status(answer)).collect()
    }

    /// Sends operations in the first slot that must end with this status.
    #[track_caller]
    fn ends(&mut self, operations: &[Args<'_>], how: NfsStat) {
        self.ask(0, operations);
        assert_eq!(self.answers(), [how]);
    }

    /// Sends a READ that must wait.
    #[track_caller]
    fn hold_read(&mut self, count: u32) {
        self.shut();
        let read = self.read(0, count);
        self.ask(0, &[read]);
        assert_eq!((self.answers(), self.held()), (Vec::new(), 1));
    }

    /// The connection is lost.
    fn lose(&mut self) {
        let mut other = self.world.connect();
        other.now = self.wire.now;
        std::mem::replace(&mut self.wire, other).lose();
    }
}

fn status(answer: &[u8]) -> NfsStat {
    match Message::parse(answer) {
        Ok(Message::Reply(rpc::RpcReply { outcome: Ok(Accepted::Success(body)), .. })) => {
            Reply::parse(body).expect("COMPOUND4res").status
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_served_at_once_costs_what_it_transfers() {
    for (offset, there) in [(0, LEN), (SIZE - 1000, 1000), (SIZE, 0)] {
        ChargedShare::new().costs(there, |scene| {
            let read = scene.read(offset, LEN);
            scene.ends(&[read], NfsStat::Ok);
        });
    }
}

#[test]
fn what_is_not_copied_costs_what_it_transfers() {
    for (count, there) in [(524_288, 524_288), (1_000_000, SIZE)] {
        let temp_dir = tempfile::tempdir().expect("a directory");
        let (files, beside) = (temp_dir.path().join("files"), temp_dir.path().join("beside"));
        std::fs::create_dir(&files).expect("a directory");
        let [volume, shown] = [(); 2].map(|()| PosixVolume::open(&files, &beside).expect("a volume"));
        let scene = ChargedShare::on(Arc::new(volume), &shown, Arc::default());
        let root = shown.root().expect("the root");
        let file = root.lookup(&Name::new(b"file").expect("a name"), OpenHow::Read).expect("the file");
        let config = share::Config::clone(&scene.world.engine.config());
        scene.world.engine.configure(share::Config { send_file: wire::SendFile::Always, ..config });
        scene.costs(there, |scene| {
            let read = scene.read(0, count);
            scene.ends(&[read], NfsStat::Ok);
            // The host reports the data in memory from Linux 6.5 on.
            let tells = file.range(0, SIZE as usize).expect("it may be read").is_some();
            assert_eq!(scene.wire.uncopied, usize::from(tells));
        });
    }
}

#[test]
fn what_fails_costs_nothing() {
    ChargedShare::new().costs(0, |scene| {
        scene.plan.always(VolumeCall::ReadCached, Some(Failure::Io));
        let read = scene.read(0, LEN);
        scene.ends(&[read], NfsStat::Io);
    });
    ChargedShare::cold().costs(0, |scene| {
        scene.plan.always(VolumeCall::Read, Some(Failure::Io));
        let read = scene.read(0, LEN);
        scene.ends(&[read], NfsStat::Io);
    });
    ChargedShare::new().costs(0, |scene| {
        scene.plan.always(VolumeCall::Read, Some(Failure::Io));
        let read = scene.read_plus(0, LEN);
        scene.ends(&[read], NfsStat::Io);
    });
    ChargedShare::new().costs(0, |scene| {
        scene.plan.always(VolumeCall::Write, Some(Failure::Io));
        let stateid = scene.stateid;
        scene.ends(&[writing(stateid, 0, &[8; 1000])], NfsStat::Io);
    });
}

#[test]
fn what_is_read_on_the_pool_is_charged_once() {
    for (offset, there) in [(0, LEN), (SIZE - 1000, 1000), (SIZE, 0)] {
        ChargedShare::cold().costs(there, |scene| {
            let read = scene.read(offset, LEN);
            scene.ends(&[read], NfsStat::Ok);
        });
        ChargedShare::new().costs(there, |scene| {
            let read = scene.read_plus(offset, LEN);
            scene.ends(&[read], NfsStat::Ok);
        });
    }
    let hole = ChargedShare::new();
    let end = writing(hole.stateid, 2 * u64::from(SIZE), b"end");
    // A hole begins at a block boundary.
    hole.costs(3 + 1000 + (4096 - SIZE % 4096), |scene| {
        scene.ends(&[end], NfsStat::Ok);
        let read = scene.read_plus(SIZE - 1000, LEN);
        scene.ends(&[read], NfsStat::Ok);
    });
}

#[test]
fn each_operation_of_a_compound_costs_what_it_transfers() {
    for scene in [ChargedShare::new(), ChargedShare::cold()] {
        scene.costs(1000 + 500 + 2000, |scene| {
            let stateid = scene.stateid;
            let operations =
                [scene.read(SIZE - 1000, LEN), writing(stateid, 0, &[8; 500]), scene.read(0, 2000)];
            scene.ends(&operations, NfsStat::Ok);
        });
    }
    // The data before a failed operation was transferred.
    ChargedShare::new().costs(1000, |scene| {
        let read = scene.read(0, 1000);
        let nowhere = StateId { seqid: 1, other: [9; 12] };
        scene.ends(&[read, reading(nowhere, 0, 1000)], NfsStat::BadStateId);
    });
}

#[test]
fn what_found_nothing_in_memory_and_is_never_done_costs_nothing() {
    for panics in [false, true] {
        ChargedShare::cold().costs(0, |scene| {
            let read = scene.read(0, LEN);
            scene.ask(0, &[read]);
            scene.wire.give_up(panics);
        });
    }
    ChargedShare::cold().costs(0, |scene| {
        let read = scene.read(0, LEN);
        scene.ask(0, &[read]);
        scene.lose();
    });
    ChargedShare::cold().costs(0, |scene| {
        let read = scene.read(0, LEN);
        scene.ask(0, &[read]);
        let jobs = scene.wire.take_jobs();
        scene.lose();
        drop(jobs);
    });
}

#[test]
fn what_found_nothing_in_memory_and_is_then_refused_costs_nothing() {
    // Its open is closed in between.
    ChargedShare::cold().costs(0, |scene| {
        let read = scene.read(0, LEN);
        scene.ask(0, &[read]);
        let jobs = scene.wire.take_jobs();
        scene.wire.collect();
        let close = closing(scene.stateid);
        scene.ask(1, &[close]);
        assert_eq!(scene.answers(), [NfsStat::Ok]);
        jobs();
    });
}

#[test]
fn what_is_read_on_the_pool_for_a_connection_that_is_gone_costs_what_was_read() {
    ChargedShare::cold().costs(LEN, |scene| {
        let read = scene.read(0, LEN);
        scene.ask(0, &[read]);
        let jobs = scene.wire.take_jobs();
        scene.lose();
        jobs();
    });
}

#[test]
fn what_was_held_costs_what_it_transfers() {
    for scene in [ChargedShare::new(), ChargedShare::cold()] {
        scene.costs(LEN, |scene| {
            scene.hold_read(LEN);
            scene.pass();
            assert_eq!(scene.answers(), [NfsStat::Ok]);
        });
    }
    ChargedShare::new().costs(SIZE, |scene| {
        scene.hold_read(1_000_000);
        scene.pass();
        assert_eq!(scene.answers(), [NfsStat::Ok]);
    });
    ChargedShare::new().costs(0, |scene| {
        scene.hold_read(LEN);
        scene.plan.always(VolumeCall::ReadCached, Some(Failure::Io));
        scene.pass();
        assert_eq!(scene.answers(), [NfsStat::Io]);
    });
    ChargedShare::new().costs(0, |scene| {
        scene.hold_read(LEN);
        scene.plan.always(VolumeCall::ReadCached, Some(Failure::WouldBlock));
        scene.pass();
        scene.wire.collect();
        scene.wire.give_up(false);
    });
}

#[test]
fn what_was_held_when_its_connection_was_lost_costs_nothing() {
    ChargedShare::new().costs(0, |scene| {
        scene.hold_read(LEN);
        scene.lose();
    });
    // Its time has come, but it does not resume.
    ChargedShare::new().costs(0, |scene| {
        scene.hold_read(LEN);
        scene.pass();
        scene.lose();
    });
}

#[test]
fn what_was_held_when_its_open_was_closed_costs_nothing() {
    ChargedShare::new().costs(0, |scene| {
        scene.hold_read(LEN);
        let close = closing(scene.stateid);
        scene.ask(1, &[close]);
        assert_eq!(scene.answers(), [NfsStat::Ok]);
        scene.pass();
        assert_eq!(scene.answers(), [NfsStat::BadStateId]);
    });
}

#[test]
fn what_is_held_keeps_its_session_and_costs_what_it_transfers() {
    ChargedShare::new().costs(LEN, |scene| {
        scene.hold_read(LEN);
        let mut other = scene.world.connect();
        other.now = scene.wire.now;
        let end = Args::DestroySession(destroy::SessionArgs { sessionid: scene.client.session });
        let ended = other.call(2, &[end]).status();
        scene.pass();
        let read = scene.answers();
        assert_eq!((ended, read), (NfsStat::Delay, vec![NfsStat::Ok]));
    });
}

#[test]
fn a_write_costs_what_was_written_whoever_hears_of_it() {
    ChargedShare::new().costs(LEN, |scene| {
        let data = vec![8; LEN as usize];
        let stateid = scene.stateid;
        scene.ends(&[writing(stateid, 0, &data)], NfsStat::Ok);
    });
    for is_lost in [false, true] {
        ChargedShare::new().costs(LEN + 1000, |scene| {
            scene.shut();
            let data = vec![8; LEN as usize];
            let operations = [writing(scene.stateid, 0, &data), scene.read(SIZE - 1000, LEN)];
            scene.ask(0, &operations);
            assert_eq!((scene.answers(), scene.held()), (Vec::new(), 1));
            match is_lost {
                // The rest runs too, and is charged.
                true => scene.lose(),
                false => {
                    scene.pass();
                    assert_eq!(scene.answers(), [], "what follows counts by itself");
                    scene.pass();
                    assert_eq!(scene.answers(), [NfsStat::Ok]);
                }
            }
        });
    }
}
