//! The use of each right to a file or directory: every command on an Open with one right and no other.
//!
//! Each row of the table was also tried with Samba 4.17 (`acl_xattr`, `streams_xattr`), by the file's owner.
//! `Samba::Same` says that Samba accepts the rights of the row and no others. Any other value describes the
//! difference, and why the row does not follow it.

use smb_wire::create::{Access, CreateOptions, Disposition};
use smb_wire::fscc::{FileInfoClass, FsInfoClass};
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::lock::{self, LockElement};
use smb_wire::query_info::{self, InfoType};
use smb_wire::{FileId, NtStatus, SmbCommand, Utf16, WireList, change_notify, flush, query_directory, utf16};
use testkit::smb::client::OpenFile;
use testkit::smb::{Peer, SmbTestServer};

/// An Open with one right, and its name.
struct SingleRightOpen<'a> {
    client: &'a mut Peer,
    file: FileId,
    name: &'a str,
}

/// The result of Samba 4.17.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Samba {
    /// Success with the same rights, ACCESS_DENIED with all others.
    Same,
    /// A different result, for the reasons of Samba. The value has ours.
    Differs(&'static str),
}
use Samba::{Differs, Same};

struct RightsRow {
    name: &'static str,
    act: fn(&mut SingleRightOpen<'_>) -> NtStatus,
    /// One of these rights is enough.
    needs: Access,
    /// The status with one of the rights. Without one it is ACCESS_DENIED.
    allowed: NtStatus,
    samba: Samba,
}

const OK: NtStatus = NtStatus::SUCCESS;
/// No right is needed.
const NONE: Access = Access::FILE_ALL;
const READS: Access = Access::from_bits_retain(0x21);
const WRITES: Access = Access::from_bits_retain(0x06);
const DATA: Access = READS.union(WRITES);
const WRITE_OR_ATTRIBUTES: Access = Access::WRITE_DATA.union(Access::WRITE_ATTRIBUTES);
const ABSENT: &str = "Samba does not have it";

const fn row(
    name: &'static str,
    act: fn(&mut SingleRightOpen<'_>) -> NtStatus,
    needs: Access,
    samba: Samba,
) -> RightsRow {
    RightsRow { name, act, needs, allowed: OK, samba }
}

const fn telling(
    name: &'static str,
    act: fn(&mut SingleRightOpen<'_>) -> NtStatus,
    needs: Access,
    allowed: NtStatus,
    samba: Samba,
) -> RightsRow {
    RightsRow { name, act, needs, allowed, samba }
}

fn query(one: &mut SingleRightOpen<'_>, info_type: InfoType, class: u8, which: u32) -> NtStatus {
    let file_id = one.file;
    one.client.query_info(file_id, info_type, class, which).status()
}

fn query_file(one: &mut SingleRightOpen<'_>, class: FileInfoClass) -> NtStatus {
    query(one, InfoType::File, class.0, 0)
}

fn query_fs(one: &mut SingleRightOpen<'_>, class: FsInfoClass) -> NtStatus {
    query(one, InfoType::Filesystem, class.0, 0)
}

fn query_security(one: &mut SingleRightOpen<'_>, which: u32) -> NtStatus {
    query(one, InfoType::Security, 0, which)
}

fn set(one: &mut SingleRightOpen<'_>, info_type: InfoType, class: u8, which: u32, buffer: &[u8]) -> NtStatus {
    let file_id = one.file;
    one.client.set_info(file_id, info_type, class, which, buffer)
}

fn set_file(one: &mut SingleRightOpen<'_>, class: FileInfoClass, buffer: &[u8]) -> NtStatus {
    set(one, InfoType::File, class.0, 0, buffer)
}

/// Sets a part of the descriptor to its current value.
fn set_security(one: &mut SingleRightOpen<'_>, which: u32) -> NtStatus {
    let open = OpenFile { access: Access::READ_CONTROL, ..OpenFile::named(one.name) };
    let other = one.client.create(&open).file_id();
    let answer = one.client.call(SmbCommand::QueryInfo, |out| {
        query_info::Request {
            info_type: InfoType::Security,
            file_info_class: 0,
            output_buffer_length: 4096,
            additional_information: which,
            flags: query_info::QueryInfoFlags::empty(),
            file_id: other,
            input_buffer: &[],
        }
        .write(out);
    });
    let response = query_info::Response::parse(&answer.message).expect("a descriptor");
    let descriptor = response.output_buffer.to_vec();
    assert_eq!(one.client.close(other), OK);
    set(one, InfoType::Security, 0, which, &descriptor)
}

fn control(one: &mut SingleRightOpen<'_>, file: FileId, code: CtlCode, input: &[u8]) -> (NtStatus, Vec<u8>) {
    let answer =
        one.client.call(SmbCommand::Ioctl, |out| ioctl::Request::fsctl(code, file, input, 4096).write(out));
    let output = ioctl::Response::parse(&answer.message).map(|response| response.output.to_vec());
    (answer.status(), output.unwrap_or_default())
}

fn fsctl(one: &mut SingleRightOpen<'_>, code: CtlCode, input: &[u8]) -> NtStatus {
    let file = one.file;
    control(one, file, code, input).0
}

/// Copies or shares the first bytes between the Open and one with all rights.
fn between(one: &mut SingleRightOpen<'_>, code: CtlCode, is_target: bool) -> NtStatus {
    let (file, all) = (one.file, one.client.open("other"));
    let (source, target) = if is_target { (all, file) } else { (file, all) };
    let input = if code == CtlCode::DuplicateExtentsToFile {
        let [persistent, volatile] = [source.persistent, source.volatile].map(u64::to_le_bytes);
        [&persistent[..], &volatile, &[0; 16], &4096_u64.to_le_bytes()].concat()
    } else {
        let (status, key) = control(one, source, CtlCode::SrvRequestResumeKey, &[]);
        assert_eq!(status, OK);
        [&key[..24], &[1, 0, 0, 0, 0, 0, 0, 0], &[0; 16], &[4, 0, 0, 0, 0, 0, 0, 0]].concat()
    };
    let status = control(one, target, code, &input).0;
    assert_eq!(one.client.close(all), OK);
    status
}

fn lock(one: &mut SingleRightOpen<'_>, flags: lock::LockFlags) -> NtStatus {
    let file_id = one.file;
    let elements = [LockElement { offset: 0, length: u64::MAX, flags }];
    one.client.status(SmbCommand::Lock, |out| {
        let locks = WireList::Values(&elements);
        lock::Request { lock_sequence_number: 0, lock_sequence_index: 0, file_id, locks }.write(out);
    })
}

fn flush(one: &mut SingleRightOpen<'_>) -> NtStatus {
    let file_id = one.file;
    one.client.status(SmbCommand::Flush, |out| flush::Request { reserved1: 0, file_id }.write(out))
}

/// FileRenameInformation and FileLinkInformation (MS-FSCC 2.4.42.2, 2.4.27.2).
fn named(one: &SingleRightOpen<'_>, ending: &str) -> Vec<u8> {
    let name = utf16::encode(&format!("{}{ending}", one.name));
    [&[0; 16][..], &(name.len() as u32).to_le_bytes(), &name].concat()
}

fn rename(one: &mut SingleRightOpen<'_>) -> NtStatus {
    let target = named(one, " renamed");
    set_file(one, FileInfoClass::RENAME, &target)
}

fn set_basic(one: &mut SingleRightOpen<'_>) -> NtStatus {
    // MS-FSCC 2.4.7: the time of the last write, and no other field.
    let buffer = [&[0; 16][..], &132_000_000_000_000_000_u64.to_le_bytes(), &[0; 16]].concat();
    set_file(one, FileInfoClass::BASIC, &buffer)
}

fn list(one: &mut SingleRightOpen<'_>) -> NtStatus {
    let file_id = one.file;
    one.client.status(SmbCommand::QueryDirectory, |out| {
        query_directory::Request {
            file_information_class: 0x25,
            flags: query_directory::QueryDirectoryFlags::RESTART_SCANS,
            file_index: 0,
            file_id,
            file_name: Utf16::new(b"*\0").expect("whole units"),
            output_buffer_length: 4096,
        }
        .write(out);
    })
}

fn watch(one: &mut SingleRightOpen<'_>) -> NtStatus {
    let file_id = one.file;
    one.client.status(SmbCommand::ChangeNotify, |out| {
        change_notify::Request {
            flags: change_notify::ChangeNotifyFlags::empty(),
            output_buffer_length: 1024,
            file_id,
            completion_filter: change_notify::CompletionFilter::FILE_NAME,
        }
        .write(out);
    })
}

/// A reparse point with an unknown tag (MS-FSCC 2.1.2.3).
fn set_reparse(one: &mut SingleRightOpen<'_>) -> NtStatus {
    let guid = [7; 16];
    let buffer = [&0x0000_1234_u32.to_le_bytes()[..], &[4, 0, 0, 0], &guid, b"data"].concat();
    fsctl(one, CtlCode::SetReparsePoint, &buffer)
}

const FILE: &[RightsRow] = &[
    row("READ", |one| one.client.read(one.file, 0, 4).status(), READS, Same),
    row("WRITE", |one| one.client.write(one.file, 0, b"text"), WRITES, Same),
    row("WRITE behind the end", |one| one.client.write(one.file, 9000, b"text"), WRITES, Same),
    row("FLUSH", flush, WRITES, Same),
    row(
        "LOCK, shared",
        |one| lock(one, lock::LockFlags::SHARED_LOCK | lock::LockFlags::FAIL_IMMEDIATELY),
        DATA,
        Differs(
            "Samba locks for the host too, which refuses a shared range to who may only write, \
             and says INVALID_HANDLE",
        ),
    ),
    row(
        "LOCK, exclusive",
        |one| lock(one, lock::LockFlags::EXCLUSIVE_LOCK | lock::LockFlags::FAIL_IMMEDIATELY),
        DATA,
        Differs("the same rights, but INVALID_HANDLE without"),
    ),
    telling("LOCK, unlock", |one| lock(one, lock::LockFlags::UNLOCK), NONE, NtStatus::RANGE_NOT_LOCKED, Same),
    row("query Basic", |one| query_file(one, FileInfoClass::BASIC), Access::READ_ATTRIBUTES, Same),
    row("query Standard", |one| query_file(one, FileInfoClass::STANDARD), NONE, Same),
    row("query Internal", |one| query_file(one, FileInfoClass::INTERNAL), NONE, Same),
    row("query Ea", |one| query_file(one, FileInfoClass::EA), NONE, Same),
    row("query Access", |one| query_file(one, FileInfoClass::ACCESS), NONE, Same),
    row("query Position", |one| query_file(one, FileInfoClass::POSITION), NONE, Same),
    row("query Mode", |one| query_file(one, FileInfoClass::MODE), NONE, Same),
    row("query Alignment", |one| query_file(one, FileInfoClass::ALIGNMENT), NONE, Same),
    row("query All", |one| query_file(one, FileInfoClass::ALL), Access::READ_ATTRIBUTES, Same),
    row("query Stream", |one| query_file(one, FileInfoClass::STREAM), NONE, Same),
    row("query Compression", |one| query_file(one, FileInfoClass::COMPRESSION), NONE, Same),
    row(
        "query NetworkOpen",
        |one| query_file(one, FileInfoClass::NETWORK_OPEN),
        Access::READ_ATTRIBUTES,
        Same,
    ),
    row(
        "query AttributeTag",
        |one| query_file(one, FileInfoClass::ATTRIBUTE_TAG),
        Access::READ_ATTRIBUTES,
        Same,
    ),
    telling(
        "query FullEa",
        |one| query_file(one, FileInfoClass::FULL_EA),
        Access::READ_EA,
        NtStatus::NO_EAS_ON_FILE,
        Same,
    ),
    row("query FsVolume", |one| query_fs(one, FsInfoClass::VOLUME), NONE, Same),
    row("query FsSize", |one| query_fs(one, FsInfoClass::SIZE), NONE, Same),
    row("query FsDevice", |one| query_fs(one, FsInfoClass::DEVICE), NONE, Same),
    row("query FsAttribute", |one| query_fs(one, FsInfoClass::ATTRIBUTE), NONE, Same),
    row("query FsFullSize", |one| query_fs(one, FsInfoClass::FULL_SIZE), NONE, Same),
    row("query FsObjectId", |one| query_fs(one, FsInfoClass::OBJECT_ID), NONE, Same),
    row("query FsSectorSize", |one| query_fs(one, FsInfoClass::SECTOR_SIZE), NONE, Same),
    row("query owner", |one| query_security(one, 1), Access::READ_CONTROL, Same),
    row("query group", |one| query_security(one, 2), Access::READ_CONTROL, Same),
    row("query list", |one| query_security(one, 4), Access::READ_CONTROL, Same),
    row("query audit list", |one| query_security(one, 8), Access::empty(), Same),
    row("set Basic", set_basic, Access::WRITE_ATTRIBUTES, Same),
    row(
        "set Rename",
        rename,
        Access::DELETE,
        Differs("Samba also takes WRITE_ATTRIBUTES; MS-FSA 2.1.5.15.12 asks for DELETE"),
    ),
    row(
        "set Link",
        |one| {
            let target = named(one, " linked");
            set_file(one, FileInfoClass::LINK, &target)
        },
        NONE,
        Same,
    ),
    row("set Disposition", |one| set_file(one, FileInfoClass::DISPOSITION, &[1]), Access::DELETE, Same),
    row(
        "set Disposition, off",
        |one| set_file(one, FileInfoClass::DISPOSITION, &[0]),
        Access::DELETE,
        Differs("Samba asks for no right; MS-FSA 2.1.5.15.3 asks for DELETE in both cases"),
    ),
    row(
        "set DispositionEx",
        |one| set_file(one, FileInfoClass::DISPOSITION_EX, &[1, 0, 0, 0]),
        Access::DELETE,
        Differs(ABSENT),
    ),
    row("set Position", |one| set_file(one, FileInfoClass::POSITION, &[0; 8]), NONE, Same),
    row("set Mode", |one| set_file(one, FileInfoClass::MODE, &[0; 4]), NONE, Same),
    row(
        "set FullEa",
        |one| set_file(one, FileInfoClass::FULL_EA, b"\0\0\0\0\0\x01\x01\0A\0x"),
        Access::WRITE_EA,
        Same,
    ),
    row(
        "set Allocation",
        |one| set_file(one, FileInfoClass::ALLOCATION, &8192_u64.to_le_bytes()),
        Access::WRITE_DATA,
        Differs("the same right, but NO_MEMORY without"),
    ),
    row(
        "set EndOfFile",
        |one| set_file(one, FileInfoClass::END_OF_FILE, &2_u64.to_le_bytes()),
        Access::WRITE_DATA,
        Differs("the same right, but NO_MEMORY without"),
    ),
    row("set owner", |one| set_security(one, 1), Access::WRITE_OWNER, Same),
    row("set group", |one| set_security(one, 2), Access::WRITE_OWNER, Same),
    row("set list", |one| set_security(one, 4), Access::WRITE_DAC, Same),
    row(
        "SET_SPARSE",
        |one| fsctl(one, CtlCode::SetSparse, &[1]),
        WRITE_OR_ATTRIBUTES.union(Access::APPEND_DATA),
        Same,
    ),
    row("SET_ZERO_DATA", |one| fsctl(one, CtlCode::SetZeroData, &[0; 16]), Access::WRITE_DATA, Same),
    row(
        "QUERY_ALLOCATED_RANGES",
        |one| fsctl(one, CtlCode::QueryAllocatedRanges, &[0; 16]),
        Access::READ_DATA,
        Same,
    ),
    row("GET_COMPRESSION", |one| fsctl(one, CtlCode::GetCompression, &[]), NONE, Same),
    row("SET_COMPRESSION", |one| fsctl(one, CtlCode::SetCompression, &[0; 2]), Access::WRITE_DATA, Same),
    telling(
        "GET_REPARSE_POINT",
        |one| fsctl(one, CtlCode::GetReparsePoint, &[]),
        NONE,
        NtStatus::NOT_A_REPARSE_POINT,
        Same,
    ),
    row("SET_REPARSE_POINT", set_reparse, WRITE_OR_ATTRIBUTES, Differs(ABSENT)),
    row(
        "CREATE_OR_GET_OBJECT_ID",
        |one| fsctl(one, CtlCode::CreateOrGetObjectId, &[]),
        WRITE_OR_ATTRIBUTES,
        Differs("Samba stores no id and so asks for no right; here one that is made stays with the file"),
    ),
    telling(
        "GET_OBJECT_ID",
        |one| fsctl(one, CtlCode::GetObjectId, &[]),
        NONE,
        NtStatus::OBJECTID_NOT_FOUND,
        Differs(ABSENT),
    ),
    row("SET_OBJECT_ID", |one| fsctl(one, CtlCode::SetObjectId, &[7; 64]), Access::empty(), Differs(ABSENT)),
    row(
        "DELETE_OBJECT_ID",
        |one| fsctl(one, CtlCode::DeleteObjectId, &[]),
        WRITE_OR_ATTRIBUTES,
        Differs(ABSENT),
    ),
    row("READ_FILE_USN_DATA", |one| fsctl(one, CtlCode::ReadFileUsnData, &[]), NONE, Differs(ABSENT)),
    row("GET_NTFS_VOLUME_DATA", |one| fsctl(one, CtlCode::GetNtfsVolumeData, &[]), NONE, Differs(ABSENT)),
    telling(
        "GET_RETRIEVAL_POINTERS",
        |one| fsctl(one, CtlCode::GetRetrievalPointers, &[0; 8]),
        Access::READ_DATA,
        NtStatus::INVALID_DEVICE_REQUEST,
        Differs(ABSENT),
    ),
    row("REQUEST_RESUME_KEY", |one| fsctl(one, CtlCode::SrvRequestResumeKey, &[]), NONE, Same),
    row("COPYCHUNK, from", |one| between(one, CtlCode::SrvCopychunkWrite, false), READS, Same),
    row("COPYCHUNK, to", |one| between(one, CtlCode::SrvCopychunk, true), Access::empty(), Same),
    row("COPYCHUNK_WRITE, to", |one| between(one, CtlCode::SrvCopychunkWrite, true), WRITES, Same),
    row(
        "DUPLICATE_EXTENTS, from",
        |one| between(one, CtlCode::DuplicateExtentsToFile, false),
        Access::READ_DATA,
        Differs(ABSENT),
    ),
    row(
        "DUPLICATE_EXTENTS, to",
        |one| between(one, CtlCode::DuplicateExtentsToFile, true),
        Access::WRITE_DATA,
        Differs(ABSENT),
    ),
    row(
        "FILE_LEVEL_TRIM",
        |one| fsctl(one, CtlCode::FileLevelTrim, &[&[0, 0, 0, 0, 1, 0, 0, 0], &[0; 16][..]].concat()),
        Access::WRITE_DATA,
        Differs(ABSENT),
    ),
    row("QUERY_FILE_REGIONS", |one| fsctl(one, CtlCode::QueryFileRegions, &[]), NONE, Differs(ABSENT)),
];

const DIRECTORY: &[RightsRow] = &[
    row("QUERY_DIRECTORY", list, Access::READ_DATA, Same),
    telling("CHANGE_NOTIFY", watch, Access::READ_DATA, NtStatus::PENDING, Same),
    row("FLUSH", flush, WRITES, Same),
    row(
        "set Rename",
        rename,
        Access::DELETE,
        Differs("Samba asks for no right; MS-FSA 2.1.5.15.12 asks for DELETE"),
    ),
    row("set Disposition", |one| set_file(one, FileInfoClass::DISPOSITION, &[1]), Access::DELETE, Same),
    row("set Basic", set_basic, Access::WRITE_ATTRIBUTES, Same),
    row("query list", |one| query_security(one, 4), Access::READ_CONTROL, Same),
    row("set list", |one| set_security(one, 4), Access::WRITE_DAC, Same),
    row(
        "CREATE_OR_GET_OBJECT_ID",
        |one| fsctl(one, CtlCode::CreateOrGetObjectId, &[]),
        WRITE_OR_ATTRIBUTES,
        Differs("Samba stores no id and so asks for no right; here one that is made stays with the file"),
    ),
    row("SET_REPARSE_POINT", set_reparse, WRITE_OR_ATTRIBUTES, Differs(ABSENT)),
];

fn holds(table: &[RightsRow], options: CreateOptions) {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    client.make("other", &[7; 8192]);
    let mut wrong = Vec::new();
    for (number, row) in table.iter().enumerate() {
        for right in Access::FILE_ALL.iter() {
            let name = format!("{number} {right:?}");
            let made = client.create(&OpenFile { options, ..OpenFile::named(&name) }).file_id();
            if options.is_empty() {
                assert_eq!(client.write(made, 0, &[7; 8192]), OK);
            }
            assert_eq!(client.close(made), OK);
            let open = OpenFile { access: right, disposition: Disposition::Open, ..OpenFile::named(&name) };
            let file = client.create(&open).file_id();
            let is_enough = row.needs.contains(right);
            let expected = if is_enough { row.allowed } else { NtStatus::ACCESS_DENIED };
            let status = (row.act)(&mut SingleRightOpen { client: &mut client, file, name: &name });
            if status != expected {
                wrong.push(format!("{} with {right:?}: {status:?}, not {expected:?}", row.name));
            }
            client.close(file);
        }
        if let Differs(why) = row.samba {
            assert!(!why.is_empty(), "{} says why it is not as Samba has it", row.name);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// MS-SMB2 3.3.5.12 to 3.3.5.21
// MS-FSA 2.1.5
#[test]
fn each_right_to_a_file_is_good_for_what_it_says_and_nothing_else() {
    holds(FILE, CreateOptions::empty());
}

#[test]
fn each_right_to_a_directory_is_good_for_what_it_says_and_nothing_else() {
    holds(DIRECTORY, CreateOptions::DIRECTORY_FILE);
}
