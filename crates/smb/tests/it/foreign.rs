//! Requests of foreign clients and backup programs that Windows does not send every day.

use std::sync::Arc;

use share::Share;
use smb_wire::fscc::{FileAttributes, FileInfoClass};
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::query_info::{self, InfoType};
use smb_wire::{FileId, NtStatus, SmbCommand, set_info, utf16};
use testkit::smb::client::OpenFile;
use testkit::smb::{Peer, SmbTestServer};
use volume::memory::MemoryVolume;

const OK: NtStatus = NtStatus::SUCCESS;

fn control(client: &mut Peer, file: FileId, code: CtlCode, input: &[u8], limit: u32) -> (NtStatus, Vec<u8>) {
    let answer =
        client.call(SmbCommand::Ioctl, |out| ioctl::Request::fsctl(code, file, input, limit).write(out));
    let output = ioctl::Response::parse(&answer.message).map(|response| response.output.to_vec());
    (answer.status(), output.unwrap_or_default())
}

fn standard(client: &mut Peer, file_id: FileId) -> Vec<u8> {
    let answer = client.call(SmbCommand::QueryInfo, |out| {
        query_info::Request {
            info_type: InfoType::File,
            file_info_class: FileInfoClass::STANDARD.0,
            output_buffer_length: 24,
            additional_information: 0,
            flags: query_info::QueryInfoFlags::empty(),
            file_id,
            input_buffer: &[],
        }
        .write(out);
    });
    query_info::Response::parse(&answer.message).expect("FileStandardInformation").output_buffer.to_vec()
}

/// FileRenameInformation as it is on the wire, without padding.
fn rename(client: &mut Peer, file_id: FileId, to: &str) -> NtStatus {
    let name = utf16::encode(to);
    let buffer = [&[0; 16][..], &(name.len() as u32).to_le_bytes(), &name].concat();
    client.status(SmbCommand::SetInfo, |out| {
        set_info::Request {
            info_type: InfoType::File,
            file_info_class: FileInfoClass::RENAME.0,
            additional_information: 0,
            file_id,
            buffer: &buffer,
        }
        .write(out);
    })
}

// MS-SMB2 3.3.5.15.6: source and target are opens of one session, of whichever trees
#[test]
fn a_copy_goes_from_one_share_of_the_session_to_another() {
    let world = SmbTestServer::in_memory();
    let config = share::Config { name: "second".into(), enforce: false, ..share::Config::default() };
    let engine = Share::open(Arc::new(MemoryVolume::new(2)), config).expect("a second share");
    let mut first = None;
    world.configure(|config| first = Some(config.clone()));
    let first = first.expect("the share's settings");
    let second = smb::ShareConfig { name: "second".into(), engine, ..first.clone() };
    world.server.set_shares([first, second]);
    let mut client = world.client();
    let content: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
    let source = client.open("source");
    assert_eq!(client.write(source, 0, &content), OK);
    let (status, key) = control(&mut client, source, CtlCode::SrvRequestResumeKey, &[], 32);
    assert_eq!(status, OK);
    client.connect_tree("second");
    let target = client.open("target");
    let chunk = |from: u64, to: u64, len: u32| {
        let (from, to, len) = (from.to_le_bytes(), to.to_le_bytes(), len.to_le_bytes());
        [&from[..], &to, &len, &[0; 4]].concat()
    };
    let chunks = [chunk(10, 0, 50_000), chunk(50_010, 50_000, 49_990)].concat();
    let input = [&key[..24], &[2, 0, 0, 0, 0, 0, 0, 0], &chunks].concat();
    let (status, told) = control(&mut client, target, CtlCode::SrvCopychunk, &input, 12);
    assert_eq!(status, OK);
    assert_eq!(told, [2_u32, 0, 99_990].map(u32::to_le_bytes).concat());
    let mut read = client.read(target, 0, 65_536).data().to_vec();
    read.extend_from_slice(client.read(target, 65_536, 65_536).data());
    assert_eq!(read, content[10..]);
    // Nothing is copied beyond the end.
    let input = [&key[..24], &[1, 0, 0, 0, 0, 0, 0, 0], &chunk(99_999, 0, 2)].concat();
    let (status, told) = control(&mut client, target, CtlCode::SrvCopychunk, &input, 12);
    assert_eq!((status, told), (NtStatus::INVALID_VIEW_SIZE, vec![0; 12]));
    // An Open of another session cannot be named.
    let mut other = world.client();
    let target = other.open("elsewhere");
    let (status, _) = control(&mut other, target, CtlCode::SrvCopychunk, &input, 12);
    assert_eq!(status, NtStatus::OBJECT_NAME_NOT_FOUND);
}

// MS-FSCC 2.6
#[test]
fn a_file_is_made_without_the_attributes_that_no_file_has_here() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let six = [0x8000_u32, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x40_0000];
    for (number, bit) in six.into_iter().enumerate() {
        let name = format!("file {number}");
        let answer = client.create(&OpenFile { attributes: bit | 0x2, ..OpenFile::named(&name) });
        assert_eq!(answer.status(), OK, "{bit:#x}");
        let response = smb_wire::create::Response::parse(&answer.message).expect("a CREATE response");
        let shown = FileAttributes::from_bits_retain(response.info.file_attributes);
        assert_eq!(shown, FileAttributes::HIDDEN | FileAttributes::ARCHIVE, "{bit:#x}");
    }
    for unknown in [0x8_u32, 0x40, 0x1_0000, 0x20_0000, 0x80_0000, 0x8000_0000] {
        let answer = client.create(&OpenFile { attributes: unknown, ..OpenFile::named("none") });
        assert_eq!(answer.status(), NtStatus::INVALID_PARAMETER, "{unknown:#x}");
    }
}

#[test]
fn a_directory_has_one_name_however_many_directories_are_in_it() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    for name in ["d", "d\\one", "d\\two"] {
        let made = client.create(&OpenFile::directory(name)).file_id();
        assert_eq!(client.close(made), OK);
    }
    let directory = client.create(&OpenFile::directory("d")).file_id();
    assert_eq!(standard(&mut client, directory)[16..20], 1_u32.to_le_bytes());
    client.make("f", b"");
    std::fs::hard_link(world.root().join("f"), world.root().join("g")).expect("a link");
    let file = client.open("f");
    assert_eq!(standard(&mut client, file)[16..20], 2_u32.to_le_bytes());
}

// MS-FSCC 2.3.20
#[test]
fn a_backup_program_hears_that_no_checksums_are_kept() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let directory = client.create(&OpenFile::directory("d")).file_id();
    for file in [client.open("f"), directory] {
        let (status, told) = control(&mut client, file, CtlCode::GetIntegrityInformation, &[], 16);
        assert_eq!(status, OK);
        assert_eq!((told.len(), &told[..12]), (16, &[0; 12][..]));
        assert_ne!(told[12..], [0; 4], "the size of a cluster");
        let (status, _) = control(&mut client, file, CtlCode::GetIntegrityInformation, &[], 15);
        assert_eq!(status, NtStatus::INVALID_PARAMETER);
    }
}

// MS-SMB2 3.3.5.21.1 (exception: pysmb, smbj, jcifs-ng, node-smb2 and older libsmb2)
#[test]
fn a_file_is_renamed_to_one_letter_without_padding_and_to_a_path_with_a_separator_before_it() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let made = client.create(&OpenFile::directory("d")).file_id();
    assert_eq!(client.close(made), OK);
    let file = client.open("file");
    for to in ["a", "\\b", "/c", "\\d\\e", "/d\\f"] {
        assert_eq!(rename(&mut client, file, to), OK, "{to}");
    }
    let there = OpenFile { disposition: smb_wire::create::Disposition::Open, ..OpenFile::named("d\\f") };
    assert_eq!(client.create(&there).status(), OK);
    assert_eq!(rename(&mut client, file, "\\"), NtStatus::OBJECT_NAME_INVALID);
    assert_eq!(rename(&mut client, file, "\\\\g"), NtStatus::INVALID_PARAMETER);
}

// MS-FSA 2.1.5.10.11
// MS-FSA 2.1.5.10.27
#[test]
fn a_backup_program_hears_of_a_files_number_and_the_volumes_room() {
    use std::os::unix::fs::MetadataExt;
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    client.create(&OpenFile::directory("d")).file_id();
    let file = client.open("d\\a:b".replace(':', "\u{f022}").as_str());
    let inode = |name: &str| std::fs::metadata(world.root().join(name)).expect("it is there").ino();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let (status, told) = control(&mut client, file, CtlCode::ReadFileUsnData, &[], 128);
    assert_eq!((status, told.len(), &told[..8]), (OK, 72, &[72, 0, 0, 0, 2, 0, 0, 0][..]));
    assert_eq!((number(&told[8..16]), number(&told[16..24])), (inode("d/a:b"), inode("d")));
    assert_eq!(told[60..66], utf16::encode("a\u{f022}b"));
    let (status, told) = control(&mut client, file, CtlCode::ReadFileUsnData, &[2, 0, 3, 0], 128);
    assert_eq!((status, told[4], number(&told[8..16])), (OK, 3, inode("d/a:b")));
    let (status, _) = control(&mut client, file, CtlCode::ReadFileUsnData, &[4, 0, 4, 0], 128);
    assert_eq!(status, NtStatus::INVALID_PARAMETER);
    let (status, _) = control(&mut client, file, CtlCode::ReadFileUsnData, &[], 71);
    assert_eq!(status, NtStatus::BUFFER_TOO_SMALL);
    let (status, told) = control(&mut client, file, CtlCode::GetNtfsVolumeData, &[], 96);
    let space = world.engine.space().expect("the host says it");
    let cluster = u64::from(u32::from_le_bytes(told[44..48].try_into().expect("four bytes")));
    assert_eq!((status, told.len(), number(&told[16..24]) * cluster), (OK, 96, space.total));
    let (status, _) = control(&mut client, file, CtlCode::GetNtfsVolumeData, &[], 95);
    assert_eq!(status, NtStatus::BUFFER_TOO_SMALL);
}

// MS-FSA 2.1.5.10.2
// MS-FSA 2.1.5.10.35
#[test]
fn who_puts_files_back_gives_them_their_object_ids() {
    let world = SmbTestServer::on_disk();
    let mut user = testkit::smb::user(testkit::smb::USER, "s3cret", 1001);
    let restorer = share::Identity { administrator: true, ..(*user.identity).clone() };
    user.identity = Arc::new(restorer);
    world.server.set_users([user]);
    let mut client = world.client();
    let plain = client.open("f");
    let options = smb_wire::create::CreateOptions::OPEN_FOR_BACKUP_INTENT;
    let file = client.create(&OpenFile { options, ..OpenFile::named("f") }).file_id();
    let whole: Vec<u8> = (0..64).collect();
    let mut ask = |file, code, input: &[u8]| control(&mut client, file, code, input, 64);
    assert_eq!(ask(plain, CtlCode::SetObjectId, &whole).0, NtStatus::ACCESS_DENIED);
    assert_eq!(ask(file, CtlCode::SetObjectId, &whole[1..]).0, NtStatus::INVALID_PARAMETER);
    assert_eq!(ask(file, CtlCode::DeleteObjectId, &[]).0, OK);
    assert_eq!(ask(file, CtlCode::SetObjectId, &whole).0, OK);
    for code in [CtlCode::GetObjectId, CtlCode::CreateOrGetObjectId] {
        assert_eq!(ask(plain, code, &[]), (OK, whole.clone()));
    }
    assert_eq!(ask(file, CtlCode::SetObjectId, &whole).0, NtStatus::OBJECT_NAME_COLLISION);
    assert_eq!(ask(plain, CtlCode::DeleteObjectId, &[]).0, OK);
    assert_eq!(ask(plain, CtlCode::GetObjectId, &[]).0, NtStatus::OBJECTID_NOT_FOUND);
}

// MS-FSA 2.1.5.10.15
#[test]
fn a_program_hears_where_on_the_store_a_file_lies_as_far_as_the_host_says_it() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let file = client.open("f");
    let mut ask = |vcn: i64, limit| {
        control(&mut client, file, CtlCode::GetRetrievalPointers, &vcn.to_le_bytes(), limit)
    };
    if ask(0, 4096).0 == NtStatus::INVALID_DEVICE_REQUEST {
        // This file system does not report it.
        return;
    }
    assert_eq!(ask(0, 4096).0, NtStatus::END_OF_FILE);
    let on_host = std::fs::OpenOptions::new().write(true).open(world.root().join("f")).expect("the file");
    let write = |at| std::os::unix::fs::FileExt::write_all_at(&on_host, &[7; 4096], at).expect("room");
    write(0);
    write(1 << 20);
    on_host.sync_all().expect("a disk");
    let (status, told) = ask(0, 4096);
    let numbers: Vec<i64> =
        told.chunks_exact(8).map(|it| i64::from_le_bytes(it.try_into().expect("eight"))).collect();
    assert_eq!((status, numbers[0], numbers[1]), (OK, 3, 0));
    // Data, a hole, data.
    assert!(numbers[2] > 0 && numbers[3] > 0 && numbers[5] == -1 && numbers[7] > 0, "{numbers:?}");
    assert!(numbers[4] > numbers[2] && numbers[6] > numbers[4], "{numbers:?}");
    assert_eq!(ask(0, 47), (NtStatus::BUFFER_OVERFLOW, [&[1, 0, 0, 0], &told[4..32]].concat()));
    assert_eq!(ask(0, 31).0, NtStatus::BUFFER_TOO_SMALL);
    assert_eq!(ask(-1, 4096).0, NtStatus::INVALID_PARAMETER);
    assert_eq!(ask(numbers[6], 4096).0, NtStatus::END_OF_FILE);
}
