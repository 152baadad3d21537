//! A client with very many files: releasing one takes as long as with few.

use std::sync::Arc;

use nfs::state::open::Holding;
use nfs::state::stateid::OwnerOnFile;
use nfs::state::stateid::{LockingState, NewState};
use nfs_wire::op::open::{ShareAccess, ShareDeny};
use testkit::nfs::{Client, NfsTestServer, Wire};
use volume::NodeId;

/// Number of files of the client. If each release looked at all of them, the test would take many minutes.
const FILES: u64 = 100_000;

/// The states of the client on one file.
struct FileStates {
    node: NodeId,
    open: Arc<LockingState>,
    locks: Arc<LockingState>,
    delegation: Arc<LockingState>,
}

/// A client with an open file, from which further states are made.
struct StateFactory {
    _world: NfsTestServer,
    _wire: Wire,
    client: Arc<nfs::state::client::Client>,
    first: Arc<LockingState>,
    keys: u64,
}

impl StateFactory {
    fn new() -> StateFactory {
        let world = NfsTestServer::new();
        let mut wire = world.connect();
        let mut sender = Client::new(&mut wire, b"client", 1);
        sender.create(&mut wire, b"file");
        let client = world.server.clients.get(sender.clientid).expect("the client");
        let states = world.server.all_states();
        let first = states.into_iter().find(|state| state.opened().is_some()).expect("an open");
        StateFactory { _world: world, _wire: wire, client, first, keys: 1 << 40 }
    }

    /// The fields of a state of the file with this number.
    fn new_state(&mut self, node: NodeId) -> NewState {
        self.keys += 1;
        let (export, handle) = (Arc::clone(&self.first.export), self.first.handle);
        NewState { instance: 1, key: self.keys, client: self.client.id, export, handle, node }
    }

    fn holding(&self) -> Holding {
        Holding::new(Arc::clone(&self.first.holding().open), ShareAccess::READ, ShareDeny::empty())
    }
}

#[test]
fn what_a_client_gives_back_is_found_without_looking_at_all_it_has() {
    let mut ground = StateFactory::new();
    let (client, export) = (Arc::clone(&ground.client), ground.first.export.id);
    let before = client.counts();
    let of = |owner, node| OwnerOnFile { owner, export, node };
    let number = client.lock_owner(b"locker");
    let mut files = Vec::new();
    for inode in 0..FILES {
        let node = NodeId { device: 77, inode };
        let open = Arc::new(LockingState::open(ground.new_state(node), b"opener", ground.holding()));
        let locks = LockingState::first_lock(ground.new_state(node), b"locker", number, Arc::clone(&open));
        let locks = Arc::new(locks.expect("an open"));
        let delegation =
            Arc::new(LockingState::delegated(ground.new_state(node), &client.revoked, ground.holding()));
        client.remember_key(export, node, client.new_key());
        assert!(client.add_open(of(b"opener", node), &open) && client.add_delegation(&delegation));
        assert!(client.add_locks(of(b"locker", node), &locks));
        files.push(FileStates { node, open, locks, delegation });
    }
    let made = client.cache_key(export, files[0].node);
    for (at, FileStates { node, open, locks, delegation }) in files.iter().enumerate() {
        let ended = client.remove_open(of(b"opener", *node), open);
        assert!(ended.len() == 1 && Arc::ptr_eq(&ended[0], locks), "the locks that were taken through it");
        assert!(
            client.locks_of(of(b"locker", *node)).is_none() && client.open_of(of(b"opener", *node)).is_none()
        );
        let named = client.owner_name(number).is_some();
        assert_eq!(named, at + 1 < files.len(), "the owner's name stays until its last locks");
        assert!(at > 0 || client.cache_key(export, *node) == made, "the delegation is under it");
        client.remove_delegation(delegation);
        assert!(client.delegation_of(export, *node).is_none());
    }
    assert_ne!(client.cache_key(export, files[0].node), made, "nothing is left of the file");
    assert_eq!(client.counts(), before);
}

#[test]
fn only_the_locks_of_the_open_that_is_closed_end() {
    let mut ground = StateFactory::new();
    let (client, export) = (Arc::clone(&ground.client), ground.first.export.id);
    let node = NodeId { device: 77, inode: 1 };
    let of = |owner| OwnerOnFile { owner, export, node };
    let mut open = |owner: &'static [u8], lockers: [&'static [u8]; 2]| {
        let holding = ground.holding();
        let open = Arc::new(LockingState::open(ground.new_state(node), owner, holding));
        assert!(client.add_open(of(owner), &open));
        let locks = lockers.map(|locker| {
            let state = LockingState::first_lock(
                ground.new_state(node),
                locker,
                client.lock_owner(locker),
                Arc::clone(&open),
            );
            let state = Arc::new(state.expect("an open"));
            assert!(client.add_locks(of(locker), &state));
            state
        });
        (open, locks)
    };
    let (one, of_one) = open(b"one", [b"a", b"b"]);
    let (two, of_two) = open(b"two", [b"c", b"d"]);
    let made = client.new_key();
    client.remember_key(export, node, made);
    client.remove_locks(of(b"a"), &of_one[0]);
    let is_same = |ended: &[Arc<LockingState>], expected: &[Arc<LockingState>]| {
        ended.len() == expected.len() && ended.iter().zip(expected).all(|(a, b)| Arc::ptr_eq(a, b))
    };
    assert!(is_same(&client.remove_open(of(b"one"), &one), &of_one[1..]), "the first was freed before");
    assert!(client.locks_of(of(b"c")).is_some() && client.locks_of(of(b"d")).is_some());
    assert_eq!(client.cache_key(export, node), made, "it is still open");
    assert!(is_same(&client.remove_open(of(b"two"), &two), &of_two));
    assert_ne!(client.cache_key(export, node), made);
}
