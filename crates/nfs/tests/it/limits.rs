//! A share with limits. COMPOUNDs wait until their time has come and end in their slots exactly once. Others
//! of the same connection are answered meanwhile.

use std::sync::Arc;
use std::time::Duration;

use nfs_wire::NfsStat;
use nfs_wire::attr::Bitmap;
use nfs_wire::compound::Reply;
use nfs_wire::op::{Args, Res, getattr};
use nfs_wire::rpc::{self, Accepted, Message};
use nfs_wire::types::StateId;
use share::limits::{Alarm, Limits, Provision, ShareLimits, Throughput};
use testkit::nfs::{Client, EXPORT, NfsTestServer, Wire, closing, lookup, put, reading, writing};

/// The test itself lets time pass.
struct ManualTime;

impl Alarm for ManualTime {
    fn set(&self, _at_ns: u64) {}
}

/// A world whose share allows ten reads and writes a second, and some number of other operations; and a
/// client with a file.
struct Limited {
    world: NfsTestServer,
    limits: Arc<Limits>,
    share: ShareLimits,
    wire: Wire,
    client: Client,
    file: Vec<u8>,
    stateid: StateId,
}

impl Limited {
    fn new(metadata: u64) -> Limited {
        let world = NfsTestServer::new();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 2);
        let (file, stateid) = client.create(&mut wire, b"file");
        client.on(&mut wire, &file, &[writing(stateid, 0, b"data")]).ok();
        let provision = Provision {
            operations: 10,
            burst: 10,
            burst_credits: 0,
            throughput: Throughput::Together(1 << 40),
            metadata,
            file_operations: 1_000_000,
            file_bytes: 1 << 40,
            file_size: 4 << 40,
        };
        let limits = Limits::new(None, Arc::new(ManualTime), world.now);
        let share = limits.set_share(1, provision, Some(0), world.now);
        world.engine.set_limits(Some(share.clone()));
        Limited { world, limits, share, wire, client, file, stateid }
    }

    /// Begins a COMPOUND on the file in a slot.
    fn ask(&mut self, slot: u32, cachethis: bool, operations: &[Args<'_>]) {
        let before = [self.client.sequence(slot, cachethis), put(&self.file)];
        self.wire.begin(2, &[&before[..], operations].concat());
    }

    /// The statuses of the replies since then.
    fn answers(&mut self) -> Vec<NfsStat> {
        self.wire.collect();
        self.wire.work().iter().map(|answer| status(answer)).collect()
    }

    /// Lets time pass, and resumes the COMPOUNDs whose time has come.
    fn pass(&mut self, ms: u64) {
        self.wire.now = self.wire.now.plus(Duration::from_millis(ms));
        self.limits.release(self.wire.now);
    }

    fn held(&self) -> usize {
        self.share.state(self.wire.now).expect("the share").held
    }

    fn counted(&self) -> u64 {
        self.share.state(self.wire.now).expect("the share").counts.iter().sum()
    }
}

fn body(answer: &[u8]) -> Vec<u8> {
    match Message::parse(answer) {
        Ok(Message::Reply(rpc::RpcReply { outcome: Ok(Accepted::Success(body)), .. })) => body.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn status(answer: &[u8]) -> NfsStat {
    Reply::parse(&body(answer)).expect("COMPOUND4res").status
}

fn attributes() -> Args<'static> {
    Args::GetAttr(getattr::Args { attr_request: Bitmap::of(&[4]) })
}

#[test]
fn a_read_waits_for_its_turn_and_nothing_else_waits_for_it() {
    let mut limited = Limited::new(1000);
    let read = reading(limited.stateid, 0, 4);
    for slot in 0..3 {
        limited.ask(slot, false, &[read, attributes()]);
    }
    assert_eq!(limited.answers(), [NfsStat::Ok], "the first one passes");
    assert_eq!(limited.held(), 2);
    limited.ask(3, false, &[attributes()]);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    limited.pass(100);
    limited.wire.collect();
    let answers = limited.wire.work();
    let reply = body(&answers[0]);
    let results: Vec<_> = Reply::parse(&reply).expect("COMPOUND4res").results().map(Result::unwrap).collect();
    let Res::Read(Ok(got)) = results[2] else { panic!("{results:?}") };
    assert_eq!((got.data, results.len(), answers.len()), (&b"data"[..], 4, 1));
    limited.pass(100);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    // Each slot takes its next request.
    limited.world.engine.set_limits(None);
    for slot in 0..4 {
        limited.ask(slot, false, &[read]);
        assert_eq!(limited.answers(), [NfsStat::Ok]);
    }
}

#[test]
fn attributes_beside_data_do_not_count_and_alone_they_count_once() {
    let mut limited = Limited::new(1000);
    let read = reading(limited.stateid, 0, 4);
    limited.ask(0, false, &[read, attributes(), attributes()]);
    assert_eq!((limited.answers().len(), limited.counted()), (1, 1));
    limited.ask(0, false, &[attributes(), attributes()]);
    assert_eq!((limited.answers().len(), limited.counted()), (1, 2));
    let sequence = limited.client.sequence(0, false);
    limited.wire.begin(2, &[sequence, Args::PutRootFh, lookup(EXPORT), lookup(b"file"), attributes()]);
    assert_eq!((limited.answers().len(), limited.counted()), (1, 3));
}

#[test]
fn a_write_is_done_at_once_and_its_answer_waits() {
    let mut limited = Limited::new(1000);
    let (first, second) = (writing(limited.stateid, 0, b"a"), writing(limited.stateid, 0, b"longer"));
    limited.ask(0, false, &[first]);
    limited.ask(1, true, &[second]);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    assert_eq!(limited.held(), 1);
    limited.world.engine.set_limits(None);
    limited.ask(2, false, &[reading(limited.stateid, 0, 10)]);
    limited.wire.collect();
    let answers = limited.wire.work();
    let reply = body(&answers[0]);
    let results: Vec<_> = Reply::parse(&reply).expect("COMPOUND4res").results().map(Result::unwrap).collect();
    let Res::Read(Ok(got)) = results[2] else { panic!("{results:?}") };
    assert_eq!(got.data, b"longer");
    limited.pass(100);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
}

#[test]
fn a_retry_of_what_is_held_is_told_to_come_again() {
    let mut limited = Limited::new(1000);
    let operations = |limited: &mut Limited, slot| {
        [
            limited.client.sequence(slot, true),
            put(&limited.file.clone().leak()[..]),
            reading(limited.stateid, 0, 4),
        ]
    };
    let first = operations(&mut limited, 0);
    limited.wire.begin(2, &first);
    let second = operations(&mut limited, 1);
    limited.wire.begin(2, &second);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    let mut other = limited.world.connect();
    let busy = other.call(2, &second);
    assert_eq!(busy.status(), NfsStat::Delay);
    limited.pass(100);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    let again = other.call(2, &second).ok();
    let Res::Read(Ok(got)) = again.last() else { panic!("{again:?}") };
    assert_eq!(got.data, b"data");
}

#[test]
fn what_was_held_on_a_lost_connection_ends_in_its_slot() {
    let mut limited = Limited::new(1000);
    let file: &'static [u8] = limited.file.clone().leak();
    let write = |limited: &mut Limited, slot, data| {
        [limited.client.sequence(slot, true), put(file), writing(limited.stateid, 0, data), attributes()]
    };
    let first = write(&mut limited, 0, b"one!");
    limited.wire.begin(2, &first);
    let second = write(&mut limited, 1, b"two!");
    limited.wire.begin(2, &second);
    let third = [limited.client.sequence(2, true), put(file), reading(limited.stateid, 0, 4)];
    limited.wire.begin(2, &third);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    assert_eq!(limited.held(), 2);
    let lost = std::mem::replace(&mut limited.wire, limited.world.connect());
    let now = lost.now;
    lost.lose();
    limited.wire.now = now;
    assert_eq!(limited.held(), 0, "nobody waits for it any more");
    // The WRITE has run once and its reply is kept. The READ has not begun.
    let again = limited.wire.call(2, &second).ok();
    assert!(matches!(again.results()[2], Res::Write(Ok(_))));
    assert_eq!(limited.wire.call(2, &third).status(), NfsStat::Delay);
    limited.world.engine.set_limits(None);
    let close = closing(limited.stateid);
    for slot in 1..3 {
        let sequence = limited.client.sequence(slot, false);
        limited.wire.call(2, &[sequence, put(file), reading(limited.stateid, 0, 4)]).ok();
    }
    limited.client.on(&mut limited.wire, file, &[close]).ok();
}

#[test]
fn bytes_that_were_not_there_or_could_not_be_read_are_given_back() {
    const MIB: u32 = 1 << 20;
    let mut limited = Limited::new(1000);
    let provision = limited.share.state(limited.wire.now).expect("the share").provision;
    let slow = Provision {
        operations: 1_000_000,
        burst: 1_000_000,
        throughput: Throughput::Together(MIB.into()),
        ..provision
    };
    limited.limits.set_share(1, slow, None, limited.wire.now);
    let size = writing(limited.stateid, 8 << 20, b"end");
    limited.ask(0, false, &[size]);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    limited.pass(1000);
    let count = MIB - 4096;
    for offset in [1 << 20, 2 << 20, 8 << 20, 9 << 20] {
        let plus = nfs_wire::op::read_plus::Args { stateid: limited.stateid, offset, count };
        limited.ask(0, false, &[Args::ReadPlus(plus)]);
        assert_eq!(limited.answers(), [NfsStat::Ok], "a hole, or the end, at {offset}");
    }
    assert_eq!(limited.held(), 0);
}

#[test]
fn what_a_lost_connection_has_written_is_owed() {
    let mut limited = Limited::new(1000);
    let one = || writing(limited.stateid, 0, b"data");
    let many: Vec<_> = (0..10).map(|_| one()).collect();
    limited.ask(0, false, &many);
    assert_eq!(limited.answers(), []);
    let lost = std::mem::replace(&mut limited.wire, limited.world.connect());
    let now = lost.now;
    lost.lose();
    limited.wire.now = now;
    limited.ask(1, false, &[reading(limited.stateid, 0, 4)]);
    limited.pass(800);
    assert_eq!(limited.answers(), [], "ten were done, at ten a second");
    limited.pass(400);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
}

#[test]
fn names_are_held_by_the_limit_for_metadata_alone() {
    let mut limited = Limited::new(10);
    for slot in 0..2 {
        limited.ask(slot, false, &[attributes()]);
    }
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    limited.ask(2, false, &[reading(limited.stateid, 0, 4)]);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    limited.pass(100);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    assert_eq!(limited.held(), 0);
}

#[test]
fn what_waits_for_the_disk_is_held_too() {
    let mut limited = Limited::new(1000);
    // READ_PLUS always goes to the blocking pool.
    let plus = nfs_wire::op::read_plus::Args { stateid: limited.stateid, offset: 0, count: 4 };
    for slot in 0..2 {
        limited.ask(slot, false, &[Args::ReadPlus(plus)]);
    }
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    limited.pass(100);
    assert_eq!(limited.answers(), [NfsStat::Ok]);
    assert_eq!(limited.counted(), 2);
}
