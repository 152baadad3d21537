//! A client that guesses passwords is delayed, and others are not.

use std::net::IpAddr;
use std::time::Duration;

use smb::limits::MAX_WAITING_ATTEMPTS;
use smb_wire::{NtStatus, SmbCommand, cancel};
use testkit::smb::bind::Binding;
use testkit::smb::{Dial, Peer, SmbTestServer};

const DELAY: Duration = Duration::from_secs(2);

fn world() -> SmbTestServer {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| config.guess_delay_ns = DELAY.as_nanos() as u64);
    world
}

fn guess(user: &str) -> Dial {
    Dial { user: user.into(), password: "guess".into(), ..Dial::default() }
}

/// A negotiated connection from an address.
fn from(world: &SmbTestServer, address: &str) -> Peer {
    let address: IpAddr = address.parse().expect("an address");
    let mut peer = Peer::try_connect_from(world, address).expect("the server takes it");
    peer.negotiate_hashed(&Dial::default());
    peer
}

fn try_it(peer: &mut Peer, dial: &Dial) -> Result<NtStatus, u64> {
    let preauth = peer.preauth;
    peer.try_password(dial, preauth)
}

#[test]
fn a_try_after_a_failure_waits_and_a_right_password_too() {
    let world = world();
    let mut peer = from(&world, "192.0.2.1");
    assert_eq!(try_it(&mut peer, &guess("anna")), Ok(NtStatus::LOGON_FAILURE));
    let waits = try_it(&mut peer, &Dial::default()).expect_err("it waits");
    world.advance(DELAY - Duration::from_millis(1));
    peer.pass_deadline();
    assert!(peer.answer(waits).is_none() && peer.next().is_none(), "not a word before its time");
    world.advance(Duration::from_millis(1));
    peer.pass_deadline();
    assert_eq!(peer.answer(waits).expect("its turn").status(), NtStatus::SUCCESS);
    peer.connect_tree(testkit::smb::SHARE);
    assert!(peer.is_served());
    // The failure has been paid for.
    assert_eq!(try_it(&mut from(&world, "192.0.2.1"), &Dial::default()), Ok(NtStatus::SUCCESS));
}

#[test]
fn right_passwords_never_wait_without_a_failure() {
    let world = world();
    let peers: Vec<Peer> = (0..200).map(|_| world.client()).collect();
    assert_eq!(peers.len(), 200);
}

#[test]
fn other_users_and_addresses_notice_nothing() {
    let world = world();
    let mut peer = from(&world, "192.0.2.1");
    assert_eq!(try_it(&mut peer, &guess(testkit::smb::USER)), Ok(NtStatus::LOGON_FAILURE));
    let bert = Dial { user: "bert".into(), ..Dial::default() };
    assert_eq!(try_it(&mut peer, &bert), Ok(NtStatus::SUCCESS));
    assert_eq!(try_it(&mut from(&world, "192.0.2.2"), &Dial::default()), Ok(NtStatus::SUCCESS));
    // One address in any spelling, and one user in any spelling.
    for (address, user) in [
        ("::ffff:192.0.2.1", testkit::smb::USER.to_owned()),
        ("192.0.2.1", testkit::smb::USER.to_uppercase()),
        ("192.0.2.1", format!("{}@elsewhere", testkit::smb::USER)),
        ("192.0.2.1", format!("HOME\\{}", testkit::smb::USER)),
    ] {
        let waits = try_it(&mut from(&world, address), &Dial { user: user.clone(), ..Dial::default() });
        assert!(waits.is_err(), "{address} {user}");
    }
}

#[test]
fn users_that_are_not_there_are_held_alike() {
    let world = world();
    let mut peer = from(&world, "192.0.2.1");
    assert_eq!(try_it(&mut peer, &guess("nobody")), Ok(NtStatus::LOGON_FAILURE));
    assert!(try_it(&mut peer, &guess("Nobody@here")).is_err());
}

#[test]
fn each_failure_holds_the_next_and_no_more_than_some_wait() {
    let world = world();
    let mut peers: Vec<Peer> = (0..=MAX_WAITING_ATTEMPTS).map(|_| from(&world, "192.0.2.1")).collect();
    let mut last = from(&world, "192.0.2.1");
    let wrong = guess(testkit::smb::USER);
    assert_eq!(try_it(&mut peers[0], &wrong), Ok(NtStatus::LOGON_FAILURE));
    let waiting: Vec<u64> =
        peers[1..].iter_mut().map(|peer| try_it(peer, &wrong).expect_err("it waits")).collect();
    assert_eq!(try_it(&mut last, &wrong), Ok(NtStatus::REQUEST_NOT_ACCEPTED));
    let mut done = 0;
    for round in 1..=MAX_WAITING_ATTEMPTS {
        world.advance(DELAY);
        for (peer, &id) in peers[1..].iter_mut().zip(&waiting) {
            peer.pass_deadline();
            done +=
                usize::from(peer.answer(id).is_some_and(|answer| answer.status() == NtStatus::LOGON_FAILURE));
        }
        assert_eq!(done, round, "one try in {DELAY:?}");
    }
    assert!(world.server.sessions().is_empty());
}

#[test]
fn who_goes_or_thinks_better_of_it_gives_the_place_up() {
    let world = world();
    let [mut first, mut gone, mut second] = [(); 3].map(|()| from(&world, "192.0.2.1"));
    assert_eq!(try_it(&mut first, &guess(testkit::smb::USER)), Ok(NtStatus::LOGON_FAILURE));
    try_it(&mut gone, &Dial::default()).expect_err("it waits");
    let cancelled = try_it(&mut first, &Dial::default()).expect_err("it waits");
    let waits = try_it(&mut second, &Dial::default()).expect_err("it waits");
    gone.hang_up();
    let mut header = first.header(SmbCommand::Cancel);
    header.set_message_id(cancelled);
    first.deliver(testkit::smb::peer::whole(&header, |out| cancel::Request.write(out)));
    assert_eq!(first.answer(cancelled).expect("an answer").status(), NtStatus::CANCELLED);
    world.advance(DELAY);
    second.pass_deadline();
    second.turn();
    second.pass_deadline();
    assert_eq!(second.answer(waits).expect("its turn").status(), NtStatus::SUCCESS);
}

#[test]
fn a_connection_is_not_closed_for_want_of_a_log_on_while_it_waits() {
    let world = world();
    let mut peer = from(&world, "192.0.2.1");
    world.advance(Duration::from_secs(59));
    assert_eq!(try_it(&mut peer, &guess(testkit::smb::USER)), Ok(NtStatus::LOGON_FAILURE));
    let waits = try_it(&mut peer, &Dial::default()).expect_err("it waits");
    world.advance(DELAY);
    peer.pass_deadline();
    assert_eq!(peer.answer(waits).expect("its turn").status(), NtStatus::SUCCESS);
    assert!(!peer.is_closed);
    // A failure afterwards has the same effect as before.
    let mut peer = from(&world, "192.0.2.1");
    world.advance(Duration::from_secs(59));
    assert_eq!(try_it(&mut peer, &guess(testkit::smb::USER)), Ok(NtStatus::LOGON_FAILURE));
    let waits = try_it(&mut peer, &guess(testkit::smb::USER)).expect_err("it waits");
    world.advance(DELAY);
    peer.pass_deadline();
    assert_eq!(peer.answer(waits).expect("its turn").status(), NtStatus::LOGON_FAILURE);
    assert!(peer.is_closed);
}

#[test]
fn channels_do_not_wait_but_serve_nobody_to_guess_with() {
    let world = world();
    let dial = Dial::default();
    let main = world.client();
    let mut peer = world.peer();
    peer.negotiate_hashed(&dial);
    assert_eq!(try_it(&mut peer, &guess(testkit::smb::USER)), Ok(NtStatus::LOGON_FAILURE));
    let (_bound, status) = world.try_bind(&dial, &main);
    assert_eq!(status, NtStatus::SUCCESS);
    // The session of one user with passwords of another is delayed like any other.
    let of_bert = guess("bert");
    let (_refused, status) = world.try_bind(&of_bert, &main);
    assert_eq!(status, NtStatus::LOGON_FAILURE);
    assert!(try_it(&mut peer, &of_bert).is_err());
}

#[test]
fn a_session_that_is_renewed_is_held_too_and_outlives_a_refusal() {
    let world = world();
    let (mut main, mut other) = (world.client(), world.peer());
    other.negotiate_hashed(&Dial::default());
    let wrong = guess(testkit::smb::USER);
    assert_eq!(try_it(&mut other, &wrong), Ok(NtStatus::LOGON_FAILURE));
    let mut waiting: Vec<Peer> = (0..MAX_WAITING_ATTEMPTS).map(|_| from(&world, "127.0.0.1")).collect();
    assert!(waiting.iter_mut().all(|peer| try_it(peer, &wrong).is_err()));
    let renewed = Binding::renewing(&Dial::default(), &main).finish(&mut main);
    assert_eq!(renewed, NtStatus::REQUEST_NOT_ACCEPTED);
    assert!(main.is_served());
}

#[test]
fn without_the_delay_nobody_waits() {
    let world = world();
    world.configure_server(|config| config.guess_delay_ns = 0);
    let mut peer = from(&world, "192.0.2.1");
    for _ in 0..20 {
        assert_eq!(try_it(&mut peer, &guess(testkit::smb::USER)), Ok(NtStatus::LOGON_FAILURE));
    }
}
