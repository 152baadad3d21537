//! The status of invalid requests: the one that the section names, and the order of several reasons.

use smb_wire::create::{Access, CreateOptions, Disposition};
use smb_wire::fscc::{FileInfoClass, FsInfoClass};
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::query_info::{self, InfoType};
use smb_wire::{FileId, NtStatus, SmbCommand, change_notify, utf16};
use testkit::smb::client::OpenFile;
use testkit::smb::{Peer, SmbTestServer};
use volume::Failure;
use volume::faulty::VolumeCall;

const OK: NtStatus = NtStatus::SUCCESS;
const INVALID: NtStatus = NtStatus::INVALID_PARAMETER;

fn set(client: &mut Peer, file_id: FileId, class: FileInfoClass, buffer: &[u8]) -> NtStatus {
    client.set_info(file_id, InfoType::File, class.0, 0, buffer)
}

fn control(client: &mut Peer, file: FileId, code: CtlCode, input: &[u8], limit: u32) -> NtStatus {
    client.status(SmbCommand::Ioctl, |out| ioctl::Request::fsctl(code, file, input, limit).write(out))
}

fn query(client: &mut Peer, file: FileId, info_type: InfoType, class: u8) -> Vec<u8> {
    let answer = client.query_info(file, info_type, class, 0);
    assert_eq!(answer.status(), OK);
    query_info::Response::parse(&answer.message).expect("information").output_buffer.to_vec()
}

/// A number in a structure.
fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

// MS-FSA 2.1.5.15.6
// MS-FSA 2.1.5.16
#[test]
fn what_finds_no_room_beside_its_file_is_told_that_the_disk_is_full() {
    const DESCRIPTOR: &[u8] = b"\x01\0\x04\x80\0\0\0\0\0\0\0\0\0\0\0\0\x14\0\0\0\x02\0\x08\0\0\0\0\0";
    let (world, plan) = SmbTestServer::faulty();
    let mut client = world.client();
    let file = client.open("f");
    let pair = |name: u8, size: u16| {
        let value = vec![b'x'; size.into()];
        [&b"\0\0\0\0\0\x01"[..], &size.to_le_bytes(), &[name, 0], &value].concat()
    };
    assert_eq!(set(&mut client, file, FileInfoClass::FULL_EA, &pair(b'A', 40_000)), OK);
    assert_eq!(set(&mut client, file, FileInfoClass::FULL_EA, &pair(b'B', 40_000)), NtStatus::EA_TOO_LARGE);
    plan.always(VolumeCall::SetAttributes, Some(Failure::NoSpace));
    assert_eq!(set(&mut client, file, FileInfoClass::FULL_EA, &pair(b'B', 1)), NtStatus::DISK_FULL);
    plan.always(VolumeCall::SetAttributes, Some(Failure::TooLarge));
    assert_eq!(set(&mut client, file, FileInfoClass::FULL_EA, &pair(b'B', 1)), NtStatus::EA_TOO_LARGE);
    plan.always(VolumeCall::SetNote, Some(Failure::NoSpace));
    let told = client.set_info(file, InfoType::Security, 0, 4, DESCRIPTOR);
    assert_eq!(told, NtStatus::DISK_FULL);
    plan.always(VolumeCall::Streams, Some(Failure::NoSpace));
    let stream = OpenFile { disposition: Disposition::Create, ..OpenFile::named("f:stream") };
    assert_eq!(client.create(&stream).status(), NtStatus::DISK_FULL);
}

// MS-FSCC 2.4.41
#[test]
fn an_empty_file_with_a_descriptor_and_extended_attributes_takes_no_room() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let file = client.open("f");
    let pair = [&b"\0\0\0\0\0\x01\xe8\x03A\0"[..], &[b'x'; 1000]].concat();
    let allocation = |client: &mut Peer| {
        let standard = query(client, file, InfoType::File, FileInfoClass::STANDARD.0);
        (number(&standard, 0), number(&standard, 8))
    };
    assert_eq!(allocation(&mut client), (0, 0));
    assert_eq!(set(&mut client, file, FileInfoClass::FULL_EA, &pair), OK);
    assert_eq!(allocation(&mut client), (0, 0), "the block of the attributes is none of the data's");
    assert_eq!(set(&mut client, file, FileInfoClass::ALLOCATION, &65536_u64.to_le_bytes()), OK);
    let (room, size) = allocation(&mut client);
    assert!(room >= 65536 && size == 0, "{room}");
}

// MS-FSA 2.1.5.15.7
// MS-FSA 2.1.5.15.12
// MS-FSA 2.1.5.15.14
#[test]
fn a_name_that_leads_behind_its_buffer_is_a_wrong_value() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let file = client.open("f");
    let name = utf16::encode("new");
    for (class, before) in [
        (FileInfoClass::RENAME, 16),
        (FileInfoClass::RENAME_EX, 16),
        (FileInfoClass::LINK, 16),
        (FileInfoClass::LINK_EX, 16),
        (FileInfoClass::SHORT_NAME, 0),
    ] {
        let buffer = [&vec![0; before][..], &8_u32.to_le_bytes(), &name].concat();
        assert_eq!(set(&mut client, file, class, &buffer), INVALID, "{class:?}");
        assert_eq!(set(&mut client, file, class, &buffer[..before + 4]), INVALID, "{class:?}");
        let short = set(&mut client, file, class, &buffer[..before + 3]);
        assert_eq!(short, NtStatus::INFO_LENGTH_MISMATCH, "{class:?}");
    }
}

// MS-FSA 2.1.5.10.22
// MS-FSA 2.1.5.10.38
// MS-FSA 2.1.5.10.39
#[test]
fn a_directory_has_no_ranges_of_data() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let directory = client.create(&OpenFile::directory("d")).file_id();
    let looks = OpenFile { access: Access::READ_ATTRIBUTES, ..OpenFile::named("d") };
    let looks = client.create(&looks).file_id();
    let file = client.open("f");
    let range = [0_u64.to_le_bytes(), 4096_u64.to_le_bytes()].concat();
    let trim = [&[0, 0, 0, 0, 1, 0, 0, 0][..], &range].concat();
    for (code, input) in [
        (CtlCode::SetZeroData, &[0; 16][..]),
        (CtlCode::SetZeroData, &range),
        (CtlCode::QueryAllocatedRanges, &[0; 16]),
        (CtlCode::QueryAllocatedRanges, &range),
        (CtlCode::QueryFileRegions, &[]),
        (CtlCode::FileLevelTrim, &trim),
        (CtlCode::SetSparse, &[1]),
    ] {
        for directory in [directory, looks] {
            assert_eq!(control(&mut client, directory, code, input, 4096), INVALID, "{code:?}");
        }
        assert_eq!(control(&mut client, file, code, input, 4096), OK, "{code:?}");
    }
    // A reply without ranges needs no space, as smbtorture's sparse_qar_malformed requires. Any other does.
    assert_eq!(control(&mut client, file, CtlCode::QueryAllocatedRanges, &[0; 16], 0), OK);
    assert_eq!(control(&mut client, file, CtlCode::QueryAllocatedRanges, &range, 0), OK);
    client.write(file, 0, b"data");
    let little = control(&mut client, file, CtlCode::QueryAllocatedRanges, &range, 15);
    assert_eq!(little, NtStatus::BUFFER_TOO_SMALL);
}

// MS-FSA 2.1.5.10.1
// MS-FSA 2.1.5.10.6
// MS-FSA 2.1.5.10.9
// MS-FSA 2.1.5.10.13
#[test]
fn too_little_room_for_an_answer_of_one_size_is_a_wrong_parameter() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let file = client.open("f");
    let trim = [&[0, 0, 0, 0, 1, 0, 0, 0][..], &[0; 16]].concat();
    for (code, input, size) in [
        (CtlCode::CreateOrGetObjectId, &[][..], 64),
        (CtlCode::GetObjectId, &[], 64),
        (CtlCode::GetCompression, &[], 2),
        (CtlCode::FileLevelTrim, &trim, 4),
    ] {
        assert_eq!(control(&mut client, file, code, input, size - 1), INVALID, "{code:?}");
        assert_eq!(control(&mut client, file, code, input, size), OK, "{code:?}");
    }
    assert_eq!(control(&mut client, file, CtlCode::FileLevelTrim, &trim, 0), OK);
}

// MS-FSA 2.1.5.13.10
#[test]
fn a_sector_is_as_large_for_speed_as_for_safety() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let file = client.open("f");
    let sectors = query(&mut client, file, InfoType::Filesystem, FsInfoClass::SECTOR_SIZE.0);
    assert_eq!(number(&sectors, 4), number(&sectors, 8));
}

// MS-SMB2 3.3.5.9
// MS-FSA 2.1.5.1
// MS-FSA 2.1.5.12.18
#[test]
fn who_wants_no_cache_appends_nothing_and_is_told_the_mode() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    client.make("f", b"data");
    let unbuffered = |access| OpenFile {
        access,
        options: CreateOptions::NO_INTERMEDIATE_BUFFERING | CreateOptions::SEQUENTIAL_ONLY,
        ..OpenFile::named("f")
    };
    assert_eq!(client.create(&unbuffered(Access::APPEND_DATA)).status(), NtStatus::ACCESS_DENIED);
    let file = client.create(&unbuffered(Access::APPEND_DATA | Access::WRITE_DATA)).file_id();
    let granted = query(&mut client, file, InfoType::File, FileInfoClass::ACCESS.0);
    assert_eq!(number(&granted, 0), Access::WRITE_DATA.bits());
    let mode =
        |client: &mut Peer, file| number(&query(client, file, InfoType::File, FileInfoClass::MODE.0), 0);
    assert_eq!(mode(&mut client, file), 0x0c);
    // A client can change only the order of reads.
    assert_eq!(set(&mut client, file, FileInfoClass::MODE, &[2, 0, 0, 0]), OK);
    assert_eq!(mode(&mut client, file), 0x08);
    let all = client.create(&unbuffered(Access::FILE_ALL)).file_id();
    let all = query(&mut client, all, InfoType::File, FileInfoClass::ALL.0);
    assert_eq!(number(&all, 88), 0x0c);
}

// MS-FSA 2.1.5.1
#[test]
fn the_way_to_a_stream_is_looked_for_before_the_stream_is_called_bad() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    client.make("f", b"data");
    client.create(&OpenFile::directory("d")).file_id();
    let open = |disposition, name| OpenFile { disposition, ..OpenFile::named(name) };
    let file =
        |name| OpenFile { options: CreateOptions::NON_DIRECTORY_FILE, ..open(Disposition::Open, name) };
    let (bad, missing) = (NtStatus::OBJECT_NAME_INVALID, NtStatus::OBJECT_NAME_NOT_FOUND);
    let no_way = NtStatus::OBJECT_PATH_NOT_FOUND;
    for (name, expected) in [
        ("f:s:$FOO", bad),
        ("d\\f:s:$FOO", bad),
        (":s:$FOO", bad),
        ("no\\f:s:$FOO", no_way),
        ("f\\g:s:$FOO", no_way),
        ("no\\d:s\\f", no_way),
        ("d:s\\f", bad),
        ("no:s\\f", bad),
        ("no\\f:x:$INDEX_ALLOCATION", no_way),
        ("f:x:$INDEX_ALLOCATION", INVALID),
        ("d:x:$INDEX_ALLOCATION", INVALID),
        ("no:x:$INDEX_ALLOCATION", missing),
        // A malformed path has no parent.
        ("no\\f:", bad),
        ("no\\f*:s:$FOO", bad),
    ] {
        assert_eq!(client.create(&open(Disposition::Open, name)).status(), expected, "{name}");
        assert_eq!(client.create(&file(name)).status(), expected, "{name}");
    }
    let made = client.create(&open(Disposition::OpenIf, "no:x:$INDEX_ALLOCATION")).status();
    assert_eq!(made, INVALID);
    // The index is the directory, with any kind of open.
    assert_eq!(client.create(&file("no::$INDEX_ALLOCATION")).status(), missing);
    assert_eq!(client.create(&file("no\\d::$INDEX_ALLOCATION")).status(), no_way);
    assert_eq!(client.create(&file("f::$INDEX_ALLOCATION")).status(), NtStatus::NOT_A_DIRECTORY);
    for name in ["d::$INDEX_ALLOCATION", "d:$I30:$INDEX_ALLOCATION"] {
        assert_eq!(client.create(&file(name)).status(), OK, "{name}");
    }
    assert_eq!(client.create(&file("d\\")).status(), bad);
    world.engine.configure(share::Config { streams: false, ..(*world.engine.config()).clone() });
    for name in ["f:s", "no\\f:s:$FOO"] {
        assert_eq!(client.create(&open(Disposition::Open, name)).status(), bad, "{name}");
    }
}

// MS-FSA 2.1.5.15.12.1
#[test]
fn a_stream_is_renamed_to_another_stream_of_its_kind() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let stream = client.open("f:one");
    let directory = client.create(&OpenFile::directory("d")).file_id();
    let mismatch = NtStatus::OBJECT_TYPE_MISMATCH;
    let mut rename = |file, to: &str| {
        let name = utf16::encode(to);
        let buffer = [&[0; 16][..], &(name.len() as u32).to_le_bytes(), &name].concat();
        set(&mut client, file, FileInfoClass::RENAME, &buffer)
    };
    let long = format!(":{}", "n".repeat(256));
    for (to, expected) in [
        (":", INVALID),
        ("::", INVALID),
        (":two:", INVALID),
        (":two\\three", INVALID),
        (":two/three", INVALID),
        (":two:$DATA:", INVALID),
        (long.as_str(), INVALID),
        (":two:$FOO", mismatch),
        (":two:$INDEX_ALLOCATION", mismatch),
        ("::$INDEX_ALLOCATION", mismatch),
        (":two", OK),
        (":three:$data", OK),
    ] {
        assert_eq!(rename(stream, to), expected, "{to}");
    }
    for (to, expected) in [
        (":two:", INVALID),
        (":two", mismatch),
        (":two:$DATA", mismatch),
        ("::$INDEX_ALLOCATION", INVALID),
        (":$I30:$INDEX_ALLOCATION", INVALID),
        (":two:$INDEX_ALLOCATION", INVALID),
    ] {
        assert_eq!(rename(directory, to), expected, "{to}");
    }
}

// MS-SMB2 2.2.36
// MS-SMB2 3.3.4.4
#[test]
fn an_empty_answer_to_a_watch_says_where_its_changes_would_be() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let file_id = client.create(&OpenFile::directory("d")).file_id();
    let watch = client.start(SmbCommand::ChangeNotify, |out| {
        change_notify::Request {
            flags: change_notify::ChangeNotifyFlags::empty(),
            output_buffer_length: 4,
            file_id,
            completion_filter: change_notify::CompletionFilter::FILE_NAME,
        }
        .write(out);
    });
    assert_eq!(client.answer(watch).expect("an interim answer").status(), NtStatus::PENDING);
    client.make("d\\f", b"");
    let answer = client.answer(watch).expect("an answer");
    assert_eq!(answer.status(), NtStatus::NOTIFY_ENUM_DIR);
    assert_eq!(answer.message[64..73], [9, 0, 72, 0, 0, 0, 0, 0, 0]);
}
