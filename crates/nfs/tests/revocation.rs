//! State that an administrator revokes (RFC 8881 8.5). Its client is told with each request until it has
//! freed it.

use nfs_wire::NfsStat;
use nfs_wire::op::lock::{Args as LockArgs, Locker, OpenToLockOwner, Res as LockRes};
use nfs_wire::op::open::OpenHow;
use nfs_wire::op::sequence::StatusFlags;
use nfs_wire::op::{Args, Res, stateid};
use nfs_wire::types::{Identity, LockType, StateId, StateOwner};
use nfs_wire::xdr::List;
use testkit::nfs::*;

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
