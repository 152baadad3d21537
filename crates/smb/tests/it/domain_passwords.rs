//! NTLM of the domain's users: a domain controller judges them, on the blocking pool, and local users are
//! judged here.

use std::time::Duration;

use smb_wire::NtStatus;
use testkit::smb::client::USER;
use testkit::smb::domain::{DOMAIN_SID, domain_member};
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};

const PASSWORD: &str = "of the domain";

const DELAY: Duration = Duration::from_secs(2);

/// A server in a domain with the user `bob`, and with a user of the name of a local one. A wrong password
/// delays the next one.
fn world() -> SmbTestServer {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| {
        config.guess_delay_ns = DELAY.as_nanos() as u64;
        config.domain_member = Some(domain_member(&[("bob", PASSWORD, 1104), (USER, PASSWORD, 1105)]));
    });
    world
}

fn dial(user: &str, password: &str) -> Dial {
    Dial { user: user.into(), password: password.into(), ..Dial::default() }
}

fn try_it(peer: &mut Peer, user: &str, password: &str) -> Result<NtStatus, u64> {
    let dial = dial(user, password);
    let preauth = peer.negotiate_hashed(&dial);
    peer.try_password(&dial, preauth)
}

fn status(world: &SmbTestServer, user: &str, password: &str) -> NtStatus {
    let status = try_it(&mut world.peer(), user, password).expect("it does not wait");
    world.advance(DELAY);
    status
}

#[test]
fn a_user_of_the_domain_logs_on_with_the_domains_password() {
    let world = world();
    let mut peer = world.peer();
    assert_eq!(try_it(&mut peer, "CORP\\bob", PASSWORD), Ok(NtStatus::SUCCESS));
    peer.connect_tree(SHARE);
    peer.make("of-bob.txt", b"signed with the key of the controller");
    let session = world.server.session(peer.session_id).expect("the session");
    assert_eq!(session.user_name(), "CORP\\bob");
    assert_eq!(session.sid(), DOMAIN_SID.child(1104));
}

#[test]
fn each_refusal_of_the_controller_has_its_status() {
    let world = world();
    assert_eq!(status(&world, "CORP\\bob", "wrong"), NtStatus::LOGON_FAILURE);
    assert_eq!(status(&world, "CORP\\zoe", PASSWORD), NtStatus::LOGON_FAILURE);
    assert_eq!(status(&world, "CORP\\silent", PASSWORD), NtStatus::NO_LOGON_SERVERS);
    assert!(world.server.sessions().is_empty());
}

#[test]
fn a_local_user_is_judged_here_whatever_the_domain_says() {
    let world = world();
    let local = Dial::default().password;
    assert_eq!(status(&world, &format!("CORP\\{USER}"), &local), NtStatus::SUCCESS);
    assert_eq!(status(&world, &format!("CORP\\{USER}"), PASSWORD), NtStatus::LOGON_FAILURE);
    assert_eq!(status(&world, "bob", PASSWORD), NtStatus::LOGON_FAILURE, "no domain, so no user of it");
    assert_eq!(status(&world, "OTHER\\bob", PASSWORD), NtStatus::LOGON_FAILURE);
}

#[test]
fn guesses_at_a_password_of_the_domain_are_delayed() {
    let world = world();
    assert_eq!(try_it(&mut world.peer(), "CORP\\bob", "wrong"), Ok(NtStatus::LOGON_FAILURE));
    let mut peer = world.peer();
    let waits = try_it(&mut peer, "CORP\\bob", PASSWORD).expect_err("it waits");
    assert!(peer.answer(waits).is_none());
    world.advance(DELAY);
    peer.pass_deadline();
    assert_eq!(peer.answer(waits).expect("its turn").status(), NtStatus::SUCCESS);
    // The silence of a controller is no failed attempt.
    for _ in 0..2 {
        let silent = try_it(&mut world.peer(), "CORP\\silent", PASSWORD);
        assert_eq!(silent, Ok(NtStatus::NO_LOGON_SERVERS));
    }
}
