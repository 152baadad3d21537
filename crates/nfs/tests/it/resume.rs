//! Clients that go on after a restart with their client ID and their stateids, and those that may not.

use nfs_wire::NfsStat;
use nfs_wire::op::open::{self, DelegationType, ShareAccess, ShareDeny};
use nfs_wire::op::sequence::StatusFlags;
use nfs_wire::op::{Args, Res, destroy, lock, stateid};
use nfs_wire::types::*;
use nfs_wire::xdr::List;
use testkit::nfs::*;
use volume::faulty::VolumeCall;
use volume::journal::Journal;
use volume::{Failure, Volume};

use crate::delegation_scenario::{DelegationScenario, resume};
use crate::grace::{BOTH, COMPLETE, NONE, READ, anew, claiming, flags, locking, opened};

/// A server with one client that has a file open and its first ten bytes locked.
struct ResumedClient {
    world: NfsTestServer,
    wire: Wire,
    client: Client,
    handle: Vec<u8>,
    open: StateId,
    locks: StateId,
}

impl ResumedClient {
    fn new() -> ResumedClient {
        let world = NfsTestServer::with_stable_storage();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 1);
        let (handle, open) = client.create(&mut wire, b"file");
        let locks = locked(&client.on(&mut wire, &handle, &[locking(open, b"locker", (0, 10), false)]).ok());
        ResumedClient { world, wire, client, handle, open, locks }
    }

    /// Restarts the server. The client is not back yet.
    fn restart(&mut self) {
        self.world = self.world.restarted();
        self.wire = self.world.connect();
    }

    /// Tries to create a session with the old client ID.
    fn come_back(&mut self) -> NfsStat {
        let begun = self.wire.call(1, &[begin_session(self.client.clientid, 77, CHANNEL)]);
        if let Res::CreateSession(Ok(session)) = begun.last() {
            assert_eq!(session.sequence, 77);
            self.client.session = session.sessionid;
            self.client.sequences.fill(0);
        }
        begun.status()
    }

    fn on(&mut self, operation: Args<'_>) -> ReceivedCompound {
        self.client.on(&mut self.wire, &self.handle, &[operation])
    }
}

fn locked(answer: &ReceivedCompound) -> StateId {
    match answer.last() {
        Res::Lock(lock::Res::Ok(done)) => done.lock_stateid,
        other => panic!("{other:?}"),
    }
}

fn unlocking(lock_stateid: StateId, (offset, length): (u64, u64)) -> Args<'static> {
    Args::LockU(lock::UnlockArgs { locktype: LockType::Write, seqid: 0, lock_stateid, offset, length })
}

fn unlocked(answer: &ReceivedCompound) -> StateId {
    match answer.last() {
        Res::LockU(Ok(done)) => done.lock_stateid,
        other => panic!("{other:?}"),
    }
}

/// LOCK by an owner that has a stateid.
fn locking_more(lock_stateid: StateId, (offset, length): (u64, u64)) -> Args<'static> {
    let locker = lock::Locker::Existing(lock::ExistLockOwner { lock_stateid, lock_seqid: 0 });
    Args::Lock(lock::Args { locktype: LockType::Write, reclaim: false, offset, length, locker })
}

/// OPEN by handle, by the owner of the file's open.
fn opening_again(access: ShareAccess) -> Args<'static> {
    let Args::Open(args) = anew(access, NONE) else { unreachable!() };
    let owner = StateOwner { clientid: 0, owner: Identity(b"owner") };
    Args::Open(open::Args { owner, ..args })
}

fn downgrading(open_stateid: StateId, share_access: ShareAccess) -> Args<'static> {
    Args::OpenDowngrade(open::DowngradeArgs { open_stateid, seqid: 0, share_access, share_deny: NONE })
}

fn anonymous(id: StateId) -> StateId {
    StateId { seqid: 0, ..id }
}

// RFC 8881 8.4.2, 18.36.3
#[test]
fn a_client_goes_on_with_its_client_id_its_opens_and_its_locks() {
    let mut scene = ResumedClient::new();
    scene.restart();
    assert_eq!(scene.client.run(&mut scene.wire, &[]).status(), NfsStat::BadSession);
    assert_eq!(scene.come_back(), NfsStat::Ok);
    assert!(!scene.world.server.grace.is_on(), "nobody else is awaited");
    let answer = scene.client.run(&mut scene.wire, &[]).ok();
    assert!(!flags(&answer).contains(StatusFlags::RESTART_RECLAIM_NEEDED));
    let complete = scene.client.run(&mut scene.wire, &[COMPLETE]);
    assert_eq!(complete.status(), NfsStat::CompleteAlready);
    scene.on(writing(anonymous(scene.open), 0, b"on")).ok();
    scene.on(writing(scene.open, 2, b"on")).ok();
    scene.on(writing(anonymous(scene.locks), 4, b"on")).ok();

    let mut second = scene.world.connect();
    let mut other = Client::new(&mut second, b"other", 1);
    let theirs = opened(&other.on(&mut second, &scene.handle, &[anew(BOTH, NONE)]).ok());
    let wants = |range| locking(theirs, b"locker", range, false);
    let held = other.on(&mut second, &scene.handle, &[wants((9, 1))]);
    let Res::Lock(lock::Res::Denied(denied)) = held.last() else { panic!("{held:?}") };
    assert_eq!((denied.owner.clientid, denied.owner.owner.0), (scene.client.clientid, &b"locker"[..]));
    other.on(&mut second, &scene.handle, &[wants((10, 1))]).ok();
    let (open, locks) = (scene.open, scene.locks);
    scene.on(unlocking(locks, (0, 10))).ok();
    other.on(&mut second, &scene.handle, &[wants((9, 1))]).ok();
    scene.on(closing(open)).ok();
    assert_eq!(scene.on(writing(anonymous(open), 0, b"on")).status(), NfsStat::BadStateId);
    let deny = other.on(&mut second, &scene.handle, &[anew(READ, ShareDeny::READ)]);
    assert_eq!(deny.status(), NfsStat::Ok, "nobody else has it open");
}

// RFC 8881 18.36.4
#[test]
fn a_repeated_create_session_gets_the_same_session() {
    let mut scene = ResumedClient::new();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    let session = scene.client.session;
    assert_eq!(scene.come_back(), NfsStat::Ok);
    assert_eq!(scene.client.session, session);
    let skipped = scene.wire.call(1, &[begin_session(scene.client.clientid, 79, CHANNEL)]);
    assert_eq!(skipped.status(), NfsStat::SeqMisordered);
    scene.wire.call(1, &[begin_session(scene.client.clientid, 78, CHANNEL)]).ok();
}

// RFC 8881 8.2.2
#[test]
fn seqids_go_on_where_they_were() {
    let mut scene = ResumedClient::new();
    // Neither changes anything but the seqid.
    let open = opened(&scene.on(opening_again(READ)).ok());
    let locks = locked(&scene.on(locking_more(scene.locks, (5, 10))).ok());
    let locks = locked(&scene.on(locking_more(locks, (7, 10))).ok());
    assert_eq!((open.seqid, open.other, locks.seqid), (2, scene.open.other, 3));
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    assert_eq!(scene.on(writing(scene.open, 0, b"on")).status(), NfsStat::OldStateId);
    scene.on(writing(open, 0, b"on")).ok();
    assert_eq!(opened(&scene.on(opening_again(READ)).ok()), StateId { seqid: 3, ..open });
    let locks = locked(&scene.on(locking_more(locks, (8, 10))).ok());
    assert_eq!((locks.seqid, locks.other), (4, scene.locks.other), "as the client says");
    assert_eq!(scene.on(unlocking(scene.locks, (0, 1))).status(), NfsStat::OldStateId);
    assert_eq!(unlocked(&scene.on(unlocking(locks, (0, 20))).ok()).seqid, 5);
}

// RFC 8881 18.18.3
#[test]
fn an_open_that_was_upgraded_is_downgraded_after_a_restart() {
    let world = NfsTestServer::with_stable_storage();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (handle, made) = client.create(&mut wire, b"file");
    client.on(&mut wire, &handle, &[closing(made)]).ok();
    let first = opened(&client.on(&mut wire, &handle, &[opening_again(READ)]).ok());
    let open = opened(&client.on(&mut wire, &handle, &[opening_again(BOTH)]).ok());
    assert_eq!(open, StateId { seqid: 2, ..first });
    let locks = first;
    let mut scene = ResumedClient { world, wire, client, handle, open, locks };
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    let narrowed = scene.on(downgrading(open, READ)).ok();
    let Res::OpenDowngrade(Ok(narrowed)) = narrowed.last() else { panic!("{narrowed:?}") };
    let narrowed = narrowed.open_stateid;
    assert_eq!(narrowed, StateId { seqid: 3, ..first });
    assert_eq!(scene.on(writing(narrowed, 0, b"on")).status(), NfsStat::OpenMode);
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    assert_eq!(scene.on(writing(narrowed, 0, b"on")).status(), NfsStat::OpenMode);
    scene.on(reading(narrowed, 0, 1)).ok();
    let mut second = scene.world.connect();
    let mut other = Client::new(&mut second, b"other", 1);
    other.on(&mut second, &scene.handle, &[anew(READ, ShareDeny::WRITE)]).ok();
}

// RFC 8881 9.1, 18.38
#[test]
fn every_lock_owner_has_its_stateid_and_its_ranges() {
    let mut scene = ResumedClient::new();
    let open = scene.open;
    let take =
        |scene: &mut ResumedClient, owner, range| locked(&scene.on(locking(open, owner, range, false)).ok());
    let second = take(&mut scene, b"second", (20, 10));
    let third = take(&mut scene, b"third", (40, 10));
    let third = unlocked(&scene.on(unlocking(third, (40, 10))).ok());
    let freed = take(&mut scene, b"freed", (60, 10));
    scene.on(unlocking(freed, (60, 10))).ok();
    let free = |stateid| Args::FreeStateId(stateid::FreeArgs { stateid });
    scene.on(free(anonymous(freed))).ok();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    let ids = [scene.locks, second, third, freed, open].map(anonymous);
    let test = Args::TestStateId(stateid::TestArgs { stateids: List::of(&ids) });
    let tested = scene.client.run(&mut scene.wire, &[test]).ok();
    let Res::TestStateId(Ok(tested)) = tested.last() else { panic!("{tested:?}") };
    let codes: Vec<_> = tested.status_codes.iter().collect();
    let (ok, bad) = (NfsStat::Ok, NfsStat::BadStateId);
    assert_eq!(codes, [ok, ok, ok, bad, ok]);
    assert_eq!(scene.on(free(anonymous(second))).status(), NfsStat::LocksHeld);
    scene.on(free(anonymous(third))).ok();
    let denied = scene.on(locking(open, b"freed", (25, 1), false));
    assert_eq!(denied.status(), NfsStat::Denied);
    scene.on(unlocking(second, (20, 10))).ok();
    scene.on(locking(open, b"freed", (25, 1), false)).ok();
}

// RFC 8881 10.2.1, 10.4.5
#[test]
fn a_delegation_is_held_and_recalled_under_its_stateid() {
    let mut scene = DelegationScenario::new();
    let deleg_stateid = scene.open_wanting().1.unwrap();
    let mut scene = scene.restart();
    let reads = [reading(anonymous(deleg_stateid), 0, 1)];
    scene.client.on(&mut scene.first, &scene.handle, &reads).ok();
    assert_eq!(scene.open_by_maker(), NfsStat::Delay);
    let calls = scene.first.called();
    assert_eq!(calls.len(), 1, "recalled");
    assert!(calls[0].windows(12).any(|part| part == deleg_stateid.other), "under its stateid");
    let back = nfs_wire::op::delegation::ReturnArgs { deleg_stateid };
    scene.client.on(&mut scene.first, &scene.handle, &[Args::DelegReturn(back)]).ok();
    assert_eq!(scene.open_by_maker(), NfsStat::Ok);
}

// RFC 8881 10.2.1
#[test]
fn a_delegation_that_was_taken_away_is_revoked_after_a_restart() {
    let mut scene = DelegationScenario::with_a_delegation();
    scene.lose_delegation();
    let mut scene = scene.restart();
    // Any request for the file restores it.
    scene.client.on(&mut scene.first, &scene.handle, &[anew(READ, NONE)]);
    let answer = scene.client.run(&mut scene.first, &[]).ok();
    assert!(flags(&answer).contains(StatusFlags::RECALLABLE_STATE_REVOKED));
}

// RFC 8881 2.10.8, 18.36.4
#[test]
fn another_principal_does_not_get_the_client_id() {
    let mut scene = ResumedClient::new();
    scene.restart();
    scene.wire.uid = 77;
    assert_eq!(scene.come_back(), NfsStat::ClidInUse);
    scene.wire.uid = 0;
    assert_eq!(scene.come_back(), NfsStat::Ok);
    scene.on(writing(scene.open, 0, b"on")).ok();
}

// RFC 8881 8.4.2.1, 18.35.4
#[test]
fn a_client_that_introduces_itself_reclaims_and_resumes_after_the_next_restart() {
    let mut scene = ResumedClient::new();
    let before = scene.client.clientid;
    scene.restart();
    scene.client = Client::before_reclaim(&mut scene.wire, b"client", 1);
    assert_ne!(scene.client.clientid, before);
    let stale = scene.wire.call(1, &[begin_session(before, 2, CHANNEL)]);
    assert_eq!(stale.status(), NfsStat::StaleClientId);
    assert_eq!(scene.on(writing(anonymous(scene.open), 0, b"x")).status(), NfsStat::BadStateId);
    let open = opened(&scene.on(claiming(BOTH, NONE, DelegationType::None)).ok());
    let locks = locked(&scene.on(locking(open, b"locker", (0, 10), true)).ok());
    // As long as it reclaims, it has something to reclaim again.
    let early = scene.world.restarted();
    let stale = early.connect().call(1, &[begin_session(scene.client.clientid, 3, CHANNEL)]);
    assert_eq!(stale.status(), NfsStat::StaleClientId);
    scene.restart();
    scene.client = Client::before_reclaim(&mut scene.wire, b"client", 1);
    let open = opened(&scene.on(claiming(BOTH, NONE, DelegationType::None)).ok());
    assert_ne!(open.other, locks.other);
    let locks = locked(&scene.on(locking(open, b"locker", (0, 10), true)).ok());
    scene.client.run(&mut scene.wire, &[COMPLETE]).ok();
    scene.world.pass(1);
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    scene.on(writing(open, 0, b"on")).ok();
    scene.on(unlocking(locks, (0, 10))).ok();
}

// RFC 8881 8.4.2
#[test]
fn a_second_restart_before_or_after_the_client_came_loses_nothing() {
    let mut scene = ResumedClient::new();
    scene.restart();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    scene.on(writing(scene.open, 0, b"on")).ok();
    let open = opened(&scene.on(opening_again(READ)).ok());
    // Of the two files only this one is restored before the next restart.
    let (other_handle, other_open) = scene.client.create(&mut scene.wire, b"other file");
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    scene.client.on(&mut scene.wire, &other_handle, &[writing(other_open, 0, b"on")]).ok();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    scene.on(writing(open, 0, b"on")).ok();
    scene.on(unlocking(scene.locks, (0, 10))).ok();
    scene.client.on(&mut scene.wire, &other_handle, &[closing(other_open)]).ok();
    scene.on(closing(open)).ok();
}

// RFC 8881 8.4.2.1
#[test]
fn a_client_whose_records_may_lack_something_reclaims() {
    let must_reclaim = |mut scene: ResumedClient| {
        assert_eq!(scene.come_back(), NfsStat::StaleClientId);
        scene.client = Client::before_reclaim(&mut scene.wire, b"client", 1);
        scene.on(claiming(BOTH, NONE, DelegationType::None)).ok();
    };
    let mut scene = ResumedClient::new();
    scene.world = scene.world.on_a_new_host();
    scene.wire = scene.world.connect();
    must_reclaim(scene);

    let mut scene = ResumedClient::new();
    scene.restart();
    scene.world.server.mark_records_incomplete();
    must_reclaim(scene);

    // Of an earlier version.
    let mut scene = ResumedClient::new();
    let clients = &scene.world.stable_storage().client_records;
    let earlier = clients.records().into_iter().map(|record| {
        use nfs::state::record::{ClientRecord, RecordedIdentity};
        match ClientRecord::decode(&record).unwrap() {
            ClientRecord::Confirmed(known) => {
                ClientRecord::Confirmed(RecordedIdentity { id: 0, ..known }).encode()
            }
            ClientRecord::Head { boot, .. } => ClientRecord::Head { version: 1, boot }.encode(),
            other => other.encode(),
        }
    });
    let earlier: Vec<_> = earlier.collect();
    clients.replace(&mut earlier.into_iter()).unwrap();
    scene.restart();
    must_reclaim(scene);

    // More lock-owners than a note has room for, and longer ones.
    for (count, bytes) in [(64, 2), (62, 1024)] {
        let mut scene = ResumedClient::new();
        for owner in 0..count {
            let name: &'static [u8] = vec![owner; bytes].leak();
            scene.on(locking(scene.open, name, (100 + u64::from(owner), 1), false)).ok();
        }
        scene.restart();
        must_reclaim(scene);
    }
}

// The restart that finds a loss may itself be followed by another one.
#[test]
fn a_client_whose_records_lacked_something_reclaims_after_the_next_restart_too() {
    let has_no_id = |scene: &mut ResumedClient| {
        scene.restart();
        assert_eq!(scene.come_back(), NfsStat::StaleClientId);
    };
    let mut scene = ResumedClient::new();
    scene.world = scene.world.on_a_new_host();
    has_no_id(&mut scene);

    let mut scene = ResumedClient::new();
    scene.restart();
    scene.world.server.mark_records_incomplete();
    has_no_id(&mut scene);
}

// RFC 8881 8.4.2.1
#[test]
fn a_client_that_does_not_come_loses_its_state_with_its_lease() {
    let mut scene = ResumedClient::new();
    scene.restart();
    let mut second = scene.world.connect();
    let mut other = Client::new(&mut second, b"other", 1);
    assert_eq!(other.on(&mut second, &scene.handle, &[anew(READ, NONE)]).status(), NfsStat::Grace);
    scene.world.pass(u64::from(LEASE_S) + 1);
    (scene.wire.now, second.now) = (scene.world.now, scene.world.now);
    assert_eq!(scene.come_back(), NfsStat::StaleClientId);
    let theirs = opened(&other.on(&mut second, &scene.handle, &[anew(BOTH, ShareDeny::BOTH)]).ok());
    other.on(&mut second, &scene.handle, &[locking(theirs, b"locker", (0, 10), false)]).ok();
}

#[test]
fn a_client_that_resumed_and_fell_silent_loses_its_state_with_its_lease() {
    let mut scene = ResumedClient::new();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    // Its open is not restored yet.
    for _ in 0..4 {
        scene.world.pass(u64::from(LEASE_S));
    }
    let mut second = scene.world.connect();
    let mut other = Client::new(&mut second, b"other", 1);
    other.on(&mut second, &scene.handle, &[anew(BOTH, ShareDeny::BOTH)]).ok();
}

// RFC 8881 8.4.2.1
#[test]
fn only_files_of_clients_that_are_not_back_are_waited_for() {
    let mut scene = ResumedClient::new();
    let mut second = scene.world.connect();
    let mut other = Client::new(&mut second, b"other", 1);
    let (theirs, _) = other.create(&mut second, b"theirs");
    scene.restart();
    let mut second = scene.world.connect();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    assert!(scene.world.server.grace.is_on(), "the other is awaited");
    scene.on(opening_again(BOTH)).ok();
    let waits = scene.client.on(&mut scene.wire, &theirs, &[anew(READ, NONE)]);
    assert_eq!(waits.status(), NfsStat::Grace);
    resume(&mut second, &mut other);
    scene.client.on(&mut scene.wire, &theirs, &[anew(READ, NONE)]).ok();
    let taken = other.on(&mut second, &scene.handle, &[anew(READ, ShareDeny::WRITE)]);
    assert_eq!(taken.status(), NfsStat::ShareDenied, "it is open for writing");
}

// RFC 8881 8.4.2
#[test]
fn what_a_client_has_closed_is_not_there_again() {
    let mut scene = ResumedClient::new();
    let (closed, open) = scene.client.create(&mut scene.wire, b"closed");
    scene.client.on(&mut scene.wire, &closed, &[closing(open)]).ok();
    scene.on(unlocking(scene.locks, (0, 5))).ok();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    let mut second = scene.world.connect();
    let mut other = Client::new(&mut second, b"other", 1);
    other.on(&mut second, &closed, &[anew(BOTH, ShareDeny::BOTH)]).ok();
    let theirs = opened(&other.on(&mut second, &scene.handle, &[anew(BOTH, NONE)]).ok());
    other.on(&mut second, &scene.handle, &[locking(theirs, b"locker", (0, 5), false)]).ok();
    let held = other.on(&mut second, &scene.handle, &[locking(theirs, b"locker", (5, 5), false)]);
    assert_eq!(held.status(), NfsStat::Denied);
    assert_eq!(scene.on(writing(anonymous(open), 0, b"x")).status(), NfsStat::BadStateId);
}

// RFC 8881 15.1.1.3
#[test]
fn a_state_whose_file_the_disk_fails_to_open_is_to_be_asked_for_again() {
    let mut scene = ResumedClient::new();
    let (world, plan) = scene.world.restarted_counting();
    scene.world = world;
    scene.wire = scene.world.connect();
    plan.always(VolumeCall::OpenAgain, Some(Failure::Io));
    assert_eq!(scene.come_back(), NfsStat::Ok);
    for _ in 0..2 {
        assert_eq!(scene.on(writing(scene.open, 0, b"on")).status(), NfsStat::Delay);
        assert_eq!(scene.on(unlocking(scene.locks, (0, 5))).status(), NfsStat::Delay);
    }
    plan.always(VolumeCall::OpenAgain, None);
    scene.on(writing(scene.open, 0, b"on")).ok();
    scene.on(unlocking(scene.locks, (0, 10))).ok();
}

// RFC 8881 8.4.2.1
#[test]
fn a_client_whose_records_were_lost_begins_anew() {
    let mut scene = ResumedClient::new();
    let clients = &scene.world.stable_storage().client_records;
    clients.replace(&mut std::iter::empty()).unwrap();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::StaleClientId);
    scene.client = Client::before_reclaim(&mut scene.wire, b"client", 1);
    let refused = scene.on(claiming(BOTH, NONE, DelegationType::None));
    assert_eq!(refused.status(), NfsStat::NoGrace);
    assert_eq!(scene.on(writing(anonymous(scene.open), 0, b"x")).status(), NfsStat::BadStateId);
}

// RFC 8881 8.2.4
#[test]
fn a_state_whose_file_is_gone_is_lost_alone() {
    let mut scene = ResumedClient::new();
    let (gone, open) = scene.client.create(&mut scene.wire, b"gone");
    let name = volume::Name::new(b"gone").unwrap();
    scene.world.memory.root().unwrap().remove(&name, false, None).unwrap();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    let ids = [open, scene.open].map(anonymous);
    let test = Args::TestStateId(stateid::TestArgs { stateids: List::of(&ids) });
    let tested = scene.client.run(&mut scene.wire, &[test]).ok();
    let Res::TestStateId(Ok(tested)) = tested.last() else { panic!("{tested:?}") };
    assert_eq!(tested.status_codes.iter().collect::<Vec<_>>(), [NfsStat::BadStateId, NfsStat::Ok]);
    assert_eq!(scene.client.on(&mut scene.wire, &gone, &[reading(open, 0, 1)]).status(), NfsStat::Stale);
}

// RFC 8881 8.5
#[test]
fn an_administrator_revokes_a_state_from_before_a_restart() {
    let mut scene = ResumedClient::new();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    scene.on(writing(scene.open, 0, b"on")).ok();
    let (id, open) = (scene.client.clientid, scene.open);
    let revoked = scene.world.server.revoke(id, &open.other, scene.world.now).unwrap();
    assert_eq!((revoked.opens, revoked.lock_owners), (1, 1));
    assert_eq!(scene.on(writing(open, 0, b"on")).status(), NfsStat::AdminRevoked);
    for stateid in [scene.locks, open] {
        scene.on(Args::FreeStateId(stateid::FreeArgs { stateid })).ok();
    }
    assert_eq!(scene.on(writing(open, 0, b"on")).status(), NfsStat::BadStateId);
    // It stands on record again once it has acknowledged that.
    scene.world.pass(1);
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    assert_eq!(scene.on(writing(open, 0, b"on")).status(), NfsStat::BadStateId);
}

// RFC 8881 8.4.2.1
#[test]
fn a_client_reclaims_if_a_full_disk_did_not_take_its_lock() {
    let mut scene = ResumedClient::new();
    let stable = scene.world.stable_storage().clone();
    let fill = |is_full| {
        stable.opens.fill(is_full);
        stable.client_records.fill(is_full);
    };
    fill(true);
    scene.on(locking_more(scene.locks, (20, 10))).ok();
    scene.world.pass(1);
    fill(false);
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::StaleClientId);
    scene.client = Client::before_reclaim(&mut scene.wire, b"client", 1);
    let open = opened(&scene.on(claiming(BOTH, NONE, DelegationType::None)).ok());
    locked(&scene.on(locking(open, b"locker", (0, 10), true)).ok());
    scene.on(locking(open, b"locker", (20, 10), true)).ok();
}

// RFC 8881 15.1.1.3
#[test]
fn a_lock_waits_for_a_disk_that_takes_neither_the_lock_nor_its_loss() {
    let mut scene = ResumedClient::new();
    let stable = scene.world.stable_storage().clone();
    let fail = |fails| {
        stable.opens.fill(fails);
        stable.client_records.fill(fails);
        stable.client_mark.stick(fails);
    };
    fail(true);
    let (first, locks) = ((20, 10), scene.locks);
    assert_eq!(scene.on(locking_more(locks, first)).status(), NfsStat::Delay);
    assert_eq!(scene.on(locking(scene.open, b"second", (50, 1), false)).status(), NfsStat::Delay);
    scene.on(writing(scene.open, 0, b"on")).ok();
    let locks = unlocked(&scene.on(unlocking(locks, (0, 10))).ok());
    fail(false);
    let locks = locked(&scene.on(locking_more(locks, first)).ok());
    scene.on(unlocking(locks, (20, 10))).ok();
    scene.on(locking(scene.open, b"second", (50, 1), false)).ok();
}

// RFC 8881 8.2.2
#[test]
fn an_open_that_is_repeated_because_its_reply_was_lost_gets_the_stateid_of_that_reply() {
    // The client has received no reply to these: a new open, and one that changes nothing.
    let mut scene = ResumedClient::new();
    let (handle, new) = scene.client.create(&mut scene.wire, b"new");
    let again = opened(&scene.on(opening_again(BOTH)).ok());
    assert_eq!((new.seqid, again.seqid), (1, 2));
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    let open_new = |scene: &mut ResumedClient| {
        opened(&scene.client.on(&mut scene.wire, &handle, &[opening_again(BOTH)]).ok())
    };
    assert_eq!(open_new(&mut scene), new);
    assert_eq!(open_new(&mut scene), StateId { seqid: 2, ..new }, "a second one");
    assert_eq!(opened(&scene.on(opening_again(BOTH)).ok()), again);
    assert_eq!(opened(&scene.on(opening_again(BOTH)).ok()), StateId { seqid: 3, ..again });
}

// RFC 8881 8.2.2
#[test]
fn an_open_whose_stateid_the_client_knows_gets_the_next_one() {
    // It was used after the restart.
    let mut scene = ResumedClient::new();
    let open = scene.open;
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    scene.on(writing(anonymous(open), 0, b"on")).ok();
    assert_eq!(opened(&scene.on(opening_again(BOTH)).ok()), StateId { seqid: 2, ..open });

    // It was answered long before the restart.
    let mut scene = ResumedClient::new();
    let open = scene.open;
    (0..2).for_each(|_| scene.world.pass(1));
    scene.world.engine.write_noted();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    assert_eq!(opened(&scene.on(opening_again(BOTH)).ok()), StateId { seqid: 2, ..open });
}

// RFC 8881 18.50.3
#[test]
fn a_client_that_has_everything_back_and_gives_it_up_may_end_at_once() {
    let mut scene = ResumedClient::new();
    scene.restart();
    assert_eq!(scene.come_back(), NfsStat::Ok);
    let sessionid = scene.client.session;
    scene.on(unlocking(scene.locks, (0, 10))).ok();
    scene.on(closing(scene.open)).ok();
    scene.wire.call(1, &[Args::DestroySession(destroy::SessionArgs { sessionid })]).ok();
    let clientid = scene.client.clientid;
    scene.wire.call(1, &[Args::DestroyClientId(destroy::ClientIdArgs { clientid })]).ok();
}
