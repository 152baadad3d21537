//! The control codes of smbtorture for a server under test (`smbtorture_controls`).

use std::time::Duration;

use smb_wire::ioctl::{self, CtlCode};
use smb_wire::{FileId, NtStatus, SmbCommand, close, read};
use testkit::smb::{Peer, SmbTestServer};

const PAD_THIS: u32 = 0x8384_8013;
const PAD_READS: u32 = 0x8384_8023;
const SLEEP: u32 = 0x8384_8043;

fn tested() -> SmbTestServer {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| config.smbtorture_controls = true);
    world
}

fn start(client: &mut Peer, code: u32, file: FileId, input: &[u8], most: u32) -> u64 {
    let code = CtlCode::new(code);
    client.start(SmbCommand::Ioctl, |out| ioctl::Request::fsctl(code, file, input, most).write(out))
}

fn ask(client: &mut Peer, code: u32, file: FileId, input: &[u8]) -> NtStatus {
    let id = start(client, code, file, input, 0);
    client.answer(id).expect("an answer").status()
}

#[test]
fn a_server_that_serves_answers_none_of_them() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let file = client.open("file");
    for (code, input) in [(PAD_THIS, &[][..]), (PAD_READS, &[]), (SLEEP, &[200])] {
        assert_eq!(ask(&mut client, code, file, input), NtStatus::INVALID_DEVICE_REQUEST);
        assert_eq!(ask(&mut client, code, FileId::RELATED, input), NtStatus::FILE_CLOSED);
    }
}

// MS-SMB2 2.2.32
#[test]
fn an_answer_may_have_padding_before_its_output() {
    let mut client = tested().client();
    let id = start(&mut client, PAD_THIS, FileId::RELATED, &[], 3);
    let answer = client.answer(id).expect("an answer");
    assert_eq!(answer.status(), NtStatus::SUCCESS);
    assert_eq!(ioctl::Response::parse(&answer.message).expect("a response").output, [8; 3]);
    // OutputOffset
    assert_eq!(answer.message[96..100], (64u32 + 48 + 8).to_le_bytes());
    assert_eq!(ask(&mut client, PAD_THIS, FileId::RELATED, &[1]), NtStatus::INVALID_PARAMETER);
}

// MS-SMB2 2.2.20
#[test]
fn reads_may_have_padding_before_their_data() {
    let world = tested();
    let mut client = world.client();
    let file = client.open("file");
    assert_eq!(client.write(file, 0, b"content"), NtStatus::SUCCESS);
    assert_eq!(client.read(file, 0, 100).message[66], 80);
    assert_eq!(ask(&mut client, PAD_READS, FileId::RELATED, &[]), NtStatus::SUCCESS);
    let answer = client.read(file, 0, 100);
    assert_eq!(answer.data(), b"content");
    // DataOffset
    assert_eq!(answer.message[66], 88);
    assert_eq!(client.read(file, 7, 100).status(), NtStatus::END_OF_FILE);
    // It applies to one connection only.
    let mut other = world.client();
    let file = other.open("file");
    assert_eq!(other.read(file, 0, 100).message[66], 80);
}

#[test]
fn a_request_that_takes_its_time_holds_a_close_back() {
    let world = tested();
    let mut client = world.client();
    let file_id = client.open("file");
    let sleep = start(&mut client, SLEEP, file_id, &[200], 0);
    assert_eq!(client.answer(sleep).expect("an interim answer").status(), NtStatus::PENDING);
    let flags = close::CloseFlags::empty();
    let close = client.start(SmbCommand::Close, |out| close::Request { flags, file_id }.write(out));
    world.advance(Duration::from_millis(199));
    assert!(client.answer(sleep).is_none() && client.answer(close).is_none());
    world.advance(Duration::from_millis(1));
    assert_eq!(client.answer(sleep).expect("its time is over").status(), NtStatus::SUCCESS);
    assert_eq!(client.answer(close).expect("nothing is left to wait for").status(), NtStatus::SUCCESS);
    assert_eq!(ask(&mut client, SLEEP, file_id, &[200]), NtStatus::FILE_CLOSED);
    let file = client.open("file");
    assert_eq!(ask(&mut client, SLEEP, file, &[]), NtStatus::INVALID_PARAMETER);
}

#[test]
fn one_that_is_taken_back_holds_nothing() {
    let world = tested();
    let mut client = world.client();
    let file = client.open("file");
    let sleep = start(&mut client, SLEEP, file, &[200], 0);
    let told = client.answer(sleep).expect("an interim answer");
    let mut header = client.header(SmbCommand::Cancel);
    header.set_async_id(told.header.async_id());
    client.send(testkit::smb::peer::whole(&header, |out| smb_wire::cancel::Request.write(out)));
    assert_eq!(client.answer(sleep).expect("taken back").status(), NtStatus::CANCELLED);
    assert_eq!(client.close(file), NtStatus::SUCCESS);
    let read = client.start(SmbCommand::Read, |out| read::Request::new(file, 0, 1).write(out));
    assert_eq!(client.answer(read).expect("an answer").status(), NtStatus::FILE_CLOSED);
}
