//! Binding a connection to a session: the clients that may, the status for all others, and that a refusal
//! changes nothing (MS-SMB2 3.3.5.5).

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use auth::{Cipher, Signer, SigningAlgorithm};
use smb::Encryption;
use smb_wire::create::Disposition;
use smb_wire::negotiate::Dialect;
use smb_wire::session_setup::RequestFlags;
use smb_wire::{Guid, Header, NtStatus, SmbCommand, logoff};
use testkit::smb::bind::Binding;
use testkit::smb::client::{OpenFile, write_first_setup};
use testkit::smb::peer::sign_with;
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};

const DIALECTS: [Dialect; 3] = [Dialect::Smb300, Dialect::Smb302, Dialect::Smb311];

/// The number of connections that carry the session of this client.
fn channels(world: &SmbTestServer, main: &Peer) -> usize {
    world.server.session(main.session_id).map_or(0, |session| session.channel_count())
}

/// A binding that must fail with this status and change nothing.
fn refused(world: &SmbTestServer, dial: &Dial, main: &mut Peer, status: NtStatus) {
    let before = channels(world, main);
    let (mut peer, got) = world.try_bind(dial, main);
    assert_eq!(got, status);
    assert!(!peer.is_closed);
    assert_eq!(channels(world, main), before);
    assert!(main.is_served());
    // A refused connection carries no session, and can still log on for itself.
    peer.session_id = main.session_id;
    let answer = peer.create(&testkit::smb::client::OpenFile::named("stolen"));
    assert_eq!(answer.status(), NtStatus::USER_SESSION_DELETED);
    peer.keys.clear();
    let id = peer.start(SmbCommand::SessionSetup, write_first_setup);
    assert_eq!(peer.answer(id).unwrap().status(), NtStatus::USER_SESSION_DELETED);
}

#[test]
fn channels_of_a_session_share_what_it_has() {
    for dialect in DIALECTS {
        for seals in [false, true] {
            let world = SmbTestServer::in_memory();
            let dial = Dial { seals, ..Dial::with(dialect) };
            let mut main = world.dial(&dial);
            let mut second = world.bind(&dial, &main);
            let file = main.open("file");
            assert_eq!(main.write(file, 0, b"over the first"), NtStatus::SUCCESS);
            let answer = second.read(file, 5, 100);
            assert_eq!(answer.data(), b"the first");
            assert_eq!((answer.is_sealed, answer.is_signed), (seals, !seals), "{dialect:?}");
            assert_eq!(second.write(file, 0, b"OVER"), NtStatus::SUCCESS);
            assert_eq!(main.read(file, 0, 8).data(), b"OVER the");
            let other = second.open("other");
            assert_eq!(main.close(other), NtStatus::SUCCESS);
            assert_eq!(second.close(file), NtStatus::SUCCESS);
            assert_eq!(main.read(file, 0, 1).status(), NtStatus::FILE_CLOSED);
            assert!(main.is_served() && second.is_served());
        }
    }
}

/// All frames that one key seals must have different nonces, over all channels.
#[test]
fn no_two_sealed_frames_have_the_same_nonce() {
    let world = SmbTestServer::in_memory();
    let dial = Dial { seals: true, ..Dial::default() };
    let mut main = world.dial(&dial);
    let mut others: Vec<_> = (0..3).map(|_| world.bind(&dial, &main)).collect();
    for _ in 0..5 {
        assert!(main.is_served() && others.iter_mut().all(Peer::is_served));
    }
    let mut nonces: Vec<_> = others.iter().flat_map(|peer| peer.nonces.clone()).collect();
    nonces.extend(&main.nonces);
    let all = nonces.len();
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), all);
}

// MS-SMB2 3.3.5.2.4
#[test]
fn each_channel_has_a_key_of_its_own() {
    for dialect in DIALECTS {
        let world = SmbTestServer::in_memory();
        let dial = Dial::with(dialect);
        let mut main = world.dial(&dial);
        let mut second = world.bind(&dial, &main);
        let id = main.session_id;
        let (first_key, second_key) = (main.keys[&id].signer.clone(), second.keys[&id].signer.clone());
        for (peer, key) in [(&mut second, first_key), (&mut main, second_key)] {
            let mut message = peer.message(SmbCommand::Create, |out| OpenFile::named("planted").write(out));
            let asked = Header::parse(&message).unwrap().message_id();
            sign_with(&key, &mut message);
            peer.deliver(message);
            let answer = peer.answer(asked).expect("a refusal");
            // MS-SMB2 3.3.4.1.1
            assert_eq!((answer.status(), answer.is_signed), (NtStatus::ACCESS_DENIED, true), "{dialect:?}");
            assert!(peer.is_served());
        }
    }
}

#[test]
fn a_connection_of_another_dialect_is_refused() {
    let world = SmbTestServer::in_memory();
    let mut main = world.dial(&Dial::with(Dialect::Smb302));
    refused(&world, &Dial::with(Dialect::Smb300), &mut main, NtStatus::INVALID_PARAMETER);
    let cmac = Dial { signing: SigningAlgorithm::AesCmac, ..Dial::default() };
    refused(&world, &cmac, &mut main, NtStatus::INVALID_PARAMETER);
    // A session without channels, because of its dialect.
    let mut old = world.dial(&Dial::with(Dialect::Smb210));
    refused(&world, &cmac, &mut old, NtStatus::INVALID_PARAMETER);
}

#[test]
fn dialects_before_3_0_have_no_channels() {
    for dialect in [Dialect::Smb202, Dialect::Smb210] {
        let world = SmbTestServer::in_memory();
        let dial = Dial::with(dialect);
        let mut main = world.dial(&dial);
        refused(&world, &dial, &mut main, NtStatus::REQUEST_NOT_ACCEPTED);
        let mut newer = world.dial(&Dial::with(Dialect::Smb300));
        refused(&world, &dial, &mut newer, NtStatus::REQUEST_NOT_ACCEPTED);
    }
}

#[test]
fn where_multichannel_is_off_nothing_is_bound() {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| config.multichannel = false);
    for dialect in DIALECTS {
        let mut main = world.dial(&Dial::with(dialect));
        refused(&world, &Dial::with(dialect), &mut main, NtStatus::REQUEST_NOT_ACCEPTED);
    }
}

#[test]
fn an_unsigned_binding_is_refused() {
    for requires_signing in [false, true] {
        let world = SmbTestServer::in_memory();
        let dial = Dial { requires_signing, ..Dial::default() };
        let mut main = world.peer();
        main.log_on(&dial);
        let mut peer = world.peer();
        let preauth = peer.negotiate_hashed(&dial);
        let mut binding = Binding::new(&dial, &main, preauth);
        binding.signer = None;
        assert_eq!(binding.finish(&mut peer), NtStatus::INVALID_PARAMETER);
        // The same connection may succeed later, but may not leave the signature out in the middle.
        let mut binding = Binding::new(&dial, &main, preauth);
        assert_eq!(binding.step(&mut peer).status(), NtStatus::MORE_PROCESSING_REQUIRED);
        binding.signer = None;
        assert_eq!(binding.step(&mut peer).status(), NtStatus::INVALID_PARAMETER);
        assert_eq!(channels(&world, &main), 1);
        assert_eq!(Binding::new(&dial, &main, preauth).finish(&mut peer), NtStatus::SUCCESS);
    }
}

#[test]
fn a_stolen_session_id_is_of_no_use() {
    for dialect in DIALECTS {
        let world = SmbTestServer::in_memory();
        let dial = Dial::with(dialect);
        let mut main = world.dial(&dial);
        // Even the right password does not help without the session's key.
        let mut peer = world.peer();
        let preauth = peer.negotiate_hashed(&dial);
        let mut binding = Binding::new(&dial, &main, preauth);
        binding.signer = Some(Rc::new(Signer::new(dial.signing, &[7; 16])));
        let answer = binding.step(&mut peer);
        assert_eq!((answer.status(), answer.is_signed), (NtStatus::ACCESS_DENIED, false), "{dialect:?}");
        // It does not help without the flag either.
        let mut plain = Binding::new(&dial, &main, preauth);
        plain.flags = RequestFlags::empty();
        assert_eq!(plain.finish(&mut peer), NtStatus::USER_SESSION_DELETED);
        assert_eq!(channels(&world, &main), 1);
        assert!(main.is_served());
    }
}

#[test]
fn a_session_that_is_not_there_cannot_be_bound() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let mut main = world.dial(&dial);
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(&dial);
    let mut binding = Binding::new(&dial, &main, preauth);
    assert_eq!(binding.step(&mut peer).status(), NtStatus::MORE_PROCESSING_REQUIRED);
    // The session ends between two requests of the binding.
    assert_eq!(main.status(SmbCommand::Logoff, |out| logoff::Request.write(out)), NtStatus::SUCCESS);
    assert_eq!(binding.step(&mut peer).status(), NtStatus::USER_SESSION_DELETED);
    assert_eq!(Binding::new(&dial, &main, preauth).finish(&mut peer), NtStatus::USER_SESSION_DELETED);
    assert!(world.server.sessions().is_empty());
    // The connection can carry a session of its own.
    peer.keys.clear();
    assert_eq!(peer.set_up_session(&dial, preauth), NtStatus::SUCCESS);
    peer.connect_tree(SHARE);
    assert!(peer.is_served());
}

#[test]
fn a_session_whose_log_on_is_not_done_cannot_be_bound() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let main = world.dial(&dial);
    let mut begun = world.peer();
    begun.negotiate_hashed(&dial);
    let id = begun.start(SmbCommand::SessionSetup, write_first_setup);
    let under_way = begun.answer(id).unwrap().header.session_id();
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(&dial);
    for from in [&mut peer, &mut begun] {
        // Signed with an available key, since there is no right key yet.
        let mut binding = Binding::new(&dial, &main, preauth);
        binding.session_id = under_way;
        assert_eq!(binding.step(from).status(), NtStatus::REQUEST_NOT_ACCEPTED);
    }
    assert_eq!(world.server.sessions().len(), 2);
}

#[test]
fn an_anonymous_session_cannot_be_bound() {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| config.anonymous = true);
    let dial =
        Dial { user: String::new(), password: String::new(), requires_signing: false, ..Dial::default() };
    let mut main = world.peer();
    main.log_on(&dial);
    let (_, status) = world.try_bind(&dial, &main);
    assert_eq!(status, NtStatus::NOT_SUPPORTED);
    assert_eq!(channels(&world, &main), 1);
}

// MS-SMB2 3.3.5.2.1.1
#[test]
fn a_seal_on_a_connection_on_which_nobody_has_a_name_ends_it() {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| config.anonymous = true);
    let dial =
        Dial { user: String::new(), password: String::new(), requires_signing: false, ..Dial::default() };
    let mut peer = world.peer();
    peer.log_on(&dial);
    let echo = peer.message(SmbCommand::Echo, |out| out.extend([4, 0, 0, 0]));
    let sealed = peer.seal(&echo, peer.session_id);
    peer.deliver(sealed);
    assert!(peer.is_closed && peer.next().is_none());
}

#[test]
fn a_connection_that_carries_the_session_is_refused() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let mut main = world.dial(&dial);
    let own = Binding::new(&dial, &main, [0; 64]).step(&mut main);
    assert_eq!(own.status(), NtStatus::REQUEST_NOT_ACCEPTED);
    let mut second = world.bind(&dial, &main);
    let mut again = Binding::new(&dial, &second, [0; 64]);
    again.signer = Some(second.keys[&second.session_id].signer.clone());
    let kept = second.keys[&second.session_id].clone();
    assert_eq!(again.step(&mut second).status(), NtStatus::REQUEST_NOT_ACCEPTED);
    second.keys.insert(second.session_id, kept);
    assert_eq!(channels(&world, &main), 2);
    assert!(second.is_served());
}

#[test]
fn another_user_cannot_bind_the_session() {
    let world = SmbTestServer::in_memory();
    let mut main = world.dial(&Dial::default());
    let bert = Dial { user: "bert".into(), ..Dial::default() };
    refused(&world, &bert, &mut main, NtStatus::ACCESS_DENIED);
}

/// The hash for the channel's key is that of its own connection and log-on, not that of an earlier failure.
#[test]
fn a_channel_whose_first_log_on_failed_can_be_bound() {
    for dialect in DIALECTS {
        let world = SmbTestServer::in_memory();
        let dial = Dial::with(dialect);
        let mut main = world.dial(&dial);
        let mut peer = world.peer();
        let preauth = peer.negotiate_hashed(&dial);
        let wrong = Dial { password: "guess".into(), ..dial.clone() };
        for _ in 0..2 {
            let status = Binding::new(&wrong, &main, preauth).finish(&mut peer);
            assert_eq!(status, NtStatus::LOGON_FAILURE, "{dialect:?}");
            assert_eq!(channels(&world, &main), 1);
            assert!(main.is_served());
        }
        let status = Binding::new(&dial, &main, preauth).finish(&mut peer);
        assert_eq!(status, NtStatus::SUCCESS, "{dialect:?}");
        peer.tree_id = main.tree_id;
        assert!(peer.is_served() && main.is_served());
    }
}

// MS-SMB2 3.3.5.5
#[test]
fn the_client_guid_is_not_what_tells_the_client() {
    let world = SmbTestServer::in_memory();
    let mut main = world.client();
    let other = Dial { guid: Guid(*b"a second machine"), ..Dial::default() };
    let mut second = world.bind(&other, &main);
    assert!(main.is_served() && second.is_served());
}

#[test]
fn a_connection_with_another_cipher_is_refused() {
    let world = SmbTestServer::in_memory();
    let mut main = world.client();
    for cipher in [Some(Cipher::Aes128Ccm), Some(Cipher::Aes256Gcm), None] {
        refused(&world, &Dial { cipher, ..Dial::default() }, &mut main, NtStatus::INVALID_PARAMETER);
    }
}

// MS-SMB2 3.3.5.2.9
#[test]
fn no_channel_of_a_sealed_session_takes_a_request_that_is_not_sealed() {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| config.encryption = Encryption::Required);
    let dial = Dial { seals: true, ..Dial::default() };
    let mut main = world.dial(&dial);
    let mut second = world.bind(&dial, &main);
    assert!(main.is_served() && second.is_served());
    for peer in [&mut second, &mut main] {
        for is_signed in [true, false] {
            let mut plain = peer.message(SmbCommand::Create, |out| OpenFile::named("plain").write(out));
            let id = Header::parse(&plain).unwrap().message_id();
            if is_signed {
                peer.sign(&mut plain);
            }
            peer.deliver(plain);
            assert_eq!(peer.answer(id).unwrap().status(), NtStatus::ACCESS_DENIED);
            assert!(peer.is_served());
        }
    }
    let looked = second.create(&OpenFile { disposition: Disposition::Open, ..OpenFile::named("plain") });
    assert_eq!(looked.status(), NtStatus::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn gmac_does_not_mix_with_older_ways_of_signing_and_these_mix() {
    use SigningAlgorithm::{AesCmac, AesGmac, HmacSha256};
    let dial = |signing| Dial { signing, ..Dial::default() };
    let world = SmbTestServer::in_memory();
    for (of_session, of_channel, status) in [
        (AesGmac, AesCmac, NtStatus::REQUEST_OUT_OF_SEQUENCE),
        (AesGmac, HmacSha256, NtStatus::REQUEST_OUT_OF_SEQUENCE),
        (AesCmac, AesGmac, NtStatus::NOT_SUPPORTED),
        (HmacSha256, AesGmac, NtStatus::NOT_SUPPORTED),
    ] {
        refused(&world, &dial(of_channel), &mut world.dial(&dial(of_session)), status);
    }
    for (of_session, of_channel) in [(AesCmac, HmacSha256), (HmacSha256, AesCmac)] {
        let mut main = world.dial(&dial(of_session));
        let mut second = world.bind(&dial(of_channel), &main);
        assert!(main.is_served() && second.is_served());
    }
}

#[test]
fn a_session_has_a_bounded_number_of_channels() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let mut main = world.dial(&dial);
    let mut others: Vec<_> = (0..3).map(|_| world.bind(&dial, &main)).collect();
    refused(&world, &dial, &mut main, NtStatus::INSUFFICIENT_RESOURCES);
    assert!(others.iter_mut().all(Peer::is_served));
    // Two connections come at once for the one free place.
    others.pop().unwrap().hang_up();
    let (mut one, mut two) = (world.peer(), world.peer());
    let mut first = Binding::new(&dial, &main, one.negotiate_hashed(&dial));
    let mut second = Binding::new(&dial, &main, two.negotiate_hashed(&dial));
    assert_eq!(first.step(&mut one).status(), NtStatus::MORE_PROCESSING_REQUIRED);
    assert_eq!(second.step(&mut two).status(), NtStatus::MORE_PROCESSING_REQUIRED);
    assert_eq!(second.step(&mut two).status(), NtStatus::SUCCESS);
    assert_eq!(first.step(&mut one).status(), NtStatus::INSUFFICIENT_RESOURCES);
    two.tree_id = main.tree_id;
    assert!(main.is_served() && two.is_served());
}

#[test]
fn a_silent_channel_gives_its_place_up_to_a_client_that_goes_on_asking() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let mut main = world.dial(&dial);
    let mut others: Vec<_> = (0..3).map(|_| world.bind(&dial, &main)).collect();
    let in_use = |main: &mut Peer, others: &mut [Peer]| {
        world.advance(Duration::from_millis(100));
        assert!(main.is_served() && others[0].is_served() && others[2].is_served());
    };
    // Requests for one more than the limit, and again much later, change nothing, however silent a channel
    // is.
    for _ in 0..3 {
        refused(&world, &dial, &mut main, NtStatus::INSUFFICIENT_RESOURCES);
        world.advance(Duration::from_secs(60));
        in_use(&mut main, &mut others);
    }
    for _ in 0..3 {
        refused(&world, &dial, &mut main, NtStatus::INSUFFICIENT_RESOURCES);
        in_use(&mut main, &mut others);
    }
    let mut in_its_place = world.bind(&dial, &main);
    assert_eq!(channels(&world, &main), 4);
    assert!(in_its_place.is_served() && main.is_served() && others[0].is_served() && others[2].is_served());
    others[1].turn();
    assert!(others[1].is_closed);
}

#[test]
fn a_lost_channel_gives_its_place_up_at_once_to_a_client_that_never_wanted_more() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let mut main = world.dial(&dial);
    let mut others: Vec<_> = (0..3).map(|_| world.bind(&dial, &main)).collect();
    world.advance(Duration::from_secs(3));
    assert!(main.is_served() && others[0].is_served() && others[2].is_served());
    let mut in_its_place = world.bind(&dial, &main);
    assert_eq!(channels(&world, &main), 4);
    assert!(in_its_place.is_served() && main.is_served() && others[0].is_served() && others[2].is_served());
    others[1].turn();
    assert!(others[1].is_closed);
    // It is one loss, in any form.
    others.remove(1).hang_up();
    let session = world.server.session(main.session_id).unwrap();
    assert_eq!(session.failures.load(Ordering::Relaxed), 1);
    others.remove(0).hang_up();
    assert_eq!(session.failures.load(Ordering::Relaxed), 2);
}

#[test]
fn a_silent_channel_keeps_its_place_until_the_user_is_proved() {
    for max_channels in [1, 2] {
        let world = SmbTestServer::in_memory();
        world.configure_server(|config| config.max_channels = max_channels);
        let dial = Dial::default();
        let mut main = world.dial(&dial);
        let mut others: Vec<_> = (1..max_channels).map(|_| world.bind(&dial, &main)).collect();
        world.advance(Duration::from_secs(3));
        let (_, status) = world.try_bind(&Dial { password: "guess".into(), ..dial.clone() }, &main);
        assert_eq!(status, NtStatus::LOGON_FAILURE);
        assert_eq!(channels(&world, &main), max_channels);
        assert!(main.is_served() && others.iter_mut().all(Peer::is_served));
        // A connection with an authenticated user replaces it, and the session goes on though it was the
        // only channel.
        world.advance(Duration::from_secs(3));
        let file = main.open("file");
        world.advance(Duration::from_secs(3));
        assert!(others.iter_mut().all(Peer::is_served));
        let mut next = world.bind(&dial, &main);
        main.turn();
        assert!(main.is_closed);
        main.hang_up();
        assert_eq!(next.write(file, 0, b"goes on"), NtStatus::SUCCESS);
    }
}

#[test]
fn no_channel_in_use_gives_its_place_up() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let mut main = world.dial(&dial);
    let mut others: Vec<_> = (0..3).map(|_| world.bind(&dial, &main)).collect();
    for _ in 0..10 {
        refused(&world, &dial, &mut main, NtStatus::INSUFFICIENT_RESOURCES);
        world.advance(Duration::from_secs(1));
        assert!(main.is_served() && others.iter_mut().all(Peer::is_served));
    }
}

#[test]
fn a_connection_begins_a_bounded_number_of_bindings() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let main = world.dial(&dial);
    let mut peer = world.peer();
    let preauth = peer.negotiate_hashed(&dial);
    for _ in 0..16 {
        peer.session_id = 0;
        let id = peer.start(SmbCommand::SessionSetup, write_first_setup);
        assert_eq!(peer.answer(id).unwrap().status(), NtStatus::MORE_PROCESSING_REQUIRED);
    }
    let status = Binding::new(&dial, &main, preauth).finish(&mut peer);
    assert_eq!(status, NtStatus::INSUFFICIENT_RESOURCES);
    assert_eq!(channels(&world, &main), 1);
}
