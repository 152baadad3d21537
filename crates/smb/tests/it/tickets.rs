//! Log-ons with Kerberos tickets: on the blocking pool, with the ticket's keys, until the ticket ends.

use std::rc::Rc;
use std::time::Duration;

use auth::Cipher;
use auth::spnego::{self, KERBEROS, NegTokenInit};
use smb::account::Demands;
use smb::{AccountConfig, Ntlm};
use smb_wire::negotiate::{Capabilities, SecurityMode};
use smb_wire::session_setup::{self, RequestFlags};
use smb_wire::{Header, NtStatus, SmbCommand};
use testkit::smb::bind::Binding;
use testkit::smb::client::{OpenFile, Transcript, USER};
use testkit::smb::peer::sign_with;
use testkit::smb::ticket::{REALM, SESSION_KEY, kerberos, ticket};
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};

const HOUR: Duration = Duration::from_secs(3600);

fn world() -> SmbTestServer {
    let world = SmbTestServer::in_memory();
    let users = world.server.users();
    world.configure_server(|config| config.kerberos = Some(kerberos(users)));
    world
}

fn of(user: &str) -> String {
    format!("{user}@{REALM}")
}

fn logged_on(world: &SmbTestServer, dial: &Dial, lifetime: Duration) -> Peer {
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(dial);
    let status = peer.log_on_with_ticket(dial, preauth, &ticket(&of(USER), lifetime), 0);
    assert_eq!(status, NtStatus::SUCCESS);
    peer.connect_tree(SHARE);
    peer
}

#[test]
fn a_ticket_logs_on_with_every_cipher() {
    let world = world();
    let ciphers = [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm];
    for cipher in ciphers.map(Some).into_iter().chain([None]) {
        let dial = Dial { cipher, seals: cipher.is_some(), ..Dial::default() };
        let mut peer = logged_on(&world, &dial, HOUR);
        peer.make("written.txt", b"by a ticket");
        let id = peer.open("written.txt");
        assert_eq!(peer.read(id, 0, 100).data(), b"by a ticket", "{cipher:?}");
    }
}

#[test]
fn a_principal_that_nobody_knows_and_a_bad_ticket_are_refused() {
    let world = world();
    let dial = Dial::default();
    let skewed = format!("{} skewed", of(USER)).into_bytes();
    for (ticket, status) in [
        (ticket("zoe@TEST.NET", HOUR), NtStatus::LOGON_FAILURE),
        (ticket("anna@OTHER.NET", HOUR), NtStatus::LOGON_FAILURE),
        (format!("{} bad", of(USER)).into_bytes(), NtStatus::LOGON_FAILURE),
        (b"noise".to_vec(), NtStatus::INVALID_PARAMETER),
        (skewed, NtStatus::TIME_DIFFERENCE_AT_DC),
    ] {
        let mut peer = world.peer();
        let preauth = peer.negotiate_hashed(&dial);
        assert_eq!(peer.log_on_with_ticket(&dial, preauth, &ticket, 0), status);
        assert_eq!(world.server.sessions().len(), 0);
    }
}

// MS-SMB2 3.3.5.2.9
#[test]
fn a_session_ends_with_its_ticket_and_a_new_ticket_keeps_its_opens() {
    let world = world();
    let dial = Dial::default();
    let mut peer = logged_on(&world, &dial, Duration::from_secs(10));
    let (kept, closed) = (peer.open("kept.txt"), peer.open("closed.txt"));
    world.advance(Duration::from_secs(10));
    assert_eq!(peer.write(kept, 0, b"too late"), NtStatus::NETWORK_SESSION_EXPIRED);
    assert_eq!(peer.create(&OpenFile::named("new.txt")).status(), NtStatus::NETWORK_SESSION_EXPIRED);
    assert_eq!(peer.close(closed), NtStatus::SUCCESS, "what frees something is still carried out");
    let (session, preauth) = (peer.session_id, peer.preauth);
    let renewal = ticket(&of(USER), HOUR);
    assert_eq!(peer.log_on_with_ticket(&dial, preauth, &renewal, session), NtStatus::SUCCESS);
    assert_eq!(peer.session_id, session);
    let counted = || (world.server.ticket_ends.expired(), world.server.ticket_ends.reauthenticated());
    assert_eq!(counted(), (1, 1), "two requests were refused for one end");
    assert_eq!(peer.write(kept, 0, b"in time"), NtStatus::SUCCESS);
    assert_eq!(peer.read(kept, 0, 100).data(), b"in time");
    world.advance(HOUR);
    assert_eq!(peer.write(kept, 0, b"late again"), NtStatus::NETWORK_SESSION_EXPIRED);
    assert_eq!(counted(), (2, 1));
    assert_eq!(
        peer.status(SmbCommand::Logoff, |out| smb_wire::logoff::Request.write(out)),
        NtStatus::SUCCESS
    );
}

#[test]
fn an_account_without_ntlm_takes_tickets_alone_also_to_renew_a_session() {
    let (world, dial) = (world(), Dial::default());
    let configure = |rule: Option<Ntlm>| {
        let account = rule.map(|ntlm| AccountConfig {
            name: "strict".into(),
            users: vec![USER.into()],
            demands: Demands { ntlm, ..Demands::default() },
            ..AccountConfig::default()
        });
        let users = world.server.users();
        world.configure_server(|config| {
            (config.kerberos, config.accounts) = (Some(kerberos(users)), account.into_iter().collect());
        });
    };
    for (ntlm, status) in [(Ntlm::Off, NtStatus::ACCESS_DENIED), (Ntlm::Local, NtStatus::SUCCESS)] {
        configure(Some(ntlm));
        let mut peer = world.peer();
        let preauth = peer.negotiate_hashed(&dial);
        assert_eq!(peer.set_up_session(&dial, preauth), status);
        peer.hang_up();
    }
    for (rule, status) in [(None, NtStatus::SUCCESS), (Some(Ntlm::Off), NtStatus::ACCESS_DENIED)] {
        configure(rule);
        let mut peer = logged_on(&world, &dial, HOUR);
        assert_eq!(Binding::renewing(&dial, &peer).finish(&mut peer), status);
        assert_eq!(world.server.sessions().is_empty(), status != NtStatus::SUCCESS);
        peer.hang_up();
    }
}

#[test]
fn another_users_ticket_does_not_renew_a_session() {
    let world = world();
    let dial = Dial::default();
    let mut peer = logged_on(&world, &dial, HOUR);
    let (session, preauth) = (peer.session_id, peer.preauth);
    let other = ticket(&of("bert"), HOUR);
    assert_eq!(peer.log_on_with_ticket(&dial, preauth, &other, session), NtStatus::ACCESS_DENIED);
    assert_eq!(world.server.sessions().len(), 0);
}

#[test]
fn a_ticket_is_judged_off_the_connections_thread_and_nothing_overtakes_it() {
    let world = world();
    let dial = Dial::default();
    let mut peer = world.peer();
    peer.negotiate_hashed(&dial);
    peer.holds_jobs = true;
    let token = token(&ticket(&of(USER), HOUR));
    let first = peer.start(SmbCommand::SessionSetup, |out| request(&token).write(out));
    assert_eq!((peer.held_jobs(), peer.answer(first).is_none()), (1, true));
    // A second token for the same log-on, before the answer to the first one.
    let session = world.server.sessions().first().map(|session| session.id).expect("it is in progress");
    peer.session_id = session;
    let second = peer.start(SmbCommand::SessionSetup, |out| request(&token).write(out));
    let refused = peer.answer(second).expect("it is refused at once");
    assert_eq!(refused.status(), NtStatus::REQUEST_NOT_ACCEPTED);
    peer.run_jobs();
    assert_eq!(peer.answer(first).expect("the log-on goes on").status(), NtStatus::SUCCESS);
}

#[test]
fn a_second_binding_while_a_ticket_is_judged_does_not_change_the_channels_key() {
    let world = world();
    let dial = Dial::default();
    let main = logged_on(&world, &dial, HOUR);
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(&dial);
    (peer.holds_jobs, peer.session_id) = (true, main.session_id);
    let token = token(&ticket(&of(USER), HOUR));
    let mut keys = main.keys[&main.session_id].clone();
    let bind = |peer: &mut Peer| {
        let flags = RequestFlags::BINDING;
        let mut message = peer.message(SmbCommand::SessionSetup, |out| {
            session_setup::Request { flags, ..request(&token) }.write(out);
        });
        sign_with(&keys.session, &mut message);
        let id = Header::parse(&message).expect("a header").message_id();
        (id, message)
    };
    let (first, message) = bind(&mut peer);
    // Client and server make the channel's key from this message alone.
    let mut transcript = Transcript(preauth);
    transcript.add(&message);
    peer.deliver(message);
    let (second, message) = bind(&mut peer);
    peer.deliver(message);
    let refused = peer.answer(second).expect("it is refused at once");
    assert_eq!(refused.status(), NtStatus::REQUEST_NOT_ACCEPTED);
    let key = SESSION_KEY.first_chunk().expect("it is longer");
    keys.signer = Rc::new(smb::keys::signer(dial.protection(), key, &transcript.0));
    peer.keys.insert(main.session_id, keys);
    peer.run_jobs();
    let bound = peer.answer(first).expect("the binding goes on");
    assert_eq!((bound.status(), bound.is_signed), (NtStatus::SUCCESS, true), "its signature was checked");
    peer.tree_id = main.tree_id;
    peer.make("by-the-second-channel.txt", b"signed with its key");
}

#[test]
fn a_judgment_belongs_to_its_own_binding() {
    let world = world();
    let dial = Dial::default();
    let mut main = logged_on(&world, &dial, HOUR);
    let mut peer = world.peer();
    peer.negotiate_hashed(&dial);
    (peer.holds_jobs, peer.session_id) = (true, main.session_id);
    let token = token(&ticket(&of(USER), HOUR));
    let mut message = peer.message(SmbCommand::SessionSetup, |out| {
        session_setup::Request { flags: RequestFlags::BINDING, ..request(&token) }.write(out);
    });
    sign_with(&main.keys[&main.session_id].session, &mut message);
    let id = Header::parse(&message).expect("a header").message_id();
    peer.deliver(message);
    // The session ends while the ticket is judged.
    main.status(SmbCommand::Logoff, |out| smb_wire::logoff::Request.write(out));
    peer.run_jobs();
    let refused = peer.answer(id).expect("an answer");
    assert_eq!(refused.status(), NtStatus::USER_SESSION_DELETED);
}

#[test]
fn a_connection_that_is_lost_while_its_ticket_is_judged_leaves_no_session() {
    let world = world();
    let mut peer = world.peer();
    peer.negotiate_hashed(&Dial::default());
    peer.holds_jobs = true;
    let token = token(&ticket(&of(USER), HOUR));
    peer.start(SmbCommand::SessionSetup, |out| request(&token).write(out));
    let jobs = peer.take_jobs();
    peer.hang_up();
    jobs();
    assert_eq!(world.server.sessions().len(), 0);
}

#[test]
fn without_ntlm_a_password_is_refused_and_the_first_token_does_not_offer_it() {
    let world = world();
    let users = world.server.users();
    world.configure_server(|config| {
        config.kerberos = Some(kerberos(users));
        config.ntlm = false;
    });
    let dial = Dial::default();
    let mut peer = world.peer();
    let answer = peer.negotiate(&dial);
    let response = smb_wire::negotiate::Response::parse(&answer.message).expect("a response");
    assert!(!auth::takes_ntlm(response.security_buffer));
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(&dial);
    assert_eq!(peer.set_up_session(&dial, preauth), NtStatus::NTLM_BLOCKED);
    logged_on(&world, &Dial::elsewhere(), HOUR);
}

fn token(ticket: &[u8]) -> Vec<u8> {
    let mechs = spnego::mech_list(&[KERBEROS]);
    NegTokenInit { mechs: Vec::new(), mech_list: &mechs, mech_token: Some(ticket) }.encode()
}

fn request(token: &[u8]) -> session_setup::Request<'_> {
    session_setup::Request {
        flags: RequestFlags::empty(),
        security_mode: SecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities::empty(),
        previous_session_id: 0,
        security_buffer: token,
    }
}
