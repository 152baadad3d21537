//! TREE_CONNECT to a share of homes: the home is found or made on the blocking pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use share::Identity;
use smb::Homes;
use smb_wire::create::Disposition;
use smb_wire::{Header, NtStatus, SmbCommand, cancel, echo, logoff, tree_connect, utf16};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer, USER};
use volume::Name;

/// Homes that exist for every user but bert.
#[derive(Default)]
struct AllButBert {
    asked: AtomicU32,
}

impl Homes for AllButBert {
    fn home(&self, user: &Identity) -> Result<Name, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match user.name.as_str() {
            "bert" => Err("the disk is full".to_owned()),
            name => Name::new(name.as_bytes()).map_err(|why| why.to_string()),
        }
    }
}

/// A server whose share has such homes. Only that of the first user exists.
fn world() -> (SmbTestServer, Arc<AllButBert>) {
    let world = SmbTestServer::on_disk();
    std::fs::create_dir(world.root().join(USER)).unwrap();
    let homes = serve(&world);
    (world, homes)
}

/// Gives the share new homes, as a reload does.
fn serve(world: &SmbTestServer) -> Arc<AllButBert> {
    let homes = Arc::new(AllButBert::default());
    let shared = Arc::clone(&homes);
    world.configure(|share| share.homes = Some(shared));
    homes
}

/// A client that has logged on. Its jobs wait.
fn logged_on(world: &SmbTestServer, user: &str) -> Peer {
    logged_on_by(world, &Dial { user: user.to_owned(), ..Dial::default() })
}

fn logged_on_by(world: &SmbTestServer, dial: &Dial) -> Peer {
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(dial);
    assert_eq!(peer.set_up_session(dial, preauth), NtStatus::SUCCESS);
    peer.holds_jobs = true;
    peer
}

#[test]
fn a_home_is_found_off_the_connections_thread_and_other_requests_do_not_wait_for_it() {
    let (world, homes) = world();
    let mut peer = logged_on(&world, USER);
    let connecting = peer.start_tree(SHARE);
    assert_eq!((peer.held_jobs(), homes.asked.load(Ordering::Relaxed)), (1, 0));
    assert!(peer.answer(connecting).is_none());
    assert_eq!(peer.status(SmbCommand::Echo, |out| echo::Request.write(out)), NtStatus::SUCCESS);
    peer.run_jobs();
    let connected = peer.answer(connecting).expect("the home is found");
    assert_eq!((connected.status(), homes.asked.load(Ordering::Relaxed)), (NtStatus::SUCCESS, 1));
    peer.tree_id = connected.header.tree_id();
    peer.make("file", b"text");
    assert_eq!(std::fs::read(world.root().join(USER).join("file")).unwrap(), b"text");
}

#[test]
fn a_user_without_a_home_is_refused() {
    let (world, _) = world();
    let mut peer = logged_on(&world, "bert");
    let connecting = peer.start_tree(SHARE);
    peer.run_jobs();
    assert_eq!(peer.answer(connecting).expect("an answer").status(), NtStatus::BAD_NETWORK_NAME);
}

#[test]
fn a_share_that_changes_meanwhile_is_asked_again() {
    let (world, old) = world();
    let mut peer = logged_on(&world, USER);
    let connecting = peer.start_tree(SHARE);
    let new = serve(&world);
    peer.run_jobs();
    assert_eq!(peer.answer(connecting).expect("an answer").status(), NtStatus::SUCCESS);
    let asked = [&old, &new].map(|homes| homes.asked.load(Ordering::Relaxed));
    assert_eq!(asked, [1, 1]);
}

#[test]
fn a_session_that_ends_meanwhile_gets_no_tree() {
    let (world, _) = world();
    let mut peer = logged_on(&world, USER);
    let connecting = peer.start_tree(SHARE);
    assert_eq!(peer.status(SmbCommand::Logoff, |out| logoff::Request.write(out)), NtStatus::SUCCESS);
    peer.run_jobs();
    let refused = peer.answer(connecting).expect("an answer");
    assert_eq!(refused.status(), NtStatus::USER_SESSION_DELETED);
}

#[test]
fn a_connection_that_is_lost_meanwhile_leaves_nothing() {
    let (world, homes) = world();
    let mut peer = logged_on(&world, USER);
    peer.start_tree(SHARE);
    let jobs = peer.take_jobs();
    peer.hang_up();
    jobs();
    assert_eq!((world.server.sessions().len(), homes.asked.load(Ordering::Relaxed)), (0, 1));
}

// MS-SMB2 3.3.5.16
#[test]
fn a_connect_whose_home_is_looked_for_cannot_be_cancelled() {
    let (world, homes) = world();
    let mut peer = logged_on(&world, USER);
    let connecting = peer.start_tree(SHARE);
    let mut header = peer.header(SmbCommand::Cancel);
    header.set_message_id(connecting);
    peer.send(whole(&header, |out| cancel::Request.write(out)));
    assert!(peer.answer(connecting).is_none(), "the home may be in the making");
    peer.run_jobs();
    assert_eq!(peer.answer(connecting).expect("an answer").status(), NtStatus::SUCCESS);
    assert_eq!(homes.asked.load(Ordering::Relaxed), 1);
    // The second CANCEL names a request that was answered.
    peer.send(whole(&header, |out| cancel::Request.write(out)));
    assert!(peer.next().is_none());
    assert_eq!(peer.status(SmbCommand::Echo, |out| echo::Request.write(out)), NtStatus::SUCCESS);
}

/// TREE_CONNECT to the share, and a CREATE in the tree that it gives.
fn connect_and_create(peer: &mut Peer) -> Vec<u8> {
    let path = utf16::encode(&format!("\\\\server\\{SHARE}"));
    let path = smb_wire::Utf16::new(&path).expect("whole units");
    let connect = peer.message(SmbCommand::TreeConnect, |out| tree_connect::Request::new(path).write(out));
    let mut create = peer.message(SmbCommand::Create, |out| {
        OpenFile { disposition: Disposition::Create, ..OpenFile::named("file") }.write(out);
    });
    let header = Header::parse_mut(&mut create).expect("a header");
    // All bits set stand for an inherited id.
    header.set_tree_id(u32::MAX);
    if peer.keys[&peer.session_id].seals {
        header.set_session_id(u64::MAX);
    }
    peer.compound(vec![connect, create], true)
}

// MS-SMB2 3.3.5.2.7.2
#[test]
fn a_compound_goes_on_in_the_home_that_was_found_also_on_a_sealed_session() {
    for seals in [false, true] {
        let (world, homes) = world();
        let mut peer = logged_on_by(&world, &Dial { seals, ..Dial::default() });
        let frame = connect_and_create(&mut peer);
        peer.deliver(frame);
        assert_eq!((peer.held_jobs(), homes.asked.load(Ordering::Relaxed)), (1, 0), "sealed: {seals}");
        peer.run_jobs();
        let answers: Vec<_> = std::iter::from_fn(|| peer.next()).collect();
        let statuses: Vec<_> = answers.iter().map(testkit::smb::peer::ReceivedMessage::status).collect();
        assert_eq!(statuses, [NtStatus::SUCCESS; 2], "sealed: {seals}");
        assert!(answers.iter().all(|answer| answer.is_sealed == seals && answer.frame == answers[0].frame));
        assert!(world.root().join(USER).join("file").exists());
    }
    // Without a home the rest of the compound has no tree.
    let (world, _) = world();
    let mut peer = logged_on(&world, "bert");
    let frame = connect_and_create(&mut peer);
    peer.deliver(frame);
    peer.run_jobs();
    let statuses: Vec<_> = std::iter::from_fn(|| peer.next()).map(|answer| answer.status()).collect();
    assert_eq!(statuses, [NtStatus::BAD_NETWORK_NAME, NtStatus::INVALID_PARAMETER]);
    assert_eq!(std::fs::read_dir(world.root()).unwrap().count(), 1);
}

// MS-SMB2 3.3.5.2.1.1
#[test]
fn a_sealed_session_connects_to_a_home_under_its_seal() {
    let (world, _) = world();
    let mut peer = logged_on_by(&world, &Dial { seals: true, ..Dial::default() });
    let connecting = peer.start_tree(SHARE);
    assert_eq!(peer.status(SmbCommand::Echo, |out| echo::Request.write(out)), NtStatus::SUCCESS);
    peer.run_jobs();
    let connected = peer.answer(connecting).expect("an answer");
    assert_eq!((connected.status(), connected.is_sealed), (NtStatus::SUCCESS, true));
    peer.tree_id = connected.header.tree_id();
    peer.make("file", b"text");
    assert_eq!(std::fs::read(world.root().join(USER).join("file")).unwrap(), b"text");
}
