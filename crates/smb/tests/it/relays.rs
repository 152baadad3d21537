//! A response that a client made for another server is refused here (MS-NLMP 3.2.5.1.2).

use smb::{Spn, TargetRule};
use smb_wire::NtStatus;
use testkit::smb::{Dial, SmbTestServer};

fn log_on(world: &SmbTestServer, target: &str) -> NtStatus {
    let dial = Dial { target: target.into(), ..Dial::default() };
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(&dial);
    peer.set_up_session(&dial, preauth)
}

#[test]
fn a_name_of_this_server_is_let_in_and_another_where_all_names_are_known_is_not() {
    let world = SmbTestServer::in_memory();
    for (spn, is_complete, unknown) in [
        (Spn::Off, true, NtStatus::SUCCESS),
        (Spn::Accepted, false, NtStatus::SUCCESS),
        (Spn::Accepted, true, NtStatus::ACCESS_DENIED),
        (Spn::Required, false, NtStatus::ACCESS_DENIED),
    ] {
        let names = vec!["files.lan".to_owned()];
        world.configure_server(|config| {
            config.target = TargetRule { spn, names, realm_names: Vec::new(), is_complete, has_realm: false }
        });
        for own in
            ["cifs/server", "cifs/SERVER.example.net", "host/files.lan", "cifs/127.0.0.1", "cifs/localhost"]
        {
            assert_eq!(log_on(&world, own), NtStatus::SUCCESS, "{own} {spn:?}");
        }
        for other in ["cifs/other", "cifs/192.0.2.77"] {
            assert_eq!(log_on(&world, other), unknown, "{other} {spn:?} {is_complete}");
        }
    }
}

#[test]
fn a_response_for_a_service_of_another_kind_is_never_let_in() {
    let world = SmbTestServer::in_memory();
    assert_eq!(log_on(&world, "HTTP/server"), NtStatus::ACCESS_DENIED);
    assert_eq!(log_on(&world, "ldap/other"), NtStatus::ACCESS_DENIED);
    assert!(world.server.sessions().is_empty(), "nothing is left behind");
    world.configure_server(|config| config.target.spn = Spn::Off);
    assert_eq!(log_on(&world, "HTTP/server"), NtStatus::SUCCESS);
}

#[test]
fn a_client_that_names_no_server_is_let_in_unless_it_must() {
    let world = SmbTestServer::in_memory();
    assert_eq!(log_on(&world, ""), NtStatus::SUCCESS);
    world.configure_server(|config| config.target.spn = Spn::Required);
    assert_eq!(log_on(&world, ""), NtStatus::ACCESS_DENIED);
    assert_eq!(log_on(&world, "cifs/server"), NtStatus::SUCCESS);
}

#[test]
fn an_answer_that_comes_too_long_after_its_challenge_is_not_let_in() {
    use auth::{Initiator, InitiatorStep, Wrap};
    use smb_wire::session_setup::{self, RequestFlags};
    use smb_wire::{SmbCommand, negotiate::Capabilities};
    let world = SmbTestServer::in_memory();
    for (wait_s, wanted) in [(1800, NtStatus::SUCCESS), (1802, NtStatus::ACCESS_DENIED)] {
        let dial = Dial::default();
        let mut peer = world.peer();
        peer.negotiate_hashed(&dial);
        let mut initiator = Initiator::new(dial.identity(), Wrap::Spnego);
        let mut token = initiator.first();
        let status = loop {
            let message = peer.message(SmbCommand::SessionSetup, |out| {
                session_setup::Request {
                    flags: RequestFlags::empty(),
                    security_mode: dial.security_mode(),
                    capabilities: Capabilities::empty(),
                    previous_session_id: 0,
                    security_buffer: &token,
                }
                .write(out);
            });
            let id = smb_wire::Header::parse(&message).expect("a header").message_id();
            peer.deliver(message);
            let answer = peer.answer(id).expect("an answer");
            peer.session_id = answer.header.session_id();
            if answer.status() != NtStatus::MORE_PROCESSING_REQUIRED {
                break answer.status();
            }
            let response = session_setup::Response::parse(&answer.message).expect("a response");
            token = match initiator.step(response.security_buffer, peer.now()) {
                InitiatorStep::Continue(token) => token,
                other => panic!("{other:?}"),
            };
            world.clock.advance(std::time::Duration::from_secs(wait_s));
        };
        assert_eq!(status, wanted, "{wait_s} s");
    }
}
