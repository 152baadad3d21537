//! Lack of room: the clients that are refused, and the state that long-gone clients keep.

use std::time::Duration;

use nfs::limits::{MAX_CLIENTS, MAX_CLIENTS_PER_ADDRESS, MAX_UNPROVED_CLIENTS_PER_ADDRESS as OF_ADDRESS};
use nfs_wire::NfsStat;
use nfs_wire::op::lock::{Args as LockArgs, Locker, OpenToLockOwner};
use nfs_wire::op::open::{CreateHow, OpenHow};
use nfs_wire::op::{Args, Res, create_session};
use nfs_wire::types::{Identity, LockType, StateOwner};
use testkit::nfs::*;
use volume::Volume;

/// Room for the replies of one slot of a session.
const ONE_SLOT: usize = 5000;
/// The smallest session.
const SMALL: create_session::ChannelAttrs =
    create_session::ChannelAttrs { maxresponsesize_cached: 0, maxrequests: 1, ..CHANNEL };

/// Lets a lease period pass without the server noticing.
fn pass(wires: &mut [&mut Wire]) {
    for wire in wires {
        wire.now = wire.now.plus(Duration::from_secs(u64::from(LEASE_S) + 1));
    }
}

/// Connections from as many addresses as are needed for the maximum of clients.
fn wires_of_many(world: &NfsTestServer) -> Vec<Wire> {
    let addresses = 0..MAX_CLIENTS.div_ceil(OF_ADDRESS);
    addresses.map(|number| world.connect_from(&format!("192.0.2.{number}:1000"))).collect()
}

fn make(name: &[u8]) -> [Args<'_>; 3] {
    let how = OpenHow::Create(CreateHow::Guarded(Default::default()));
    [Args::PutRootFh, lookup(EXPORT), opening(how, name)]
}

/// Introduces a client and creates a session for it.
fn begin(wire: &mut Wire, name: &[u8], fore: create_session::ChannelAttrs) -> NfsStat {
    let introduced = wire.call(1, &[introduce(name)]);
    let Res::ExchangeId(Ok(known)) = introduced.last() else { return introduced.status() };
    wire.call(1, &[begin_session(known.clientid, known.sequenceid, fore)]).status()
}

// RFC 8881 15.1.16, 8.4.2.3
#[test]
fn who_finds_no_room_for_a_state_comes_again_and_gets_that_of_who_is_gone() {
    let world = NfsTestServer::new();
    let (mut one, mut two) = (world.connect(), world.connect());
    let mut gone = Client::new(&mut one, b"gone", 1);
    gone.create(&mut one, b"file");
    gone.create(&mut one, b"other");
    let mut client = Client::new(&mut two, b"client", 1);
    let (handle, open) = client.create(&mut two, b"locked");
    while world.server.reserve_state().is_some() {}
    assert_eq!(client.run(&mut two, &make(b"new")).status(), NfsStat::Delay);
    assert_eq!(world.engine.open_count(), 3, "nothing is left of it");
    let name = volume::Name::new(b"new").expect("a name");
    assert!(world.memory.root().expect("a root").stat_name(&name).is_err(), "nor its name");
    let lock_owner = StateOwner { clientid: 0, owner: Identity(b"owner") };
    let new = OpenToLockOwner { open_seqid: 0, open_stateid: open, lock_seqid: 0, lock_owner };
    let locker = Locker::New(new);
    let lock =
        Args::Lock(LockArgs { locktype: LockType::Write, reclaim: false, offset: 0, length: 10, locker });
    assert_eq!(client.on(&mut two, &handle, &[lock]).status(), NfsStat::Delay);
    pass(&mut [&mut two]);
    client.on(&mut two, &handle, &[lock]).ok();
    assert!(world.server.clients.get(gone.clientid).is_none());
    client.run(&mut two, &make(b"new")).ok();
}

// RFC 8881 15.1.1.3
#[test]
fn a_client_that_has_more_than_there_is_memory_left_for_gets_no_new_state() {
    let world = NfsTestServer::new();
    let memory = world.engine.client_memory();
    let _others = memory.charge(share::memory::MemoryAccount::NOBODY, memory.bound() - (100 << 10));
    let (mut one, mut two) = (world.connect(), world.connect());
    let mut greedy = Client::new(&mut one, b"greedy", 1);
    let (handle, open) = greedy.create(&mut one, b"file");
    let lock = |number: u32| {
        let owner = [number.to_be_bytes().as_slice(), &[7; 1000]].concat();
        let lock_owner = StateOwner { clientid: 0, owner: Identity(&owner) };
        let new = OpenToLockOwner { open_seqid: 0, open_stateid: open, lock_seqid: 0, lock_owner };
        let (offset, locker) = (2 * u64::from(number), Locker::New(new));
        let lock = LockArgs { locktype: LockType::Write, reclaim: false, offset, length: 1, locker };
        greedy.on(&mut one, &handle, &[Args::Lock(lock)]).status()
    };
    // Each owner's name counts three times its thousand bytes.
    let got = (0..100).map(lock).take_while(|status| *status == NfsStat::Ok).count();
    assert!((8..13).contains(&got), "{got} owners");
    let mut modest = Client::new(&mut two, b"modest", 1);
    modest.create(&mut two, b"other");
    assert_eq!(greedy.run(&mut one, &make(b"new")).status(), NfsStat::Delay);
}

// RFC 8881 18.36.4
#[test]
fn who_begins_a_session_gets_the_room_of_who_is_gone() {
    let world = NfsTestServer::with_memory(ONE_SLOT);
    let (mut one, mut two) = (world.connect(), world.connect());
    Client::before_reclaim(&mut one, b"gone", 1);
    assert_eq!(begin(&mut two, b"client", CHANNEL), NfsStat::NoSpc);
    pass(&mut [&mut two]);
    assert_eq!(begin(&mut two, b"client", CHANNEL), NfsStat::Ok);
}

// RFC 8881 18.36.4
#[test]
fn a_session_that_was_begun_is_told_again_when_there_is_no_room_for_another() {
    let world = NfsTestServer::with_memory(ONE_SLOT);
    let mut wire = world.connect();
    let introduced = wire.call(1, &[introduce(b"client")]).ok();
    let Res::ExchangeId(Ok(known)) = introduced.last() else { panic!("{introduced:?}") };
    let begun = wire.call(1, &[begin_session(known.clientid, known.sequenceid, CHANNEL)]).ok();
    assert_eq!(wire.call(1, &[begin_session(known.clientid, known.sequenceid, CHANNEL)]), begun);
}

// RFC 8881 18.35.4
#[test]
fn who_comes_when_there_are_too_many_clients_takes_the_place_of_who_is_gone() {
    let world = NfsTestServer::new();
    let mut wires = wires_of_many(&world);
    for number in 0..MAX_CLIENTS {
        assert_eq!(begin(&mut wires[number / OF_ADDRESS], &number.to_be_bytes(), SMALL), NfsStat::Ok);
    }
    // The address has as many clients as any other.
    let wire = &mut wires[0];
    assert_eq!(begin(wire, b"one too many", SMALL), NfsStat::Delay);
    pass(&mut [wire]);
    assert_eq!(begin(wire, b"one too many", SMALL), NfsStat::Ok);
}

#[test]
fn who_comes_when_there_are_too_many_takes_the_place_of_an_idle_one_of_the_address_that_has_most() {
    let world = NfsTestServer::new();
    let mut wires = wires_of_many(&world);
    let mut opener = Client::new(&mut wires[0], b"with a file", 1);
    opener.create(&mut wires[0], b"file");
    let mut oldest = Client::new(&mut wires[0], b"oldest", 1);
    let now = wires[0].now.plus(Duration::from_millis(1));
    for number in 2..MAX_CLIENTS {
        let wire = &mut wires[(number - 1) / OF_ADDRESS];
        wire.now = now;
        assert_eq!(begin(wire, &number.to_be_bytes(), SMALL), NfsStat::Ok);
    }
    let mut newcomer = world.connect_from("198.51.100.1:1000");
    newcomer.now = now;
    assert_eq!(begin(&mut newcomer, b"one too many", SMALL), NfsStat::Ok);
    assert_eq!(world.server.clients.all().len(), MAX_CLIENTS);
    assert_eq!(oldest.run(&mut wires[0], &[]).status(), NfsStat::BadSession, "it introduces itself again");
    opener.run(&mut wires[0], &[]).ok();
}

// RFC 8881 18.35.4
#[test]
fn who_only_introduces_itself_again_and_again_keeps_nobody_out() {
    let world = NfsTestServer::new();
    let mut wires = wires_of_many(&world);
    let (mut known, mut now) = (Vec::new(), wires[0].now);
    for number in 0..MAX_CLIENTS {
        let wire = &mut wires[number / OF_ADDRESS];
        wire.now = now;
        let introduced = wire.call(1, &[introduce(&number.to_be_bytes())]).ok();
        let Res::ExchangeId(Ok(client)) = introduced.last() else { panic!("{introduced:?}") };
        known.push((client.clientid, client.sequenceid));
        now = now.plus(Duration::from_millis(1));
    }
    let mut wire = world.connect_from("198.51.100.1:1000");
    wire.now = now;
    assert_eq!(begin(&mut wire, b"one too many", SMALL), NfsStat::Ok);
    let mut begins =
        |(clientid, sequence)| wire.call(1, &[begin_session(clientid, sequence, SMALL)]).status();
    assert_eq!(begins(known[0]), NfsStat::StaleClientId, "it introduces itself again");
    assert_eq!(begins(known[1]), NfsStat::Ok);
}

#[test]
fn one_address_leaves_room_for_the_clients_of_others() {
    let world = NfsTestServer::new();
    let (mut wire, mut other) = (world.connect(), world.connect_from("198.51.100.1:1000"));
    let mut opener = Client::new(&mut wire, b"with a file", 1);
    opener.create(&mut wire, b"file");
    for number in 0..OF_ADDRESS {
        assert_eq!(begin(&mut wire, &number.to_be_bytes(), SMALL), NfsStat::Ok);
    }
    assert_eq!(begin(&mut wire, b"one too many", SMALL), NfsStat::Delay);
    assert_eq!(begin(&mut other, b"of another address", SMALL), NfsStat::Ok);
    // Behind one address there may be many users. A silent client makes room, and comes back when it has
    // something to do.
    wire.now = wire.now.plus(Duration::from_secs(5));
    for number in OF_ADDRESS..2 * OF_ADDRESS {
        assert_eq!(begin(&mut wire, &number.to_be_bytes(), SMALL), NfsStat::Ok);
    }
    assert_eq!(begin(&mut wire, b"one too many", SMALL), NfsStat::Delay);
    assert_eq!(world.server.clients.all().len(), OF_ADDRESS + 2);
    opener.run(&mut wire, &[]).ok();
}

// After a restart, whole racks come back behind one address. Each client has nothing open for a moment.
#[test]
fn clients_that_have_had_something_open_are_bound_by_a_quarter_of_all() {
    let world = NfsTestServer::with_memory(1 << 30);
    let (mut wire, mut other) = (world.connect(), world.connect_from("198.51.100.1:1000"));
    let mut clients = Vec::new();
    for number in 0..MAX_CLIENTS_PER_ADDRESS {
        let name = number.to_string();
        let mut client = Client::new(&mut wire, name.as_bytes(), 1);
        let (handle, open) = client.create(&mut wire, name.as_bytes());
        client.on(&mut wire, &handle, &[closing(open)]).ok();
        clients.push(client);
    }
    assert_eq!(begin(&mut wire, b"one too many", SMALL), NfsStat::Delay);
    assert_eq!(begin(&mut other, b"of another address", SMALL), NfsStat::Ok);
    let (first, rest) = clients.split_first_mut().expect("clients");
    wire.now = wire.now.plus(Duration::from_secs(5));
    for client in rest {
        client.run(&mut wire, &[]).ok();
    }
    assert_eq!(begin(&mut wire, b"one too many", SMALL), NfsStat::Ok, "the only silent one makes room");
    assert_eq!(first.run(&mut wire, &[]).status(), NfsStat::BadSession);
}

#[test]
fn a_client_that_has_nothing_open_is_not_kept_for_long() {
    let world = NfsTestServer::new();
    let (mut one, mut two) = (world.connect(), world.connect());
    Client::new(&mut one, b"idle", 1);
    let mut opener = Client::new(&mut two, b"with a file", 1);
    opener.create(&mut two, b"file");
    world.server.tick(one.now.plus(Duration::from_secs(2 * u64::from(LEASE_S))));
    assert_eq!(world.server.clients.all().len(), 2);
    world.server.tick(one.now.plus(Duration::from_secs(2 * u64::from(LEASE_S) + 1)));
    assert_eq!(
        world.server.clients.all().iter().map(|client| client.id).collect::<Vec<_>>(),
        [opener.clientid]
    );
}
