//! Transactions are counted by operation and response, each once, even if they waited or ran elsewhere.

use std::sync::Arc;
use std::time::Duration;

use nfs::counting::FAMILY;
use nfs_wire::NfsStat;
use nfs_wire::attr::Bitmap;
use nfs_wire::op::{Args, OpNum, getattr, read_plus};
use share::counts::{Totals, TransactionKind};
use share::limits::{Alarm, Limits, Provision, ResponseType, Throughput};
use testkit::nfs::{Client, EXPORT, NfsTestServer, lookup, reading, writing};

/// The test itself lets time pass.
struct ManualTime;

impl Alarm for ManualTime {
    fn set(&self, _at_ns: u64) {}
}

fn of_share(world: &NfsTestServer) -> Totals {
    world.engine.counts(&FAMILY).read()
}

/// Number of transactions of an operation, by response.
fn responses(totals: &Totals, number: OpNum) -> Vec<(&'static str, u64)> {
    let one = totals.transactions.iter().filter(|known| known.operation == number.get() as usize);
    let all = one.flat_map(|one| ResponseType::ALL.iter().map(|kind| (kind.name(), one.with(*kind))));
    all.filter(|(_, count)| *count > 0).collect()
}

fn attributes() -> Args<'static> {
    Args::GetAttr(getattr::Args { attr_request: Bitmap::of(&[4]) })
}

#[test]
fn every_operation_counts_once_for_its_share_with_its_bytes() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 2);
    let (file, stateid) = client.create(&mut wire, b"file");
    client.on(&mut wire, &file, &[writing(stateid, 0, &[7; 1000])]).ok();
    let before = of_share(&world);
    for _ in 0..3 {
        client.on(&mut wire, &file, &[reading(stateid, 0, 400), attributes()]).ok();
    }
    // On the blocking pool.
    let plus = Args::ReadPlus(read_plus::Args { stateid, offset: 0, count: 400 });
    client.on(&mut wire, &file, &[plus]).ok();
    client.on(&mut wire, &file, &[attributes()]).ok();
    let sequence = client.sequence(0, false);
    let none = wire.call(2, &[sequence, Args::PutRootFh, lookup(EXPORT), lookup(b"none")]);
    assert_eq!(none.status(), NfsStat::NoEnt);
    let after = of_share(&world);
    assert_eq!(responses(&after, OpNum::Write), [("Success", 1)]);
    assert_eq!(responses(&after, OpNum::Read), [("Success", 3)]);
    assert_eq!(responses(&after, OpNum::ReadPlus), [("Success", 1)]);
    let attributes = |totals: &Totals| responses(totals, OpNum::GetAttr).iter().map(|(_, n)| n).sum::<u64>();
    assert_eq!(attributes(&after) - attributes(&before), 4);
    let refused = responses(&after, OpNum::Lookup);
    assert!(refused.contains(&("ClientOtherError", 1)), "{refused:?}");
    let read = after.transactions.iter().find(|one| one.operation == OpNum::Read.get() as usize).unwrap();
    // Number, stateid, offset and count; number, status, whether it ends, length and data.
    assert_eq!((read.ingress, read.egress), (3 * (4 + 16 + 8 + 4), 3 * (16 + 400)));
    let more = |kind| after.pattern.operations(kind) - before.pattern.operations(kind);
    // Attributes beside data do not count as work of their own, and neither does the second LOOKUP.
    assert_eq!(
        [TransactionKind::Read, TransactionKind::Write, TransactionKind::Metadata].map(more),
        [4, 0, 2]
    );
    assert_eq!(after.pattern.bytes, [1600, 1000]);
    let rest = world.server.counts.read();
    assert!(responses(&rest, OpNum::Sequence)[0].1 >= 6 && responses(&rest, OpNum::ExchangeId)[0].1 == 1);
}

#[test]
fn a_limit_that_was_met_shows_in_the_response_type() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 2);
    let (file, stateid) = client.create(&mut wire, b"file");
    let provision = Provision {
        operations: 10,
        burst: 10,
        burst_credits: 0,
        throughput: Throughput::Together(1 << 40),
        metadata: 1000,
        file_operations: 1_000_000,
        file_bytes: 1 << 40,
        file_size: 4 << 40,
    };
    let limits = Limits::new(None, Arc::new(ManualTime), world.now);
    world.engine.set_limits(Some(limits.set_share(1, provision, Some(0), world.now)));
    let reads = reading(stateid, 0, 4);
    let writes = writing(stateid, 0, b"data");
    for (slot, operation) in (0..).zip([writes, reads, writes, reads]) {
        let put = testkit::nfs::put(&file);
        let sequence = client.sequence(slot, false);
        wire.begin(2, &[sequence, put, operation, attributes()]);
    }
    let mut answered = wire.work().len();
    for _ in 0..4 {
        wire.now = wire.now.plus(Duration::from_millis(100));
        limits.release(wire.now);
        wire.collect();
        answered += wire.work().len();
    }
    assert_eq!(answered, 4);
    let totals = of_share(&world);
    let throttled = "SuccessWithShareIopsThrottling";
    assert_eq!(responses(&totals, OpNum::Write), [("Success", 1), (throttled, 1)]);
    assert_eq!(responses(&totals, OpNum::Read), [(throttled, 2)]);
    assert!(responses(&totals, OpNum::GetAttr).iter().all(|(kind, _)| *kind == "Success"));
}
