//! Each transaction is counted once by command and result, also if it was throttled or ran on the blocking
//! pool.

use std::sync::Arc;
use std::time::Duration;

use share::counts::{Totals, TransactionKind, Transactions};
use share::limits::{Alarm, Limits, Provision, ResponseType, Throughput};
use smb::counting::FAMILY;
use smb_wire::{FileId, NtStatus, SmbCommand, header, read, write};
use testkit::smb::{Peer, SmbTestServer};

/// The test itself advances the time.
struct ManualAlarm;

impl Alarm for ManualAlarm {
    fn set(&self, _at_ns: u64) {}
}

fn of_share(world: &SmbTestServer) -> Totals {
    world.engine.counts(&FAMILY).read()
}

fn one(totals: &Totals, command: SmbCommand) -> Transactions {
    let is_it = |known: &&Transactions| known.operation == usize::from(command.get());
    let all: Vec<_> = totals.transactions.iter().filter(is_it).collect();
    assert!(all.len() <= 1, "one way to prove who asks: {all:?}");
    all.first().map_or_else(Transactions::default, |one| (*one).clone())
}

fn responses(transactions: &Transactions) -> Vec<(&'static str, u64)> {
    let all = ResponseType::ALL.iter().map(|kind| (kind.name(), transactions.with(*kind)));
    all.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn every_command_counts_once_for_its_share_with_its_bytes() {
    for world in [SmbTestServer::in_memory(), SmbTestServer::cold()] {
        let mut client = world.client();
        let before = of_share(&world);
        let file = client.open("file");
        assert_eq!(client.write(file, 0, &[7; 1000]), NtStatus::SUCCESS);
        for _ in 0..3 {
            assert_eq!(client.read(file, 0, 400).data(), [7; 400]);
        }
        assert_eq!(client.read(file, 5000, 400).status(), NtStatus::END_OF_FILE);
        assert_eq!(client.close(file), NtStatus::SUCCESS);
        assert_eq!(client.close(file), NtStatus::FILE_CLOSED);
        assert_eq!(
            client.status(SmbCommand::Echo, |out| smb_wire::echo::Request.write(out)),
            NtStatus::SUCCESS
        );
        let after = of_share(&world);
        assert_eq!(one(&before, SmbCommand::TreeConnect).all(), 1);
        let reads = one(&after, SmbCommand::Read);
        assert_eq!(responses(&reads), [("Success", 3), ("ClientOtherError", 1)]);
        let fixed = (header::SIZE + read::RESPONSE_FIXED) as u64;
        let refused = (header::SIZE + smb_wire::error::EMPTY.len()) as u64;
        assert_eq!(reads.egress, 3 * (fixed + 400) + refused);
        let writes = one(&after, SmbCommand::Write);
        assert_eq!((responses(&writes), writes.ingress), (vec![("Success", 1)], 64 + 48 + 1000));
        assert_eq!(responses(&one(&after, SmbCommand::Create)), [("Success", 1)]);
        assert_eq!(responses(&one(&after, SmbCommand::Close)), [("Success", 1), ("ClientOtherError", 1)]);
        assert_eq!(one(&after, SmbCommand::Echo).all(), 0, "it is of no share");
        let habits = &after.pattern;
        assert_eq!(
            [TransactionKind::Read, TransactionKind::Write, TransactionKind::Metadata]
                .map(|kind| habits.operations(kind)),
            [4, 1, 3]
        );
        assert_eq!(habits.bytes, [1200, 1000]);
        let rest = world.server.counts.read();
        assert_eq!(
            [SmbCommand::Negotiate, SmbCommand::Echo].map(|command| {
                rest.transactions
                    .iter()
                    .filter(|one| one.operation == usize::from(command.get()))
                    .map(Transactions::all)
                    .sum::<u64>()
            }),
            [1, 1]
        );
    }
}

fn ask(client: &mut Peer, file: FileId, reads: bool) -> u64 {
    match reads {
        true => client.start(SmbCommand::Read, |out| read::Request::new(file, 0, 4).write(out)),
        false => client.start(SmbCommand::Write, |out| write::Request::new(file, 0, b"data").write(out)),
    }
}

#[test]
fn a_limit_that_was_met_shows_in_the_response_type() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    client.make("file", b"data");
    let file = client.open("file");
    let others = ["one", "other"].map(|name| client.open(name));
    let before = of_share(&world);
    let provision = Provision {
        operations: 10,
        burst: 10,
        burst_credits: 0,
        throughput: Throughput::Together(1 << 40),
        metadata: 10,
        file_operations: 1_000_000,
        file_bytes: 1 << 40,
        file_size: 4 << 40,
    };
    let now = world.clock.read();
    let limits = Limits::new(None, Arc::new(ManualAlarm), now);
    world.engine.set_limits(Some(limits.set_share(1, provision, Some(0), now)));
    let mut asked: Vec<u64> = (0..3).map(|at| ask(&mut client, file, at != 1)).collect();
    let close = |client: &mut Peer, file_id| {
        let request = smb_wire::close::Request { flags: smb_wire::close::CloseFlags::empty(), file_id };
        client.start(SmbCommand::Close, |out| request.write(out))
    };
    let names = others.map(|file| close(&mut client, file));
    asked.extend(names);
    for _ in 0..5 {
        world.clock.advance(Duration::from_millis(100));
        limits.release(world.clock.read());
    }
    assert!(asked.iter().all(|id| client.answer(*id).is_some()), "all are answered");
    let after = of_share(&world);
    let throttled = ("SuccessWithShareIopsThrottling", 1);
    assert_eq!(responses(&one(&after, SmbCommand::Read)), [("Success", 1), throttled]);
    let writes =
        |totals: &Totals| one(totals, SmbCommand::Write).with(ResponseType::SuccessWithShareIopsThrottling);
    assert_eq!((writes(&before), writes(&after)), (0, 1));
    let closed = one(&after, SmbCommand::Close);
    assert_eq!(closed.succeeded() - one(&before, SmbCommand::Close).succeeded(), 2);
    assert_eq!(closed.with(ResponseType::SuccessWithMetadataThrottling), 1);
}
