//! TREE_CONNECT to a share of homes: the home is found or made on the blocking pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use share::Identity;
use smb::Homes;
use smb_wire::{NtStatus, SmbCommand, echo, logoff};
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
    let dial = Dial { user: user.to_owned(), ..Dial::default() };
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(&dial);
    assert_eq!(peer.set_up_session(&dial, preauth), NtStatus::SUCCESS);
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
