//! State that an administrator revokes (RFC 8881 8.5). Its client is told with each request until it has
//! freed it.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use nfs::state::client_records::RecordStorage;
use nfs::state::record::ClientRecord;
use nfs_wire::NfsStat;
use nfs_wire::op::lock::{Args as LockArgs, Locker, OpenToLockOwner, Res as LockRes, UnlockArgs};
use nfs_wire::op::open::OpenHow;
use nfs_wire::op::sequence::StatusFlags;
use nfs_wire::op::{Args, Res, stateid};
use nfs_wire::types::{Identity, LockType, StateId, StateOwner};
use nfs_wire::xdr::List;
use testkit::nfs::*;
use volume::journal::{Journal, JournalPosition, MemoryJournal, MemoryMark};

fn locking(open_stateid: StateId, name: &'static [u8]) -> Args<'static> {
    let lock_owner = StateOwner { clientid: 0, owner: Identity(name) };
    let locker = Locker::New(OpenToLockOwner { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner });
    Args::Lock(LockArgs { locktype: LockType::Write, reclaim: false, offset: 0, length: u64::MAX, locker })
}

fn locked(answer: &ReceivedCompound) -> StateId {
    match answer.last() {
        Res::Lock(LockRes::Ok(taken)) => taken.lock_stateid,
        other => panic!("{other:?}"),
    }
}

fn free(stateid: StateId) -> Args<'static> {
    Args::FreeStateId(stateid::FreeArgs { stateid })
}

/// Whether SEQUENCE says that something was revoked.
fn is_told(client: &mut Client, wire: &mut Wire) -> bool {
    let answer = client.run(wire, &[Args::PutRootFh]).ok();
    let Res::Sequence(Ok(result)) = answer.results()[0] else { panic!("{answer:?}") };
    result.status_flags.contains(StatusFlags::ADMIN_STATE_REVOKED)
}

// RFC 8881 8.5, 15.1.5.1, 18.38.3, 18.46.3, 18.48.3
#[test]
fn a_revoked_open_is_closed_at_once_and_its_client_is_told_until_it_has_freed_it() {
    let mut world = NfsTestServer::with_stable_storage();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (file, open) = client.create(&mut wire, b"file");
    let lock = locked(&client.on(&mut wire, &file, &[locking(open, b"owner")]).ok());
    let revoke = |other| world.server.revoke(client.clientid, &other, world.now);
    let revoked = revoke(open.other).expect("the open");
    assert_eq!((revoked.opens, revoked.lock_owners, revoked.delegations), (1, 1, 0));
    assert_eq!((revoke(open.other), revoke(lock.other), revoke([9; 12])), (None, None, None));
    assert!(world.engine.held_ranges().is_empty() && world.engine.open_count() == 0);
    for id in [open, lock] {
        let write = client.on(&mut wire, &file, &[writing(id, 0, b"x")]);
        assert_eq!(write.status(), NfsStat::AdminRevoked);
    }
    assert_eq!(client.on(&mut wire, &file, &[closing(open)]).status(), NfsStat::AdminRevoked);
    let ids = [open, lock];
    let test = Args::TestStateId(stateid::TestArgs { stateids: List::of(&ids) });
    let answer = client.run(&mut wire, &[test]).ok();
    let Res::TestStateId(Ok(tested)) = answer.last() else { panic!("{answer:?}") };
    assert!(tested.status_codes.iter().all(|code| code == NfsStat::AdminRevoked));
    // The same owner opens the file anew meanwhile.
    let again = [Args::PutRootFh, lookup(EXPORT), opening(OpenHow::NoCreate, b"file")];
    let answer = client.run(&mut wire, &again).ok();
    let Res::Open(Ok(opened)) = answer.last() else { panic!("{answer:?}") };
    let opened = opened.stateid;
    client.on(&mut wire, &file, &[writing(opened, 0, b"x")]).ok();
    for id in [lock, open] {
        assert!(is_told(&mut client, &mut wire));
        client.run(&mut wire, &[free(id)]).ok();
        assert_eq!(client.run(&mut wire, &[free(id)]).status(), NfsStat::BadStateId);
    }
    assert!(!is_told(&mut client, &mut wire));
    client.on(&mut wire, &file, &[closing(opened)]).ok();
    assert_eq!(world.server.state_count(), 0);
    world.pass(1);
}

#[test]
fn revoked_locks_are_free_for_others_and_their_open_goes_on() {
    let world = NfsTestServer::new();
    let (mut wire, mut second) = (world.connect(), world.connect());
    let mut client = Client::new(&mut wire, b"client", 1);
    let mut other = Client::new(&mut second, b"other", 1);
    let (file, open) = client.create(&mut wire, b"file");
    let lock = locked(&client.on(&mut wire, &file, &[locking(open, b"owner")]).ok());
    let opening = [Args::PutRootFh, lookup(EXPORT), opening(OpenHow::NoCreate, b"file")];
    let answer = other.run(&mut second, &opening).ok();
    let Res::Open(Ok(opened)) = answer.last() else { panic!("{answer:?}") };
    let theirs = opened.stateid;
    assert_eq!(other.on(&mut second, &file, &[locking(theirs, b"x")]).status(), NfsStat::Denied);
    let revoked = world.server.revoke(client.clientid, &lock.other, world.now).expect("the locks");
    assert_eq!((revoked.opens, revoked.lock_owners), (0, 1));
    locked(&other.on(&mut second, &file, &[locking(theirs, b"x")]).ok());
    client.on(&mut wire, &file, &[writing(open, 0, b"x")]).ok();
    assert_eq!(client.on(&mut wire, &file, &[locking(open, b"owner")]).status(), NfsStat::Denied);
    assert!(is_told(&mut client, &mut wire));
    client.run(&mut wire, &[free(lock)]).ok();
    assert!(!is_told(&mut client, &mut wire));
}

// RFC 8881 8.4.3
#[test]
fn who_has_not_acknowledged_a_revocation_reclaims_nothing_after_a_restart() {
    for acknowledges in [false, true] {
        let mut world = NfsTestServer::with_stable_storage();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 1);
        let (_, open) = client.create(&mut wire, b"file");
        client.create(&mut wire, b"other");
        world.server.revoke(client.clientid, &open.other, world.now).expect("the open");
        if acknowledges {
            client.run(&mut wire, &[free(open)]).ok();
        }
        world.server.tick(world.now);
        world.pass(1);
        let after = world.restarted();
        let (clients, _) = after.server.grace.counts();
        assert_eq!(clients, usize::from(acknowledges));
    }
}

// RFC 8881 8.5
#[test]
fn a_revoked_state_keeps_no_file_open() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (file, open) = client.create(&mut wire, b"file");
    let lock = locked(&client.on(&mut wire, &file, &[locking(open, b"owner")]).ok());
    let held: Vec<_> = world.server.all_states().iter().map(|s| Arc::downgrade(&s.holding().open)).collect();
    world.server.revoke(client.clientid, &open.other, world.now).expect("the open");
    assert_eq!((held.len(), world.server.state_count()), (2, 0));
    assert!(held.iter().all(|open| open.upgrade().is_none()), "the engine's open is still there");
    // An export that is gone takes the client's revoked states along.
    assert!(is_told(&mut client, &mut wire));
    assert_eq!(world.server.end_export("share", world.now), 0);
    assert!(!is_told(&mut client, &mut wire));
    for id in [open, lock] {
        assert_eq!(client.run(&mut wire, &[free(id)]).status(), NfsStat::BadStateId);
    }
}

// RFC 8881 8.4.2.1
#[test]
fn a_client_that_has_ended_is_not_recorded_again() {
    let world = NfsTestServer::with_stable_storage();
    let mut wire = world.connect();
    let client = Client::new(&mut wire, b"client", 1);
    let client = world.server.clients.get(client.clientid).expect("the client");
    assert!(world.server.clients.remove(&client));
    world.server.end_client(&client, world.now);
    world.server.record_client(&client);
    assert_eq!(world.restarted().server.grace.counts().0, 0);
}

/// A journal that shows the server to a test with each commit.
struct WatchedJournal<F: Fn() + Send + Sync> {
    records: MemoryJournal,
    on_commit: F,
}

impl<F: Fn() + Send + Sync> Journal for WatchedJournal<F> {
    fn append(&self, record: &[u8]) -> volume::Result<JournalPosition> {
        self.records.append(record)
    }

    fn commit(&self, position: JournalPosition) -> volume::Result<()> {
        (self.on_commit)();
        self.records.commit(position)
    }

    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> volume::Result<()> {
        self.records.replace(records)
    }

    fn size(&self) -> u64 {
        self.records.size()
    }
}

// RFC 8881 8.4.3
#[test]
fn a_client_is_struck_off_before_its_open_is_closed_and_others_do_not_wait_meanwhile() {
    let world = NfsTestServer::new();
    let (server, engine) = (Arc::clone(&world.server), Arc::clone(&world.engine));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let on_commit = move || {
        let Some(state) = server.all_states().pop() else { return };
        let (sender, receiver) = mpsc::channel();
        let server = Arc::clone(&server);
        std::thread::spawn(move || {
            let client = server.clients.get(state.client).expect("the client");
            drop(server.lock_states(&client, &state.export, state.node));
            let _ = sender.send(());
        });
        let is_free = receiver.recv_timeout(Duration::from_secs(5)).is_ok();
        noted.lock().expect("nobody panicked").push((engine.open_count(), is_free));
    };
    let journal = Arc::new(WatchedJournal { records: MemoryJournal::default(), on_commit });
    let storage = RecordStorage { journal, mark: Arc::new(MemoryMark::default()) };
    world.server.keep_clients(storage, &[], b"boot", world.now).expect("a journal");
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (_, open) = client.create(&mut wire, b"file");
    seen.lock().expect("nobody panicked").clear();
    world.server.revoke(client.clientid, &open.other, world.now).expect("the open");
    assert_eq!(*seen.lock().expect("nobody panicked"), [(1, true)]);
    assert_eq!(world.engine.open_count(), 0);
}

/// The rounds of a race.
const ROUNDS: usize = 200;

/// In each round a client opens a file, and its open is revoked while it sends `request`. `judge` returns the
/// locks that the client got. The client frees all states that it knows, and has nothing left to free then.
fn while_revoked(
    request: impl Fn(&mut Client, &mut Wire, &[u8], StateId, Option<StateId>) -> ReceivedCompound + Sync,
    locks: bool,
    judge: impl Fn(&ReceivedCompound) -> Option<StateId>,
    may_be_freed: &[NfsStat],
) {
    let world = NfsTestServer::with_stable_storage();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (file, open) = client.create(&mut wire, b"file");
    client.on(&mut wire, &file, &[closing(open)]).ok();
    let start = Barrier::new(2);
    for _ in 0..ROUNDS {
        let again = [Args::PutRootFh, lookup(EXPORT), opening(OpenHow::NoCreate, b"file")];
        let answer = client.run(&mut wire, &again).ok();
        let Res::Open(Ok(opened)) = answer.last() else { panic!("{answer:?}") };
        let open = opened.stateid;
        let lock = locks.then(|| {
            let lock = locked(&client.on(&mut wire, &file, &[locking(open, b"owner")]).ok());
            let unlock = UnlockArgs {
                locktype: LockType::Write,
                seqid: 0,
                lock_stateid: lock,
                offset: 0,
                length: u64::MAX,
            };
            client.on(&mut wire, &file, &[Args::LockU(unlock)]).ok();
            StateId { seqid: 0, ..lock }
        });
        let clientid = client.clientid;
        let answer = std::thread::scope(|scope| {
            let revoking = scope.spawn(|| {
                start.wait();
                world.server.revoke(clientid, &open.other, world.now).expect("the open");
            });
            start.wait();
            let answer = request(&mut client, &mut wire, &file, open, lock);
            world.server.tick(world.now);
            revoking.join().expect("the revocation");
            answer
        });
        let told = judge(&answer);
        for id in lock.into_iter().chain(told) {
            let status = client.run(&mut wire, &[free(id)]).status();
            assert!(status.is_ok() || may_be_freed.contains(&status), "{status:?}");
        }
        assert!(is_told(&mut client, &mut wire), "the open is still to be freed");
        world.server.tick(world.now);
        let last = world.stable_storage().client_records.records().pop().expect("a record");
        assert!(!matches!(ClientRecord::decode(&last), Ok(ClientRecord::Confirmed(_))), "it is recorded");
        client.run(&mut wire, &[free(open)]).ok();
        assert!(!is_told(&mut client, &mut wire), "it is told of a state that it cannot know");
        assert_eq!((world.server.state_count(), world.engine.open_count()), (0, 0));
        world.server.tick(world.now);
    }
    assert_eq!(world.restarted().server.grace.counts().0, 1, "it has acknowledged all revocations");
}

// RFC 8881 8.5, 18.46.3
#[test]
fn a_lock_that_meets_the_revocation_of_its_open_leaves_no_state_that_nobody_knows() {
    let request = |client: &mut Client, wire: &mut Wire, file: &[u8], open, _| {
        client.on(wire, file, &[locking(open, b"owner")])
    };
    let judge = |answer: &ReceivedCompound| match answer.status() {
        NfsStat::Ok => Some(locked(answer)),
        status => {
            assert_eq!(status, NfsStat::AdminRevoked);
            None
        }
    };
    while_revoked(request, false, judge, &[]);
}

// RFC 8881 18.38.3
#[test]
fn a_lock_state_that_is_freed_while_it_is_revoked_is_gone_once() {
    let request = |client: &mut Client, wire: &mut Wire, _: &[u8], _, lock: Option<StateId>| {
        client.run(wire, &[free(lock.expect("the locks"))]).ok()
    };
    while_revoked(request, true, |_| None, &[NfsStat::BadStateId]);
}

// RFC 8881 8.5
#[test]
fn a_write_whose_open_is_revoked_meanwhile_is_told_so() {
    let request = |client: &mut Client, wire: &mut Wire, file: &[u8], open, _| {
        let mut last = client.on(wire, file, &[writing(open, 0, b"x")]);
        while last.status().is_ok() {
            last = client.on(wire, file, &[writing(open, 0, b"x")]);
        }
        last
    };
    let judge = |answer: &ReceivedCompound| {
        assert_eq!(answer.status(), NfsStat::AdminRevoked);
        None
    };
    while_revoked(request, false, judge, &[]);
}
