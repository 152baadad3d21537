//! Requests with a session, a tree or a file that belongs to another client. Each is refused with the status
//! of MS-SMB2, changes nothing, and harms nobody else.

use std::sync::Arc;

use smb::limits::{SESSION_BYTES, TREE_BYTES};
use smb::{Encryption, Signing};
use smb_wire::header::{Flags, transform};
use smb_wire::negotiate::Dialect;
use smb_wire::{FileId, Header, NtStatus, SmbCommand, create, echo, logoff, tree_disconnect, write};
use testkit::smb::client::OpenFile;
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};

/// An unsigned WRITE on `file`.
fn write_message(peer: &mut Peer, file: FileId, data: &[u8]) -> Vec<u8> {
    peer.message(SmbCommand::Write, |out| write::Request::new(file, 0, data).write(out))
}

fn answered(peer: &mut Peer, message: Vec<u8>) -> NtStatus {
    let id = Header::parse(&message).unwrap().message_id();
    peer.deliver(message);
    peer.answer(id).expect("an answer").status()
}

// MS-SMB2 3.3.5.2.4
#[test]
fn a_wrong_signature_changes_nothing() {
    for dialect in [Dialect::Smb202, Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
        let world = SmbTestServer::on_disk();
        let mut bystander = world.client();
        let mut client = world.dial(&Dial::with(dialect));
        client.make("file", b"untouched");
        let file = client.open("file");

        let mut flipped = write_message(&mut client, file, b"forged!!!");
        client.sign(&mut flipped);
        flipped[50] ^= 1;
        let mut data_changed = write_message(&mut client, file, b"forged!!!");
        client.sign(&mut data_changed);
        *data_changed.last_mut().unwrap() ^= 1;
        let mut empty = write_message(&mut client, file, b"forged!!!");
        let header = Header::parse_mut(&mut empty).unwrap();
        header.set_flags(header.flags() | Flags::SIGNED);
        let unsigned = write_message(&mut client, file, b"forged!!!");
        for message in [flipped, data_changed, empty, unsigned] {
            assert_eq!(answered(&mut client, message), NtStatus::ACCESS_DENIED, "{dialect:?}");
        }
        let create = client.message(SmbCommand::Create, |out| OpenFile::named("planted").write(out));
        assert_eq!(answered(&mut client, create), NtStatus::ACCESS_DENIED);
        assert!(!world.root().join("planted").exists());
        assert_eq!(std::fs::read(world.root().join("file")).unwrap(), b"untouched");
        // The session itself goes on.
        let log_off = client.message(SmbCommand::Logoff, |out| logoff::Request.write(out));
        assert_eq!(answered(&mut client, log_off), NtStatus::ACCESS_DENIED);
        assert!(client.is_served() && bystander.is_served());
    }
}

/// With GMAC the nonce has the message id, so a message cannot be sent again with another id.
#[test]
fn a_signed_message_is_not_good_under_another_id() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    client.make("file", b"first");
    let file = client.open("file");
    let mut message = write_message(&mut client, file, b"again");
    client.sign(&mut message);
    let copy = message.clone();
    assert_eq!(answered(&mut client, message), NtStatus::SUCCESS);
    assert_eq!(client.write(file, 0, b"newer"), NtStatus::SUCCESS);
    let mut moved = copy.clone();
    let next = client.header(SmbCommand::Write).message_id();
    Header::parse_mut(&mut moved).unwrap().set_message_id(next);
    assert_eq!(answered(&mut client, moved), NtStatus::ACCESS_DENIED);
    client.deliver(copy);
    assert!(client.is_closed);
    assert_eq!(std::fs::read(world.root().join("file")).unwrap(), b"newer");
}

#[test]
fn one_session_does_not_sign_for_another() {
    let world = SmbTestServer::in_memory();
    let mut anna = world.client();
    let mut bert = world.dial(&Dial { user: "bert".into(), ..Dial::elsewhere() });
    let file = anna.open("file");
    // A connection that does not carry the session does not have it.
    let mut message = write_message(&mut bert, file, b"forged");
    bert.sign(&mut message);
    Header::parse_mut(&mut message).unwrap().set_session_id(anna.session_id);
    assert_eq!(answered(&mut bert, message), NtStatus::USER_SESSION_DELETED);
    assert!(anna.is_served() && bert.is_served());
}

#[test]
fn an_open_belongs_to_its_session_and_tree() {
    let world = SmbTestServer::in_memory();
    let mut anna = world.client();
    let mut bert = world.dial(&Dial { user: "bert".into(), ..Dial::elsewhere() });
    let file = anna.open("file");
    assert_eq!(anna.write(file, 0, b"mine"), NtStatus::SUCCESS);
    assert_eq!(bert.read(file, 0, 4).status(), NtStatus::FILE_CLOSED);
    assert_eq!(bert.write(file, 0, b"ours"), NtStatus::FILE_CLOSED);
    assert_eq!(bert.close(file), NtStatus::FILE_CLOSED);
    // The same user in a second tree, and an id of which half is guessed.
    let first_tree = anna.tree_id;
    anna.connect_tree(SHARE);
    assert_eq!(anna.read(file, 0, 4).status(), NtStatus::FILE_CLOSED);
    anna.tree_id = first_tree;
    for wrong in [
        FileId { persistent: file.persistent + 1, ..file },
        FileId { volatile: file.volatile ^ (1 << 40), ..file },
        FileId { volatile: u64::MAX, ..file },
        FileId::RELATED,
        FileId { persistent: 0, volatile: 0 },
    ] {
        assert_eq!(anna.read(wrong, 0, 4).status(), NtStatus::FILE_CLOSED, "{wrong:?}");
    }
    // A tree that is not connected.
    anna.tree_id = 77;
    assert_eq!(anna.read(file, 0, 4).status(), NtStatus::NETWORK_NAME_DELETED);
    assert_eq!(anna.create(&OpenFile::named("other")).status(), NtStatus::NETWORK_NAME_DELETED);
    anna.tree_id = first_tree;
    assert_eq!(anna.read(file, 0, 4).data(), b"mine");
}

#[test]
fn a_session_that_was_ended_is_dead() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    let mut client = world.client();
    let file = client.open("file");
    let open_before = world.server.opens.len();
    assert_eq!(client.status(SmbCommand::Logoff, |out| logoff::Request.write(out)), NtStatus::SUCCESS);
    assert_eq!(world.server.opens.len(), open_before - 1);
    assert_eq!(client.read(file, 0, 1).status(), NtStatus::USER_SESSION_DELETED);
    assert_eq!(client.write(file, 0, b"x"), NtStatus::USER_SESSION_DELETED);
    assert_eq!(client.try_tree(SHARE).status(), NtStatus::USER_SESSION_DELETED);
    assert_eq!(
        client.status(SmbCommand::Logoff, |out| logoff::Request.write(out)),
        NtStatus::USER_SESSION_DELETED
    );
    // The same connection can log on again.
    client.keys.clear();
    assert_eq!(client.status(SmbCommand::Echo, |out| echo::Request.write(out)), NtStatus::SUCCESS);
    assert!(bystander.is_served());
}

#[test]
fn a_tree_that_was_left_is_dead_with_its_opens() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let file = client.open("file");
    let leave = |client: &mut Peer| {
        client.status(SmbCommand::TreeDisconnect, |out| tree_disconnect::Request.write(out))
    };
    assert_eq!(leave(&mut client), NtStatus::SUCCESS);
    assert_eq!(world.server.opens.len(), 0);
    assert_eq!(leave(&mut client), NtStatus::NETWORK_NAME_DELETED);
    assert_eq!(client.read(file, 0, 1).status(), NtStatus::NETWORK_NAME_DELETED);
    client.connect_tree(SHARE);
    assert!(client.is_served());
}

// MS-SMB2 3.3.5.2.1.1
#[test]
fn a_seal_that_is_not_whole_closes() {
    for dialect in [Dialect::Smb300, Dialect::Smb311] {
        let world = SmbTestServer::in_memory();
        let mut bystander = world.client();
        let dial = Dial { seals: true, ..Dial::with(dialect) };
        let mut other = world.dial(&Dial { guid: Dial::elsewhere().guid, ..dial.clone() });
        type Forgery<'a> = &'a dyn Fn(&Peer, Vec<u8>) -> Vec<u8>;
        let stranger = other.session_id;
        let forgeries: [Forgery<'_>; 8] = [
            &|peer, plain| {
                let mut sealed = peer.seal(&plain, peer.session_id);
                sealed[4] ^= 1;
                sealed
            },
            &|peer, plain| {
                let mut sealed = peer.seal(&plain, peer.session_id);
                *sealed.last_mut().unwrap() ^= 1;
                sealed
            },
            &|peer, plain| {
                let mut sealed = peer.seal(&plain, peer.session_id);
                // Another nonce.
                sealed[20] ^= 1;
                sealed
            },
            // A session of another client, and one that does not exist.
            &|peer, plain| peer.seal(&plain, stranger),
            &|peer, plain| peer.seal(&plain, 0),
            // Sealed twice, and with other contents than a message.
            &|peer, plain| peer.seal(&peer.seal(&plain, peer.session_id), peer.session_id),
            &|peer, _| peer.seal(b"\xffSMB", peer.session_id),
            &|peer, plain| peer.seal(&plain, peer.session_id)[..transform::SIZE].to_vec(),
        ];
        for (number, forge) in forgeries.iter().enumerate() {
            let mut peer = world.dial(&dial);
            let plain = peer.message(SmbCommand::Echo, |out| echo::Request.write(out));
            let frame = forge(&peer, plain);
            peer.deliver(frame);
            assert!(peer.is_closed && peer.next().is_none(), "{dialect:?}: forgery {number}");
        }
        // A valid seal around a request of another session.
        let mut peer = world.dial(&dial);
        let own = peer.session_id;
        peer.session_id = stranger;
        let plain = peer.message(SmbCommand::Logoff, |out| logoff::Request.write(out));
        peer.session_id = own;
        let frame = peer.seal(&plain, own);
        peer.deliver(frame);
        assert!(peer.is_closed);
        assert!(other.is_served() && bystander.is_served());
    }
}

#[test]
fn where_sealing_is_required_nothing_plain_is_served() {
    let world = SmbTestServer::on_disk();
    world.configure_server(|config| config.encryption = Encryption::Required);
    let mut client = world.dial(&Dial { seals: true, ..Dial::default() });
    assert!(client.is_served());
    let mut plain = client.message(SmbCommand::Create, |out| OpenFile::named("planted").write(out));
    client.sign(&mut plain);
    assert_eq!(answered(&mut client, plain), NtStatus::ACCESS_DENIED);
    assert!(!world.root().join("planted").exists());
    // A client that cannot seal does not get a session.
    let mut peer = world.peer();
    let dial = Dial::with(Dialect::Smb210);
    assert_eq!(peer.negotiate(&dial).status(), NtStatus::SUCCESS);
    assert_eq!(peer.set_up_session(&dial, [0; 64]), NtStatus::ACCESS_DENIED);
}

#[test]
fn where_a_share_requires_sealing_nothing_plain_is_served_on_it() {
    let world = SmbTestServer::on_disk();
    world.configure(|share| share.encryption = Encryption::Required);
    let mut client = world.client();
    let status = client.create(&OpenFile::named("planted")).status();
    assert_eq!(status, NtStatus::ACCESS_DENIED);
    assert!(!world.root().join("planted").exists());
    let mut old = world.peer();
    old.log_on(&Dial::with(Dialect::Smb210));
    assert_eq!(old.try_tree(SHARE).status(), NtStatus::ACCESS_DENIED);
    assert!(world.dial(&Dial { seals: true, ..Dial::default() }).is_served());
}

#[test]
fn where_signing_is_required_nothing_unsigned_is_served() {
    let world = SmbTestServer::on_disk();
    world.configure_server(|config| config.signing = Signing::Required);
    let mut client = world.dial(&Dial { requires_signing: false, ..Dial::default() });
    assert_eq!(client.create(&OpenFile::named("planted")).status(), NtStatus::ACCESS_DENIED);
    assert!(!world.root().join("planted").exists());
    assert!(world.client().is_served());
}

// MS-SMB2 3.3.5.7
#[test]
fn a_plain_tree_connect_costs_a_3_1_1_client_its_connection() {
    let world = SmbTestServer::in_memory();
    let mut peer = world.peer();
    peer.log_on(&Dial { requires_signing: false, ..Dial::default() });
    let path = smb_wire::utf16::encode(&format!("\\\\server\\{SHARE}"));
    let path = smb_wire::Utf16::new(&path).unwrap();
    peer.start(SmbCommand::TreeConnect, |out| smb_wire::tree_connect::Request::new(path).write(out));
    assert!(peer.is_closed);
}

#[test]
fn a_share_that_is_not_there_or_not_theirs_is_refused() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    for name in ["nothing", "", "files\\deeper", "..", "files\0", "ADMIN$"] {
        assert_eq!(client.try_tree(name).status(), NtStatus::BAD_NETWORK_NAME, "{name:?}");
    }
    world.configure(|share| share.users = Some(vec![("bert".into(), smb::Access::Full)]));
    assert_eq!(client.try_tree(SHARE).status(), NtStatus::ACCESS_DENIED);
}

// MS-SMB2 3.3.5.5.3
#[test]
fn only_the_same_user_replaces_a_session() {
    let world = SmbTestServer::in_memory();
    let mut anna = world.client();
    let bert = Dial { user: "bert".into(), previous_session_id: anna.session_id, ..Dial::elsewhere() };
    assert!(world.dial(&bert).is_served());
    assert!(anna.is_served());
    let again = Dial { previous_session_id: anna.session_id, ..Dial::elsewhere() };
    assert!(world.dial(&again).is_served());
    assert!(world.server.session(anna.session_id).is_none());
    anna.turn();
    anna.keys.clear();
    assert_eq!(anna.create(&OpenFile::named("late")).status(), NtStatus::USER_SESSION_DELETED);
}

/// Begins a log-on and leaves it unfinished.
fn begin_log_on(peer: &mut Peer) -> NtStatus {
    peer.session_id = 0;
    peer.status(SmbCommand::SessionSetup, testkit::smb::client::write_first_setup)
}

#[test]
fn a_connection_has_few_log_ons_half_done() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    let mut peer = world.peer();
    assert_eq!(peer.negotiate(&Dial::default()).status(), NtStatus::SUCCESS);
    for number in 0..16 {
        assert_eq!(begin_log_on(&mut peer), NtStatus::MORE_PROCESSING_REQUIRED, "{number}");
    }
    assert_eq!(begin_log_on(&mut peer), NtStatus::INSUFFICIENT_RESOURCES);
    // This connection has a session already. Reauthentications count with the others.
    for _ in 0..16 {
        assert_eq!(begin_log_on(&mut bystander), NtStatus::MORE_PROCESSING_REQUIRED);
    }
    assert_eq!(begin_log_on(&mut bystander), NtStatus::INSUFFICIENT_RESOURCES);
    // A client that does not finish a log-on in time is disconnected with all of them.
    world.clock.advance(std::time::Duration::from_secs(61));
    peer.pass_deadline();
    assert!(peer.is_closed);
    peer.hang_up();
    assert_eq!(world.server.sessions().len(), 1 + 16);
    assert!(world.client().is_served());
}

#[test]
fn a_server_has_a_bounded_number_of_log_ons_half_done() {
    let world = SmbTestServer::in_memory();
    let mut strangers = Vec::new();
    for _ in 0..4096 / 16 {
        let mut peer = world.peer();
        assert_eq!(peer.negotiate(&Dial::default()).status(), NtStatus::SUCCESS);
        (0..16).for_each(|_| assert_eq!(begin_log_on(&mut peer), NtStatus::MORE_PROCESSING_REQUIRED));
        strangers.push(peer);
    }
    let mut late = world.peer();
    assert_eq!(late.negotiate(&Dial::default()).status(), NtStatus::SUCCESS);
    assert_eq!(begin_log_on(&mut late), NtStatus::INSUFFICIENT_RESOURCES);
    // When one of them ends, others can begin.
    strangers.pop().expect("there are many").hang_up();
    assert!(world.client().is_served());
    drop(strangers);
    assert!(world.server.sessions().is_empty());
}

#[test]
fn a_session_has_a_bounded_number_of_trees() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    for _ in 1..4096 {
        assert_eq!(client.try_tree(SHARE).status(), NtStatus::SUCCESS);
    }
    assert_eq!(client.try_tree(SHARE).status(), NtStatus::INSUFFICIENT_RESOURCES);
    let left = client.status(SmbCommand::TreeDisconnect, |out| tree_disconnect::Request.write(out));
    assert_eq!(left, NtStatus::SUCCESS);
    client.connect_tree(SHARE);
    assert!(client.is_served());
}

#[test]
fn ten_thousand_opens_end_with_their_connection() {
    let world = SmbTestServer::on_disk();
    let mut bystander = world.client();
    let mut client = world.client();
    client.make("file", b"content");
    for number in 0..10_000 {
        let name = if number % 100 == 0 { format!("file {number}") } else { "file".to_owned() };
        client.open(&name);
    }
    assert_eq!((world.server.opens.len(), world.engine.open_count()), (10_000, 10_000));
    client.hang_up();
    assert_eq!((world.server.opens.len(), world.engine.open_count()), (0, 0));
    assert_eq!(world.server.sessions().len(), 1);
    assert!(bystander.is_served());
}

#[test]
fn opens_have_a_bound() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    world.engine.configure(share::Config { max_opens: 100, ..(*world.engine.config()).clone() });
    let mut client = world.client();
    let opens: Vec<_> = (0..100).map(|_| client.open("file")).collect();
    assert_eq!(client.create(&OpenFile::named("file")).status(), NtStatus::INSUFFICIENT_RESOURCES);
    assert_eq!(world.server.opens.len(), 100);
    assert_eq!(client.close(opens[7]), NtStatus::SUCCESS);
    assert!(bystander.is_served());
    let status = client.create(&OpenFile { oplock: create::OplockLevel::Batch, ..OpenFile::named("last") });
    assert_eq!(status.status(), NtStatus::SUCCESS);
}

#[test]
fn a_client_with_more_sessions_and_trees_than_there_is_memory_left_for_gets_no_more() {
    let world = SmbTestServer::in_memory();
    let memory = share::ClientMemory::bounded(20 * SESSION_BYTES);
    world.configure_server(|config| config.session_memory = Arc::clone(&memory));
    let mut bystander = world.dial(&Dial::elsewhere());
    let (mut greedy, dial) = (world.peer(), Dial::default());
    let preauth = greedy.negotiate_hashed(&dial);
    let logged_on = (0..20).map(|_| greedy.set_up_session(&dial, preauth));
    let got = logged_on.take_while(|status| *status == NtStatus::SUCCESS).count();
    assert!((8..=10).contains(&got), "{got} sessions");
    assert_eq!(greedy.set_up_session(&dial, preauth), NtStatus::INSUFFICIENT_RESOURCES);
    assert_eq!(world.server.sessions().len(), 1 + got, "nothing is left of those");
    // Trees count with the sessions.
    let free = memory.bound() - memory.used();
    let trees = (0..4000).take_while(|_| bystander.try_tree(SHARE).status() == NtStatus::SUCCESS).count();
    assert!(trees * TREE_BYTES < free && trees * TREE_BYTES > free / 4, "{trees} trees of {free} bytes");
    assert!(bystander.is_served());
    greedy.hang_up();
    bystander.hang_up();
    assert_eq!(memory.used(), 0);
}
