//! Restarts that meet a fault: a full or read-only disk, a lost reply, an open that is not restored.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfs::state::client_records::RecordStorage;
use nfs_wire::NfsStat;
use nfs_wire::op::open::DelegationType;
use nfs_wire::op::sequence::StatusFlags;
use testkit::nfs::*;
use volume::Failure;
use volume::faulty::VolumeCall;
use volume::journal::{CompleteMark, MemoryJournal, MemoryMark};

use crate::delegation_scenario::DelegationScenario;
use crate::grace::{BOTH, NONE, READ, anew, claiming, flags, locking, opened};

/// A mark whose disk is slow to clear it.
struct SlowMark {
    mark: Arc<MemoryMark>,
    begun: Mutex<Sender<()>>,
    goes_on: Mutex<Receiver<()>>,
}

impl CompleteMark for SlowMark {
    fn is_set(&self) -> bool {
        self.mark.is_set()
    }
    fn set(&self) -> volume::Result<()> {
        self.mark.set()
    }
    fn clear(&self) -> volume::Result<()> {
        self.begun.lock().unwrap().send(()).unwrap();
        let _ = self.goes_on.lock().unwrap().recv();
        self.mark.clear()
    }
}

// Two LOCKs could not be recorded.
#[test]
fn no_lock_is_answered_before_the_mark_is_cleared() {
    let world = NfsTestServer::new();
    let mark = Arc::new(MemoryMark::default());
    let ((begun, has_begun), (go, goes_on)) = (channel(), channel());
    let slow = SlowMark { mark: mark.clone(), begun: Mutex::new(begun), goes_on: Mutex::new(goes_on) };
    let storage = RecordStorage { journal: Arc::new(MemoryJournal::default()), mark: Arc::new(slow) };
    world.server.keep_clients(storage, &[], &[1], world.now).unwrap();
    let mut wire = world.connect();
    let _client = Client::new(&mut wire, b"client", 1);
    assert!(mark.is_set());
    let first = {
        let server = world.server.clone();
        std::thread::spawn(move || server.forget_client_ids())
    };
    has_begun.recv().unwrap();
    let (told, is_done) = channel();
    let second = {
        let (server, mark) = (world.server.clone(), mark.clone());
        std::thread::spawn(move || {
            server.forget_client_ids().unwrap();
            told.send(mark.is_set()).unwrap();
        })
    };
    let early = is_done.recv_timeout(Duration::from_millis(300));
    drop(go);
    first.join().unwrap().unwrap();
    second.join().unwrap();
    let is_set = early.or_else(|_| is_done.recv()).unwrap();
    assert!(!is_set, "the second request would be answered while client IDs still count");
}

// The state directory turns read-only.
#[test]
fn no_delegation_is_given_that_the_disk_does_not_take() {
    let mut scene = DelegationScenario::new();
    let stable = scene.world.stable_storage().clone();
    let fail = |fails| {
        stable.opens.fill(fails);
        stable.client_records.fill(fails);
        stable.client_mark.stick(fails);
    };
    fail(true);
    assert_eq!(scene.open_wanting().1, None);
    fail(false);
    assert!(scene.open_wanting().1.is_some());
}

// The host refuses to open the file for good, or the share keeps no more opens.
#[test]
fn a_delegation_that_is_not_restored_is_reported() {
    let mut scene = DelegationScenario::with_a_delegation();
    let (world, plan) = scene.world.restarted_counting();
    scene.world = world;
    plan.always(VolumeCall::OpenAgain, Some(Failure::Denied));
    scene.resume();
    // Any request for the file restores it.
    scene.maker.on(&mut scene.second, &scene.handle, &[anew(READ, NONE)]);
    plan.always(VolumeCall::OpenAgain, None);
    assert_eq!(scene.open_by_maker(), NfsStat::Ok);
    assert!(scene.first.called().is_empty());
    let told = flags(&scene.client.run(&mut scene.first, &[]).ok());
    assert!(told.contains(StatusFlags::RECALLABLE_STATE_REVOKED), "{told:?}");
}

// A client reclaims its open piece by piece, as Linux does, and the server ends in the middle.
#[test]
fn the_record_of_an_open_that_is_being_reclaimed_stays_whole() {
    let world = NfsTestServer::with_stable_storage();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (handle, open) = client.create(&mut wire, b"file");
    client.on(&mut wire, &handle, &[locking(open, b"locker", (0, 10), false)]).ok();
    let mut world = world.restarted();
    let mut wire = world.connect();
    let mut client = Client::before_reclaim(&mut wire, b"client", 1);
    opened(&client.on(&mut wire, &handle, &[claiming(READ, NONE, DelegationType::None)]).ok());
    (0..3).for_each(|_| world.pass(1));
    world.engine.write_noted();
    let world = world.restarted();
    let mut wire = world.connect();
    let mut client = Client::before_reclaim(&mut wire, b"client", 1);
    opened(&client.on(&mut wire, &handle, &[claiming(BOTH, NONE, DelegationType::None)]).ok());
    assert_eq!(world.engine.held_ranges().len(), 1, "its range is free for others until it is reclaimed");
}

// The server is killed before the reply that grants a delegation is sent. The client repeats its OPEN.
#[test]
fn a_delegation_whose_reply_was_lost_is_given_again() {
    let mut scene = DelegationScenario::new();
    let lost = scene.open_wanting().1.unwrap();
    let mut scene = scene.restart();
    let again = scene.open_wanting().1.unwrap();
    assert_eq!(again.other, lost.other);
}
