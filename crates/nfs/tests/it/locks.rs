//! Locks of a lock-owner whose stateid is created and freed.

use std::sync::mpsc;

use nfs_wire::NfsStat;
use nfs_wire::op::lock::{Args as LockArgs, Locker, OpenToLockOwner, Res as LockRes, TestArgs, UnlockArgs};
use nfs_wire::op::{Args, Res, stateid};
use nfs_wire::types::{Identity, LockType, StateId, StateOwner};
use testkit::nfs::*;

/// LOCK of the first ten bytes, under a new owner of an open.
fn locking(open_stateid: StateId) -> Args<'static> {
    let lock_owner = StateOwner { clientid: 0, owner: Identity(b"owner") };
    let new = OpenToLockOwner { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner };
    let locker = Locker::New(new);
    Args::Lock(LockArgs { locktype: LockType::Write, reclaim: false, offset: 0, length: 10, locker })
}

fn unlocking(lock_stateid: StateId) -> Args<'static> {
    Args::LockU(UnlockArgs { locktype: LockType::Write, seqid: 0, lock_stateid, offset: 0, length: 10 })
}

fn taken(answer: &ReceivedCompound) -> StateId {
    match answer.last() {
        Res::Lock(LockRes::Ok(taken)) => taken.lock_stateid,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_owner_whose_stateid_was_freed_locks_again() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (handle, open) = client.create(&mut wire, b"file");
    let first = taken(&client.on(&mut wire, &handle, &[locking(open)]).ok());
    let free = |stateid| Args::FreeStateId(stateid::FreeArgs { stateid });
    assert_eq!(client.run(&mut wire, &[free(first)]).status(), NfsStat::LocksHeld);
    let answer = client.on(&mut wire, &handle, &[unlocking(first)]).ok();
    let Res::LockU(Ok(unlocked)) = answer.last() else { panic!("{answer:?}") };
    client.run(&mut wire, &[free(unlocked.lock_stateid)]).ok();
    assert_eq!(client.run(&mut wire, &[free(unlocked.lock_stateid)]).status(), NfsStat::BadStateId);
    let again = taken(&client.on(&mut wire, &handle, &[locking(open)]).ok());
    assert_ne!(first.other, again.other);
    client.on(&mut wire, &handle, &[writing(again, 0, b"x")]).ok();
}

#[test]
fn an_owner_is_known_by_its_name_as_long_as_it_has_locks() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (handle, open) = client.create(&mut wire, b"file");
    let known = world.server.clients.get(client.clientid).expect("the client");
    let name = || known.owner_name(known.lock_owner(b"owner"));
    let owner = StateOwner { clientid: 0, owner: Identity(b"owner") };
    let test = Args::LockT(TestArgs { locktype: LockType::Write, offset: 0, length: 10, owner });
    client.on(&mut wire, &handle, &[test]).ok();
    assert_eq!(name(), None, "it only asked");
    let (second, also) = client.create(&mut wire, b"second");
    let lock = taken(&client.on(&mut wire, &handle, &[locking(open)]).ok());
    client.on(&mut wire, &second, &[locking(also)]).ok();
    assert_eq!(name().as_deref(), Some(&b"owner"[..]));
    client.on(&mut wire, &second, &[closing(also)]).ok();
    assert_eq!(name().as_deref(), Some(&b"owner"[..]));
    let answer = client.on(&mut wire, &handle, &[unlocking(lock)]).ok();
    let Res::LockU(Ok(unlocked)) = answer.last() else { panic!("{answer:?}") };
    let free = Args::FreeStateId(stateid::FreeArgs { stateid: unlocked.lock_stateid });
    client.run(&mut wire, &[free]).ok();
    assert_eq!(name(), None);
}

// RFC 8881 18.10.3
#[test]
fn a_lock_of_another_file_than_that_of_its_open_leaves_nothing_behind() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (_, open) = client.create(&mut wire, b"file");
    let (other, _) = client.create(&mut wire, b"other");
    assert_eq!(client.on(&mut wire, &other, &[locking(open)]).status(), NfsStat::BadStateId);
    let known = world.server.clients.get(client.clientid).expect("the client");
    assert_eq!(known.counts(), (2, 0, 0));
}

// Linux frees the stateid of an owner without locks while the same owner may already lock again over another
// connection (found by proving/kernel_client/mixed.py: the client had a lock that the server did not know).
#[test]
fn a_lock_that_is_taken_while_its_owners_stateid_is_being_freed_stays() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (handle, open) = client.create(&mut wire, b"file");
    let mut other = Client { sequences: client.sequences.clone(), ..client };
    let (say, hear) = mpsc::channel::<StateId>();
    std::thread::scope(|scope| {
        let world = &world;
        scope.spawn(move || {
            let mut wire = world.connect();
            while let Ok(stateid) = hear.recv() {
                let free = Args::FreeStateId(stateid::FreeArgs { stateid: StateId { seqid: 0, ..stateid } });
                for _ in 0..4 {
                    let all = [other.sequence(1, false), free];
                    let freed = wire.call(1, &all).status();
                    let known = [NfsStat::Ok, NfsStat::LocksHeld, NfsStat::BadStateId];
                    assert!(known.contains(&freed), "{freed:?}");
                }
            }
        });
        for _ in 0..500 {
            let lock = taken(&client.on(&mut wire, &handle, &[locking(open)]).ok());
            client.on(&mut wire, &handle, &[writing(lock, 0, b"x")]).ok();
            client.on(&mut wire, &handle, &[unlocking(lock)]).ok();
            say.send(lock).expect("somebody hears");
        }
        drop(say);
    });
}
