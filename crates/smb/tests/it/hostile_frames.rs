//! Frames that no honest client sends. Each costs its sender an error with the status of MS-SMB2, or the
//! connection. It does not affect others.

use smb::service::SmbService;
use smb_wire::header::smb1;
use smb_wire::negotiate::Dialect;
use smb_wire::{
    FileId, Header, NtStatus, SmbCommand, change_notify, close, create, echo, flush, ioctl, lock, logoff,
    oplock_break, query_directory, query_info, read, set_info, tree_disconnect, write,
};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::{ReceivedMessage, whole};
use testkit::smb::{Dial, Peer, SmbTestServer};
use wire::endpoint::{RecordPrefix, Service};

/// The commands that need a session.
const WITH_SESSION: [SmbCommand; 16] = [
    SmbCommand::Logoff,
    SmbCommand::TreeConnect,
    SmbCommand::TreeDisconnect,
    SmbCommand::Create,
    SmbCommand::Close,
    SmbCommand::Flush,
    SmbCommand::Read,
    SmbCommand::Write,
    SmbCommand::Lock,
    SmbCommand::Ioctl,
    SmbCommand::QueryDirectory,
    SmbCommand::ChangeNotify,
    SmbCommand::QueryInfo,
    SmbCommand::SetInfo,
    SmbCommand::OplockBreak,
    SmbCommand::Unknown(0x0077),
];

/// The body of a valid request of each command on an open file and an open directory.
fn valid_body(command: SmbCommand, file: FileId, directory: FileId, out: &mut Vec<u8>) {
    match command {
        SmbCommand::Create => OpenFile::named("valid").write(out),
        SmbCommand::Close => close::Request { flags: close::CloseFlags::empty(), file_id: file }.write(out),
        SmbCommand::Flush => flush::Request { reserved1: 0, file_id: file }.write(out),
        SmbCommand::Read => read::Request::new(file, 0, 16).write(out),
        SmbCommand::Write => write::Request::new(file, 0, b"sixteen letters.").write(out),
        SmbCommand::Lock => {
            lock_body(file, lock::LockFlags::EXCLUSIVE_LOCK | lock::LockFlags::FAIL_IMMEDIATELY, out)
        }
        SmbCommand::Ioctl => {
            ioctl::Request::fsctl(ioctl::CtlCode::SrvRequestResumeKey, file, &[], 32).write(out);
        }
        SmbCommand::Echo => echo::Request.write(out),
        SmbCommand::QueryDirectory => query_directory::Request {
            file_information_class: 0x25,
            flags: query_directory::QueryDirectoryFlags::RESTART_SCANS,
            file_index: 0,
            file_id: directory,
            file_name: smb_wire::Utf16::new(b"*\0").expect("whole units"),
            output_buffer_length: 4096,
        }
        .write(out),
        SmbCommand::ChangeNotify => change_notify::Request {
            flags: change_notify::ChangeNotifyFlags::empty(),
            output_buffer_length: 1024,
            file_id: directory,
            completion_filter: change_notify::CompletionFilter::FILE_NAME,
        }
        .write(out),
        SmbCommand::QueryInfo => query_info::Request {
            info_type: query_info::InfoType::File,
            file_info_class: 18,
            output_buffer_length: 1024,
            additional_information: 0,
            flags: query_info::QueryInfoFlags::empty(),
            file_id: file,
            input_buffer: &[],
        }
        .write(out),
        SmbCommand::SetInfo => set_info::Request {
            info_type: query_info::InfoType::File,
            file_info_class: 20,
            additional_information: 0,
            file_id: file,
            buffer: &7u64.to_le_bytes(),
        }
        .write(out),
        SmbCommand::OplockBreak => {
            let oplock = oplock_break::Oplock { oplock_level: create::OplockLevel::None, file_id: file };
            oplock_break::Request::Oplock(oplock).write(out);
        }
        SmbCommand::TreeDisconnect => tree_disconnect::Request.write(out),
        SmbCommand::Logoff => logoff::Request.write(out),
        _ => out.extend_from_slice(&[4, 0, 0, 0]),
    }
}

fn lock_body(file_id: FileId, flags: lock::LockFlags, out: &mut Vec<u8>) {
    let element = lock::LockElement { offset: 0, length: 10, flags };
    lock::Request {
        lock_sequence_number: 0,
        lock_sequence_index: 0,
        file_id,
        locks: smb_wire::WireList::Values(&[element]),
    }
    .write(out);
}

/// A client with an open file and an open directory.
fn client_with_opens(world: &SmbTestServer) -> (Peer, FileId, FileId) {
    let mut client = world.client();
    let file = client.open("file");
    let directory = client.create(&OpenFile::directory("directory")).file_id();
    (client, file, directory)
}

#[test]
fn before_negotiate_nothing_else_is_heard() {
    let world = SmbTestServer::in_memory();
    for command in
        WITH_SESSION.into_iter().chain([SmbCommand::SessionSetup, SmbCommand::Echo, SmbCommand::Cancel])
    {
        let mut peer = world.peer();
        peer.start(command, |out| valid_body(command, FileId::RELATED, FileId::RELATED, out));
        assert!(peer.is_closed && peer.next().is_none(), "{command:?}");
    }
}

// MS-SMB2 3.3.5.2.9
#[test]
fn without_a_session_nothing_is_done() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    for command in WITH_SESSION {
        for session_id in [0, 1, u64::MAX] {
            let mut peer = world.peer();
            assert_eq!(peer.negotiate(&Dial::default()).status(), NtStatus::SUCCESS);
            peer.session_id = session_id;
            let status =
                peer.status(command, |out| valid_body(command, FileId::RELATED, FileId::RELATED, out));
            assert_eq!(status, NtStatus::USER_SESSION_DELETED, "{command:?} {session_id}");
        }
    }
    assert_eq!(world.server.opens.len(), 0);
    assert!(bystander.is_served());
}

// MS-SMB2 3.3.5.4
#[test]
fn a_second_negotiate_closes() {
    let world = SmbTestServer::in_memory();
    let mut peer = world.client();
    peer.start(SmbCommand::Negotiate, |out| Dial::default().write_negotiate(out));
    assert!(peer.is_closed);
}

#[test]
fn negotiate_needs_a_dialect_and_a_hash() {
    let world = SmbTestServer::in_memory();
    let mut message = world.peer().message(SmbCommand::Negotiate, |out| Dial::default().write_negotiate(out));
    // DialectCount.
    message[66] = 0;
    let mut peer = world.peer();
    peer.deliver(message.clone());
    assert_eq!(peer.next().unwrap().status(), NtStatus::INVALID_PARAMETER);
    // An unknown dialect.
    message[66] = 1;
    message[100..102].copy_from_slice(&0x0999u16.to_le_bytes());
    let mut peer = world.peer();
    peer.deliver(message.clone());
    assert_eq!(peer.next().unwrap().status(), NtStatus::NOT_SUPPORTED);
    // 3.1.1 without contexts.
    message[100..102].copy_from_slice(&0x0311u16.to_le_bytes());
    message[96..98].copy_from_slice(&[0, 0]);
    let mut peer = world.peer();
    peer.deliver(message);
    assert_eq!(peer.next().unwrap().status(), NtStatus::INVALID_PARAMETER);
}

// MS-SMB2 3.3.5.4
#[test]
fn contexts_that_must_be_ignored_do_not_fail_negotiate() {
    let world = SmbTestServer::in_memory();
    let with = |contexts: &[(u16, &[u8])]| {
        let contexts = contexts.iter().map(|(kind, data)| (*kind, data.to_vec())).collect();
        let answer = world.peer().negotiate(&Dial { contexts, ..Dial::default() });
        if answer.status() == NtStatus::SUCCESS {
            let response = smb_wire::negotiate::Response::parse(&answer.message).unwrap();
            let kinds = response.contexts.iter().map(|it| it.unwrap().context_type().get());
            assert_eq!(kinds.collect::<Vec<_>>(), [1, 2, 8], "{contexts:?}", contexts = response.contexts);
        }
        answer.status()
    };
    // COMPRESSION without an algorithm, cut short, with a count larger than its data, and complete. Then
    // RDMA_TRANSFORM in the same forms, TRANSPORT of one byte, NETNAME of three, and an unknown one.
    let none = [0; 8];
    let larger = [9, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let whole = [1, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let ignored: [(u16, &[u8]); 11] = [
        (3, &none),
        (3, &larger[..3]),
        (3, &larger),
        (3, &whole),
        (7, &none),
        (7, &larger[..3]),
        (7, &larger),
        (6, &[1]),
        (5, b"abc"),
        (5, b""),
        (0x4321, b"abc"),
    ];
    for context in ignored {
        assert_eq!(with(&[context]), NtStatus::SUCCESS, "{context:?}");
    }
    // SIGNING without an algorithm, and twice.
    assert_eq!(with(&[(8, &[0, 0])]), NtStatus::INVALID_PARAMETER);
    assert_eq!(with(&[(8, &[1, 0, 1, 0])]), NtStatus::INVALID_PARAMETER);
    for kind in [3, 7] {
        assert_eq!(with(&[(kind, &none), (kind, &whole)]), NtStatus::INVALID_PARAMETER, "{kind}");
    }
}

#[test]
fn what_is_not_a_message_closes() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    let mut smb1_only = Vec::new();
    smb1::Negotiate::write_request(&[b"NT LM 0.12"], &mut smb1_only);
    let mut cut = smb1_only.clone();
    cut.truncate(30);
    let whole_header = whole(&Header::request(SmbCommand::Echo, 0), |out| echo::Request.write(out));
    let mut wrong_size = whole_header.clone();
    wrong_size[4] = 63;
    let frames: [&[u8]; 10] = [
        b"",
        b"\xfeSM",
        b"\xfeSMB",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xffSMB junk that is no NEGOTIATE",
        &smb1_only,
        &cut,
        b"\xfcSMB\x70\0\0\0\x02\0\x01\0\x10\0\0\0",
        b"\xfdSMB",
        &wrong_size,
    ];
    for frame in frames {
        for is_logged_on in [false, true] {
            let mut peer = if is_logged_on { world.client() } else { world.peer() };
            peer.deliver(frame.to_vec());
            assert!(peer.is_closed && peer.next().is_none(), "{frame:02x?}");
        }
    }
    assert!(bystander.is_served());
}

// MS-SMB2 3.3.5.3.1
#[test]
fn an_smb1_negotiate_leads_on_once() {
    let world = SmbTestServer::in_memory();
    let mut frame = Vec::new();
    smb1::Negotiate::write_request(&[b"NT LM 0.12", smb1::DIALECT_2_WILDCARD], &mut frame);
    let mut peer = world.peer();
    peer.deliver(frame.clone());
    let answer = peer.next().unwrap();
    let chosen = smb_wire::negotiate::Response::parse(&answer.message).unwrap();
    assert_eq!(chosen.dialect_revision, Dialect::Wildcard);
    peer.next_id = 1;
    peer.log_on(&Dial::default());
    peer.connect_tree(testkit::smb::SHARE);
    assert!(peer.is_served());
    peer.deliver(frame.clone());
    assert!(peer.is_closed);
    let mut twice = world.peer();
    twice.deliver(frame.clone());
    twice.deliver(frame);
    assert!(twice.is_closed);
}

// MS-SMB2 3.3.5.2.3
#[test]
fn message_ids_are_good_once_and_only_when_granted() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    let echo_with = |peer: &mut Peer, id: u64, charge: u16| {
        let mut message = peer.message(SmbCommand::Echo, |out| echo::Request.write(out));
        let header = Header::parse_mut(&mut message).unwrap();
        header.set_message_id(id);
        header.set_credit_charge(charge);
        peer.send(message);
        peer.answer(id).map(|answer| answer.status())
    };
    type Choice = fn(&Peer) -> (u64, u16);
    let hostile: [Choice; 6] = [
        // Used before.
        |_| (0, 1),
        |peer| (peer.next_id - 2, 1),
        // Far ahead.
        |peer| (peer.next_id + 9000, 1),
        |_| (u64::MAX - 1, 1),
        // One good id, and more than are granted.
        |peer| (peer.next_id, 9000),
        // The ids would exceed the largest number.
        |_| (u64::MAX, u16::MAX),
    ];
    for choose in hostile {
        let mut peer = world.client();
        let (id, charge) = choose(&peer);
        assert_eq!(echo_with(&mut peer, id, charge), None);
        assert!(peer.is_closed, "{id} {charge}");
    }
    // The same with one id left out. It stays valid.
    let mut peer = world.client();
    let left_out = peer.next_id;
    peer.next_id += 2;
    assert_eq!(echo_with(&mut peer, left_out + 1, 1), Some(NtStatus::SUCCESS));
    assert_eq!(echo_with(&mut peer, left_out, 0), Some(NtStatus::SUCCESS));
    assert_eq!(echo_with(&mut peer, left_out, 1), None);
    assert!(peer.is_closed && bystander.is_served());
}

#[test]
fn credits_are_bounded_however_many_are_asked_for() {
    let world = SmbTestServer::in_memory();
    let mut peer = world.client();
    let mut held = 64;
    for _ in 0..50 {
        let mut message = peer.message(SmbCommand::Echo, |out| echo::Request.write(out));
        Header::parse_mut(&mut message).unwrap().set_credits(u16::MAX);
        let id = peer.send(message);
        held += i64::from(peer.answer(id).unwrap().header.credits()) - 1;
    }
    assert!((1..=8192 + 64).contains(&held), "{held}");
    let beyond = peer.next_id + 8192;
    peer.next_id = beyond;
    peer.start(SmbCommand::Echo, |out| echo::Request.write(out));
    assert!(peer.is_closed);
}

#[test]
fn a_body_of_the_wrong_size_is_refused() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    let (mut client, file, directory) = client_with_opens(&world);
    for command in WITH_SESSION {
        if command == SmbCommand::TreeConnect {
            continue;
        }
        let mut body = Vec::new();
        valid_body(command, file, directory, &mut body);
        let mut wrong = body.clone();
        wrong[0] ^= 0x40;
        for bad in [wrong, Vec::new(), body[..1].to_vec(), body[..body.len().min(4) - 1].to_vec()] {
            let status = client.status(command, |out| out.extend_from_slice(&bad));
            assert_eq!(status, NtStatus::INVALID_PARAMETER, "{command:?} {bad:02x?}");
        }
    }
    assert_eq!(world.server.opens.len(), 2);
    assert!(client.is_served() && bystander.is_served());
}

#[test]
fn absurd_lengths_are_refused() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    let (mut client, file, directory) = client_with_opens(&world);
    // The position of a length in the body.
    let lengths = [
        (SmbCommand::Create, 46, 2),
        (SmbCommand::Create, 52, 4),
        (SmbCommand::Read, 4, 4),
        (SmbCommand::Write, 4, 4),
        (SmbCommand::Write, 2, 2),
        (SmbCommand::Lock, 2, 2),
        (SmbCommand::Ioctl, 28, 4),
        (SmbCommand::Ioctl, 44, 4),
        (SmbCommand::QueryDirectory, 26, 2),
        (SmbCommand::QueryDirectory, 28, 4),
        (SmbCommand::ChangeNotify, 4, 4),
        (SmbCommand::QueryInfo, 4, 4),
        (SmbCommand::QueryInfo, 12, 4),
        (SmbCommand::SetInfo, 4, 4),
    ];
    for (command, at, width) in lengths {
        for value in [u32::MAX, 0x8000_0000, 0x0080_0001, 0xfff0] {
            if width == 2 && value != u32::MAX && value != 0xfff0 {
                continue;
            }
            // The size of one credit and the largest size are valid buffers for a response.
            let is_answer_length = matches!((command, at), (SmbCommand::Read, _) | (_, 28 | 44))
                || (command == SmbCommand::ChangeNotify)
                || (command == SmbCommand::QueryInfo && at == 4);
            if value == 0xfff0 && is_answer_length {
                continue;
            }
            let mut body = Vec::new();
            valid_body(command, file, directory, &mut body);
            body[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            let status = client.status(command, |out| out.extend_from_slice(&body));
            assert_eq!(status, NtStatus::INVALID_PARAMETER, "{command:?} at {at}: {value:#x}");
        }
    }
    // The request has too few credits.
    let status = client.status(SmbCommand::Read, |out| read::Request::new(file, 0, 65537).write(out));
    assert_eq!(status, NtStatus::INVALID_PARAMETER);
    assert_eq!(client.read(file, 0, 8 * 1024 * 1024).status(), NtStatus::END_OF_FILE);
    // Beyond the end of all files.
    for offset in [u64::MAX, u64::MAX - 15, i64::MAX as u64] {
        assert_eq!(client.read(file, offset, 16).status(), NtStatus::INVALID_PARAMETER, "{offset:#x}");
        assert_eq!(client.write(file, offset, &[1; 16]), NtStatus::INVALID_PARAMETER, "{offset:#x}");
    }
    assert!(client.is_served() && bystander.is_served());
}

// MS-SMB2 3.3.5.2.7
#[test]
fn a_broken_chain_closes() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    for next in [1, 7, 63, 66, 68, 72, 0x1_0000, u32::MAX] {
        let mut peer = world.client();
        let mut message = peer.message(SmbCommand::Echo, |out| echo::Request.write(out));
        Header::parse_mut(&mut message).unwrap().set_next_command(next);
        peer.sign(&mut message);
        peer.deliver(message);
        assert!(peer.is_closed, "{next}");
    }
    // A second message that is malformed.
    let mut peer = world.client();
    let mut frame = peer.message(SmbCommand::Echo, |out| echo::Request.write(out));
    frame.resize(frame.len().next_multiple_of(8), 0);
    let next = frame.len() as u32;
    Header::parse_mut(&mut frame).unwrap().set_next_command(next);
    frame.extend_from_slice(&[0xaa; 80]);
    peer.deliver(frame);
    assert!(peer.is_closed && bystander.is_served());
}

#[test]
fn a_compound_has_a_bound() {
    let world = SmbTestServer::in_memory();
    let mut peer = world.client();
    for _ in 0..4 {
        peer.status(SmbCommand::Echo, |out| echo::Request.write(out));
    }
    let mut echoes = |count: usize| -> Vec<u8> {
        let messages = (0..count).map(|_| peer.message(SmbCommand::Echo, |out| echo::Request.write(out)));
        let messages = messages.collect();
        peer.compound(messages, false)
    };
    let (most, too_many) = (echoes(128), echoes(129));
    peer.deliver(most);
    let answers: Vec<_> = std::iter::from_fn(|| peer.next()).collect();
    assert_eq!(answers.len(), 128);
    assert!(answers.iter().all(|answer| answer.status() == NtStatus::SUCCESS && answer.is_signed));
    peer.deliver(too_many);
    assert!(peer.is_closed);
}

#[test]
fn a_response_is_no_request() {
    let world = SmbTestServer::in_memory();
    let mut peer = world.client();
    let mut message = peer.message(SmbCommand::Echo, |out| echo::Request.write(out));
    let header = Header::parse_mut(&mut message).unwrap();
    header.set_flags(header.flags() | smb_wire::header::Flags::SERVER_TO_REDIR);
    peer.deliver(message);
    assert!(peer.is_closed);
}

#[test]
fn the_transport_takes_no_record_that_is_too_long_or_none_at_all() {
    let service = SmbService(SmbTestServer::in_memory().server.clone());
    assert_eq!(service.record([0, 0, 1, 2]), RecordPrefix::Message(0x102));
    assert_eq!(service.record([0x85, 0, 0, 0]), RecordPrefix::Skip(0));
    let longest = (wire::limits::MAX_MESSAGE as u32).to_be_bytes();
    assert_eq!(service.record(longest), RecordPrefix::Message(wire::limits::MAX_MESSAGE));
    let hostile = [
        (wire::limits::MAX_MESSAGE as u32 + 1).to_be_bytes(),
        [0, 0xff, 0xff, 0xff],
        *b"GET ",
        [0x81, 0, 0, 68],
    ];
    for prefix in hostile {
        assert_eq!(service.record(prefix), RecordPrefix::Hostile, "{prefix:02x?}");
    }
}

/// Messages of unauthenticated clients are short, and the settings limit the number of such clients.
#[test]
fn strangers_get_little_room() {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| config.max_connections = 3);
    let mut peer = world.peer();
    assert_eq!(peer.max_message(), smb::limits::MAX_MESSAGE_BEFORE_LOGON);
    peer.log_on(&Dial::default());
    assert_eq!(peer.max_message(), wire::limits::MAX_MESSAGE);
    let others = [world.peer(), world.peer()];
    assert!(!world.takes_connection());
    drop(others);
    assert!(world.takes_connection());
}

/// A connection without a log-on ends after a while. A connection with one does not.
#[test]
fn a_connection_without_a_session_ends() {
    let world = SmbTestServer::in_memory();
    let (mut silent, mut slow, mut client) = (world.peer(), world.peer(), world.client());
    assert_eq!(slow.negotiate(&Dial::default()).status(), NtStatus::SUCCESS);
    for (seconds, is_closed) in [(59, false), (2, true)] {
        world.clock.advance(std::time::Duration::from_secs(seconds));
        for peer in [&mut silent, &mut slow] {
            peer.pass_deadline();
            assert_eq!(peer.is_closed, is_closed);
        }
    }
    client.pass_deadline();
    assert!(client.is_served());
}

/// A change of any byte of any request causes no panic, no second reply, and no harm to others.
#[test]
fn one_byte_changed_anywhere_harms_nobody() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    let (mut client, mut file, mut directory) = client_with_opens(&world);
    for command in WITH_SESSION.into_iter().chain([SmbCommand::Echo]) {
        let length = client.message(command, |out| valid_body(command, file, directory, out)).len();
        client.next_id -= 1;
        for at in 0..length {
            for change in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let mut message = client.message(command, |out| valid_body(command, file, directory, out));
                message[at] = if change == 0x01 { message[at].wrapping_add(1) } else { change };
                let is_header = Header::parse(&message).is_ok();
                let signable = is_header && Header::parse(&message).unwrap().next_command() == 0;
                if signable {
                    client.sign(&mut message);
                }
                let id = Header::parse(&message).map(Header::message_id);
                client.deliver(message);
                // Interim responses and break notices may come too.
                let last = |answer: &ReceivedMessage| {
                    Ok(answer.header.message_id()) == id && answer.status() != NtStatus::PENDING
                };
                let answers = std::iter::from_fn(|| client.next()).filter(last).count();
                assert!(client.is_closed || answers <= 1, "{command:?}: {answers} answers at {at}");
                refresh(&world, &mut client, &mut file, &mut directory);
            }
        }
    }
    assert!(bystander.is_served());
}

/// After a hostile request: the client's files are open again, in any case.
fn refresh(world: &SmbTestServer, client: &mut Peer, file: &mut FileId, directory: &mut FileId) {
    let has = |id: FileId| world.server.opens.get(id.volatile).is_some_and(|open| open.id == id);
    let tree = world.server.session(client.session_id).and_then(|session| session.tree(client.tree_id));
    if client.is_closed || tree.is_none() || !has(*file) || !has(*directory) {
        (*client, *file, *directory) = client_with_opens(world);
    }
}
