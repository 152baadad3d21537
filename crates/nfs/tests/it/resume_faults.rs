//! Restarts that meet a fault: a full or read-only disk, a lost reply, an open that is not restored.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfs::state::client_records::RecordStorage;
use nfs_wire::NfsStat;
use nfs_wire::op::Res;
use nfs_wire::op::open::{self, DelegationType, ShareAccess};
use testkit::nfs::*;
use volume::Failure;
use volume::faulty::VolumeCall;
use volume::journal::{CompleteMark, MemoryJournal, MemoryMark};

use crate::grace::{BOTH, NONE, READ, anew, bind_back, claiming, flags, locking, opened, with_a_delegation};

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

fn session(wire: &mut Wire, clientid: u64) -> Result<Client, NfsStat> {
    let begun = wire.call(1, &[begin_session(clientid, 5, CHANNEL)]);
    match begun.last() {
        Res::CreateSession(Ok(session)) => {
            Ok(Client { clientid, session: session.sessionid, minor: 1, sequences: vec![0; 16] })
        }
        _ => Err(begun.status()),
    }
}

// The state directory turns read-only, the server is killed, and the directory is mounted again.
#[test]
fn a_delegation_that_the_disk_did_not_take_is_not_lost_silently() {
    let world = NfsTestServer::with_stable_storage();
    let (mut first, mut second) = (world.connect(), world.connect());
    let mut maker = Client::new(&mut second, b"maker", 1);
    let (handle, made) = maker.create(&mut second, b"file");
    maker.on(&mut second, &handle, &[closing(made)]).ok();
    let mut client = Client::new(&mut first, b"client", 1);
    bind_back(&mut first, &client);
    let stable = world.stable_storage().clone();
    let fail = |fails| {
        stable.opens.fill(fails);
        stable.client_records.fill(fails);
        stable.client_mark.stick(fails);
    };
    fail(true);
    let wants = anew(READ | ShareAccess::WANT_READ_DELEG, NONE);
    let given = client.on(&mut first, &handle, &[wants]).ok();
    let Res::Open(Ok(given)) = given.last() else { panic!("{given:?}") };
    let open::Delegation::Read(_) = given.delegation else { return };
    let recalled = !first.called().is_empty();
    fail(false);
    let world = world.restarted();
    let mut wire = world.connect();
    let Ok(mut client) = session(&mut wire, client.clientid) else { return };
    bind_back(&mut wire, &client);
    let mut second = world.connect();
    let Ok(mut maker) = session(&mut second, maker.clientid) else { return };
    let other = maker.on(&mut second, &handle, &[anew(BOTH, NONE)]).status();
    let told = flags(&client.run(&mut wire, &[]).ok());
    let is_told = !told.is_empty() || !wire.called().is_empty() || recalled;
    assert!(other != NfsStat::Ok || is_told, "another client may write, and the holder hears nothing");
}

// The host refuses to open the file for good, or the share keeps no more opens.
#[test]
fn a_delegation_that_is_not_restored_is_reported() {
    let (world, first, second, maker, handle) = with_a_delegation();
    let clientid = world.server.clients.all().iter().find(|client| *client.owner == *b"client").unwrap().id;
    drop((first, second));
    let (world, plan) = world.restarted_counting();
    plan.always(VolumeCall::OpenAgain, Some(Failure::Denied));
    let (mut wire, mut second) = (world.connect(), world.connect());
    let Ok(mut client) = session(&mut wire, clientid) else { return };
    bind_back(&mut wire, &client);
    let mut maker = session(&mut second, maker.clientid).unwrap();
    // Any request for the file restores it.
    maker.on(&mut second, &handle, &[anew(READ, NONE)]);
    plan.always(VolumeCall::OpenAgain, None);
    let other = maker.on(&mut second, &handle, &[anew(BOTH, NONE)]).status();
    let is_recalled = !wire.called().is_empty();
    let is_told = is_recalled || !flags(&client.run(&mut wire, &[]).ok()).is_empty();
    assert!(other != NfsStat::Ok || is_told, "another client may write, and the holder hears nothing");
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
fn a_delegation_whose_reply_was_lost_is_given_again_or_ends() {
    let world = NfsTestServer::with_stable_storage();
    let (mut first, mut second) = (world.connect(), world.connect());
    let mut maker = Client::new(&mut second, b"maker", 1);
    let (handle, made) = maker.create(&mut second, b"file");
    maker.on(&mut second, &handle, &[closing(made)]).ok();
    let mut client = Client::new(&mut first, b"client", 1);
    bind_back(&mut first, &client);
    let wants = || anew(READ | ShareAccess::WANT_READ_DELEG, NONE);
    let given = client.on(&mut first, &handle, &[wants()]).ok();
    let Res::Open(Ok(lost)) = given.last() else { panic!("{given:?}") };
    let open::Delegation::Read(lost) = lost.delegation else { panic!("{given:?}") };
    let world = world.restarted();
    let (mut first, mut second) = (world.connect(), world.connect());
    let mut client = session(&mut first, client.clientid).unwrap();
    bind_back(&mut first, &client);
    let mut maker = session(&mut second, maker.clientid).unwrap();
    let again = client.on(&mut first, &handle, &[wants()]).ok();
    let Res::Open(Ok(open)) = again.last() else { panic!("{again:?}") };
    if let open::Delegation::Read(read) = open.delegation {
        assert_eq!(read.stateid.other, lost.stateid.other);
        return;
    }
    let other = maker.on(&mut second, &handle, &[anew(BOTH, NONE)]).status();
    assert_eq!(other, NfsStat::Ok, "nobody can return a delegation that its holder has not heard of");
}
