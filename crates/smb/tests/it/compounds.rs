//! Compounds of several requests: the values that a related request inherits from the previous one, and the
//! status if there is nothing to inherit (MS-SMB2 3.3.5.2.7).

use smb_wire::create::Disposition;
use smb_wire::header::Flags;
use smb_wire::{FileId, Header, NtStatus, SmbCommand, close, echo, read, utf16, write};
use testkit::smb::client::OpenFile;
use testkit::smb::{Dial, Peer, SmbTestServer};

/// One request of a compound.
enum CompoundStep<'a> {
    Create(&'a str, Disposition),
    Write(FileId, &'a [u8]),
    Read(FileId),
    Close(FileId),
    Tree(&'a str),
    Echo,
}

const BEFORE: FileId = FileId::RELATED;

impl CompoundStep<'_> {
    fn message(&self, client: &mut Peer) -> Vec<u8> {
        match *self {
            CompoundStep::Create(name, disposition) => client.message(SmbCommand::Create, |out| {
                OpenFile { disposition, ..OpenFile::named(name) }.write(out);
            }),
            CompoundStep::Write(id, data) => {
                client.message(SmbCommand::Write, |out| write::Request::new(id, 0, data).write(out))
            }
            CompoundStep::Read(id) => {
                client.message(SmbCommand::Read, |out| read::Request::new(id, 0, 100).write(out))
            }
            CompoundStep::Close(file_id) => client.message(SmbCommand::Close, |out| {
                close::Request { flags: close::CloseFlags::empty(), file_id }.write(out);
            }),
            CompoundStep::Tree(name) => {
                let path = utf16::encode(&format!("\\\\server\\{name}"));
                let path = smb_wire::Utf16::new(&path).expect("whole units");
                client.message(SmbCommand::TreeConnect, |out| {
                    smb_wire::tree_connect::Request::new(path).write(out);
                })
            }
            CompoundStep::Echo => client.message(SmbCommand::Echo, |out| echo::Request.write(out)),
        }
    }
}

/// Sends the steps as one related compound and returns their statuses.
fn related(client: &mut Peer, steps: &[CompoundStep<'_>]) -> Vec<NtStatus> {
    let mut messages: Vec<_> = steps.iter().map(|step| step.message(client)).collect();
    for message in &mut messages[1..] {
        let header = Header::parse_mut(message).expect("a header");
        // All bits set stand for an inherited id.
        header.set_tree_id(u32::MAX);
        if client.keys[&client.session_id].seals {
            header.set_session_id(u64::MAX);
        }
    }
    let frame = client.compound(messages, true);
    client.deliver(frame);
    let answers: Vec<_> = std::iter::from_fn(|| client.next()).collect();
    assert!(answers.iter().all(|answer| answer.frame == answers[0].frame), "all in one frame");
    assert!(answers[1..].iter().all(|answer| answer.header.is_related()));
    answers.iter().map(testkit::smb::peer::ReceivedMessage::status).collect()
}

#[test]
fn a_file_is_made_written_read_and_closed_in_one_frame() {
    for seals in [false, true] {
        let world = SmbTestServer::on_disk();
        let mut client = world.dial(&Dial { seals, ..Dial::default() });
        let steps = [
            CompoundStep::Create("file", Disposition::Create),
            CompoundStep::Write(BEFORE, b"content"),
            CompoundStep::Read(BEFORE),
            CompoundStep::Close(BEFORE),
        ];
        assert_eq!(related(&mut client, &steps), [NtStatus::SUCCESS; 4], "sealed: {seals}");
        assert_eq!(std::fs::read(world.root().join("file")).unwrap(), b"content");
        assert_eq!(world.server.opens.len(), 0);
    }
}

// MS-SMB2 3.3.5.2.7.2
#[test]
fn what_stands_behind_a_failed_create_fails_like_it() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let steps = [
        CompoundStep::Create("missing", Disposition::Open),
        CompoundStep::Write(BEFORE, b"content"),
        CompoundStep::Read(BEFORE),
        CompoundStep::Close(BEFORE),
    ];
    assert_eq!(related(&mut client, &steps), [NtStatus::OBJECT_NAME_NOT_FOUND; 4]);
    let steps = [CompoundStep::Create("a*", Disposition::Create), CompoundStep::Close(BEFORE)];
    assert_eq!(related(&mut client, &steps), [NtStatus::OBJECT_NAME_INVALID; 2]);
    // A request that names a file is independent.
    let file = client.open("file");
    assert_eq!(client.write(file, 0, b"content"), NtStatus::SUCCESS);
    let steps = [
        CompoundStep::Create("missing", Disposition::Open),
        CompoundStep::Read(file),
        CompoundStep::Close(BEFORE),
    ];
    let statuses = related(&mut client, &steps);
    assert_eq!(statuses, [NtStatus::OBJECT_NAME_NOT_FOUND, NtStatus::SUCCESS, NtStatus::SUCCESS]);
    assert_eq!(world.server.opens.len(), 0);
}

#[test]
fn a_second_create_is_what_the_next_ones_mean() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let steps = [
        CompoundStep::Create("first", Disposition::Create),
        CompoundStep::Create("second", Disposition::Create),
        CompoundStep::Write(BEFORE, b"to the second"),
        CompoundStep::Close(BEFORE),
        CompoundStep::Read(BEFORE),
    ];
    let expected =
        [NtStatus::SUCCESS, NtStatus::SUCCESS, NtStatus::SUCCESS, NtStatus::SUCCESS, NtStatus::FILE_CLOSED];
    assert_eq!(related(&mut client, &steps), expected);
    assert_eq!(std::fs::read(world.root().join("second")).unwrap(), b"to the second");
    assert_eq!(std::fs::read(world.root().join("first")).unwrap(), b"");
    assert_eq!(world.server.opens.len(), 1);
}

#[test]
fn nothing_before_it_gives_nothing_to_take_over() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    let mut client = world.client();
    // Related although it is the first of its frame.
    for command in [SmbCommand::Create, SmbCommand::Echo, SmbCommand::Close] {
        let mut message = match command {
            SmbCommand::Create => CompoundStep::Create("file", Disposition::OpenIf).message(&mut client),
            SmbCommand::Echo => CompoundStep::Echo.message(&mut client),
            _ => CompoundStep::Close(BEFORE).message(&mut client),
        };
        let header = Header::parse_mut(&mut message).unwrap();
        header.set_flags(header.flags() | Flags::RELATED_OPERATIONS);
        let id = client.send(message);
        assert_eq!(client.answer(id).unwrap().status(), NtStatus::INVALID_PARAMETER, "{command:?}");
    }
    // Not related, with the id that stands for the previous one.
    assert_eq!(client.close(BEFORE), NtStatus::FILE_CLOSED);
    // The previous request has no file.
    let steps =
        [CompoundStep::Tree(testkit::smb::SHARE), CompoundStep::Read(BEFORE), CompoundStep::Close(BEFORE)];
    let statuses = related(&mut client, &steps);
    assert_eq!(statuses, [NtStatus::SUCCESS, NtStatus::INVALID_PARAMETER, NtStatus::INVALID_PARAMETER]);
    assert_eq!(world.server.opens.len(), 0);
    assert!(client.is_served() && bystander.is_served());
}

#[test]
fn a_tree_and_a_file_in_one_frame() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let steps = [
        CompoundStep::Tree(testkit::smb::SHARE),
        CompoundStep::Create("file", Disposition::OpenIf),
        CompoundStep::Write(BEFORE, b"content"),
        CompoundStep::Close(BEFORE),
    ];
    assert_eq!(related(&mut client, &steps), [NtStatus::SUCCESS; 4]);
    let steps = [
        CompoundStep::Tree("nothing"),
        CompoundStep::Create("file", Disposition::OpenIf),
        CompoundStep::Close(BEFORE),
    ];
    let statuses = related(&mut client, &steps);
    let none = NtStatus::INVALID_PARAMETER;
    assert_eq!(statuses, [NtStatus::BAD_NETWORK_NAME, none, none]);
    assert_eq!(world.server.opens.len(), 0);
}

#[test]
fn an_unrelated_compound_shares_nothing() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let create = CompoundStep::Create("file", Disposition::OpenIf).message(&mut client);
    let read = CompoundStep::Read(BEFORE).message(&mut client);
    let echo = CompoundStep::Echo.message(&mut client);
    let frame = client.compound(vec![create, read, echo], false);
    client.deliver(frame);
    let statuses: Vec<_> = std::iter::from_fn(|| client.next()).map(|answer| answer.status()).collect();
    assert_eq!(statuses, [NtStatus::SUCCESS, NtStatus::FILE_CLOSED, NtStatus::SUCCESS]);
}

/// One wrong signature in the middle refuses that request and no other.
#[test]
fn each_request_is_signed_for_itself() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let file = client.open("file");
    assert_eq!(client.write(file, 0, b"untouched"), NtStatus::SUCCESS);
    let steps = [CompoundStep::Echo, CompoundStep::Write(file, b"forged"), CompoundStep::Read(file)];
    let messages: Vec<_> = steps.iter().map(|step| step.message(&mut client)).collect();
    let first = messages[0].len().next_multiple_of(8);
    let mut frame = client.compound(messages, false);
    frame[first + 48] ^= 1;
    client.deliver(frame);
    let statuses: Vec<_> = std::iter::from_fn(|| client.next()).map(|answer| answer.status()).collect();
    assert_eq!(statuses, [NtStatus::SUCCESS, NtStatus::ACCESS_DENIED, NtStatus::SUCCESS]);
    assert_eq!(std::fs::read(world.root().join("file")).unwrap(), b"untouched");
}

/// The requests before a broken one are carried out. The frame still costs the connection, since the
/// intention of its sender is unknown.
#[test]
fn a_frame_that_breaks_in_the_middle_closes() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    let mut client = world.client();
    let create = CompoundStep::Create("file", Disposition::OpenIf).message(&mut client);
    let mut replayed = CompoundStep::Echo.message(&mut client);
    Header::parse_mut(&mut replayed).unwrap().set_message_id(0);
    let frame = client.compound(vec![create, replayed], false);
    client.deliver(frame);
    assert!(client.is_closed);
    client.hang_up();
    assert_eq!(world.server.opens.len(), 0);
    assert!(bystander.is_served());
}
