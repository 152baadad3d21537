//! The server supports all features that it announces: every bit of the capabilities of NEGOTIATE and
//! TREE_CONNECT, of the file system's attributes and of the AAPL context. A bit without a test here must not
//! be announced.

use smb_wire::create::{self, CreateOptions, OplockLevel};
use smb_wire::create_context::{
    Contexts, DurableFlags, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext, ResponseContext, aapl,
};
use smb_wire::fscc::FileInfoClass;
use smb_wire::fscc::fs::FsAttributes;
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::negotiate::{self, Capabilities, Dialect};
use smb_wire::query_info::{self, InfoType};
use smb_wire::tree_connect::{self, ShareCapabilities, ShareFlags};
use smb_wire::{FileId, Guid, LeaseKey, NtStatus, SmbCommand, flush, utf16};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::ReceivedMessage;
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};
use volume::Failure;
use volume::faulty::VolumeCall;
use volume::journal::MemoryJournal;
use volume::memory::MemoryVolume;

const SUCCESS: NtStatus = NtStatus::SUCCESS;
/// A name whose case and letters must be kept.
const NAME: &str = "MiXed \u{416}";

fn set_file(client: &mut Peer, file: FileId, class: FileInfoClass, buffer: &[u8]) -> NtStatus {
    client.set_info(file, InfoType::File, class.0, 0, buffer)
}

fn query(client: &mut Peer, file_id: FileId, info_type: InfoType, class: u8, which: u32) -> Vec<u8> {
    let answer = client.query_info(file_id, info_type, class, which);
    assert_eq!(answer.status(), SUCCESS, "class {class}");
    query_info::Response::parse(&answer.message).expect("a response").output_buffer.to_vec()
}

fn fsctl(client: &mut Peer, code: CtlCode, file: FileId, input: &[u8]) -> (NtStatus, Vec<u8>) {
    let answer =
        client.call(SmbCommand::Ioctl, |out| ioctl::Request::fsctl(code, file, input, 4096).write(out));
    let output = match ioctl::Response::parse(&answer.message) {
        Ok(response) => response.output.to_vec(),
        Err(_) => Vec::new(),
    };
    (answer.status(), output)
}

/// FileLinkInformation and FileRenameInformation (MS-FSCC 2.4.27.2, 2.4.42.2).
fn named(name: &str) -> Vec<u8> {
    let name = utf16::encode(name);
    [&[0; 16][..], &(name.len() as u32).to_le_bytes(), &name].concat()
}

fn lease(key: u8, state: LeaseState, is_second: bool) -> RequestContext<'static> {
    let v2 = is_second.then_some(LeaseV2 { parent_key: LeaseKey([0; 16]), epoch: 0 });
    RequestContext::Lease(Lease { key: LeaseKey([key; 16]), state, flags: LeaseFlags::empty(), v2 })
}

fn leased(client: &mut Peer, open: OpenFile<'_>, context: RequestContext<'static>) -> Option<LeaseState> {
    let contexts = [context];
    let contexts = Contexts::Requests(&contexts);
    let answer = client.create(&OpenFile { oplock: OplockLevel::Lease, contexts, ..open });
    contexts_of(&answer, |context| match context {
        ResponseContext::Lease(lease) => Some(lease.state),
        _ => None,
    })
}

fn contexts_of<T>(answer: &ReceivedMessage, pick: impl Fn(ResponseContext<'_>) -> Option<T>) -> Option<T> {
    let response = create::Response::parse(&answer.message).expect("a CREATE response");
    response.contexts.responses().find_map(|context| pick(context.expect("a context")))
}

/// The capabilities for a client that announces all of a dialect.
fn negotiated(world: &SmbTestServer, dialect: Dialect) -> Capabilities {
    let dial = Dial { everything: true, ..Dial::with(dialect) };
    let answer = world.peer().negotiate(&dial);
    negotiate::Response::parse(&answer.message).expect("a NEGOTIATE response").capabilities
}

// MS-SMB2 2.2.4
#[test]
fn what_negotiate_announces_is_done() {
    let memory = MemoryVolume::new(1);
    let world = SmbTestServer::persistent(&memory, &std::sync::Arc::new(MemoryJournal::default()));
    let read = LeaseState::READ_CACHING;
    let all = read | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING;
    for dialect in [Dialect::Smb202, Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
        let dial = Dial { everything: true, ..Dial::with(dialect) };
        let mut client = world.dial(&dial);
        for bit in negotiated(&world, dialect).iter() {
            match bit {
                Capabilities::LEASING => {
                    let got =
                        leased(&mut client, OpenFile::named("leased"), lease(1, all, dialect.is_smb3()));
                    assert_eq!(got, Some(all), "{dialect:?}");
                }
                Capabilities::LARGE_MTU => {
                    let file = client.open("large");
                    assert_eq!(client.write(file, 0, &vec![7; 1 << 20]), SUCCESS);
                    assert_eq!(client.read(file, 0, 1 << 20).data().len(), 1 << 20);
                }
                Capabilities::MULTI_CHANNEL => {
                    assert!(world.bind(&dial, &client).is_served());
                }
                Capabilities::PERSISTENT_HANDLES => {
                    let guid = Guid([dialect.get() as u8; 16]);
                    let flags = DurableFlags::PERSISTENT;
                    let asked =
                        [RequestContext::DurableHandleRequestV2 { timeout: 0, flags, create_guid: guid }];
                    let contexts = Contexts::Requests(&asked);
                    let answer = client
                        .create(&OpenFile { contexts, ..OpenFile::named(&format!("p{:x}", dialect.get())) });
                    let given = contexts_of(&answer, |context| match context {
                        ResponseContext::DurableHandleV2 { flags, .. } => Some(flags),
                        _ => None,
                    });
                    assert_eq!(given, Some(flags));
                }
                Capabilities::DIRECTORY_LEASING => {
                    let wanted = read | LeaseState::HANDLE_CACHING;
                    let name = format!("d{:x}", dialect.get());
                    let got = leased(&mut client, OpenFile::directory(&name), lease(2, wanted, true));
                    assert_eq!(got, Some(wanted));
                }
                Capabilities::ENCRYPTION => {
                    let sealed = Dial { seals: true, guid: Guid([dialect.get() as u8; 16]), ..dial.clone() };
                    assert!(world.dial(&sealed).is_served());
                }
                other => panic!("{other:?} is announced by {dialect:?} and not proved"),
            }
        }
    }
}

// MS-SMB2 2.2.10
#[test]
fn what_tree_connect_announces_is_done() {
    let memory = MemoryVolume::new(1);
    let world = SmbTestServer::persistent(&memory, &std::sync::Arc::new(MemoryJournal::default()));
    let told = |client: &mut Peer| {
        let answer = client.try_tree(SHARE);
        let told = tree_connect::Response::parse(&answer.message).expect("a TREE_CONNECT response");
        (told.capabilities, told.share_flags)
    };
    // The persistent handle is opened above.
    let (capabilities, flags) = told(&mut world.client());
    assert_eq!((capabilities, flags), (ShareCapabilities::CONTINUOUS_AVAILABILITY, ShareFlags::empty()));
    let world = SmbTestServer::in_memory();
    world.configure(|share| {
        share.encryption = smb::Encryption::Required;
        share.hide_unreadable = true;
    });
    let mut client = world.peer();
    client.log_on(&Dial::default());
    let (capabilities, flags) = told(&mut client);
    let enforced = ShareFlags::ENCRYPT_DATA | ShareFlags::ACCESS_BASED_DIRECTORY_ENUM;
    assert_eq!((capabilities, flags), (ShareCapabilities::empty(), enforced));
    // ENCRYPT_DATA: a client that does not seal is refused. The bit for hidden entries is in
    // `hostile_sessions.rs`.
    client.connect_tree(SHARE);
    assert_eq!(client.create(&OpenFile::named("f")).status(), NtStatus::ACCESS_DENIED);
    assert!(world.dial(&Dial { seals: true, ..Dial::default() }).is_served());
}

// MS-SMB2 3.3.5.7
#[test]
fn a_share_asks_for_sealing_itself_or_for_sessions_that_are_not_sealed() {
    use smb::Encryption::{Enabled, Required};
    let world = SmbTestServer::in_memory();
    for (server, share, inherits, expected) in [
        (Enabled, Enabled, true, false),
        (Required, Enabled, true, false),
        (Required, Required, true, false),
        (Required, Required, false, true),
        (Enabled, Required, false, true),
        // The server demands it now. Sessions from before do not know that.
        (Enabled, Required, true, true),
    ] {
        world.configure_server(|config| config.encryption = server);
        world.configure(|config| (config.encryption, config.inherits_encryption) = (share, inherits));
        let mut client = world.dial(&Dial { seals: true, ..Dial::default() });
        let answer = client.try_tree(SHARE);
        let told = tree_connect::Response::parse(&answer.message).expect("a TREE_CONNECT response");
        let is_said = told.share_flags.contains(ShareFlags::ENCRYPT_DATA);
        assert_eq!(is_said, expected, "{server:?}, {share:?}, inherited: {inherits}");
    }
}

// MS-FSCC 2.5.1
#[test]
fn what_the_file_system_announces_is_done() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let file = client.open(NAME);
    let told = query(&mut client, file, InfoType::Filesystem, 5, 0);
    let bits = FsAttributes::from_bits_retain(u32::from_le_bytes(told[..4].try_into().unwrap()));
    assert_eq!(u32::from_le_bytes(told[4..8].try_into().unwrap()), 255);
    assert_eq!(client.create(&OpenFile::named(&"n".repeat(255))).status(), SUCCESS);
    assert_ne!(client.create(&OpenFile::named(&"n".repeat(256))).status(), SUCCESS);
    for bit in bits.iter() {
        match bit {
            FsAttributes::CASE_SENSITIVE_SEARCH => tells_case_apart(&world, &mut client),
            FsAttributes::CASE_PRESERVED_NAMES | FsAttributes::UNICODE_ON_DISK => {
                let name = query(&mut client, file, InfoType::File, FileInfoClass::NORMALIZED_NAME.0, 0);
                assert_eq!(name[4..], utf16::encode(NAME));
            }
            FsAttributes::PERSISTENT_ACLS => {
                let before = query(&mut client, file, InfoType::Security, 0, 4);
                assert_eq!(client.set_info(file, InfoType::Security, 0, 4, &before), SUCCESS);
                assert_eq!(query(&mut client, file, InfoType::Security, 0, 4), before);
            }
            FsAttributes::SUPPORTS_SPARSE_FILES => {
                assert_eq!(fsctl(&mut client, CtlCode::SetSparse, file, &[]).0, SUCCESS);
                let basic = query(&mut client, file, InfoType::File, FileInfoClass::BASIC.0, 0);
                assert_eq!(basic[33] & 0x02, 0x02, "FILE_ATTRIBUTE_SPARSE_FILE");
            }
            FsAttributes::SUPPORTS_REPARSE_POINTS => keeps_reparse_points(&mut client),
            FsAttributes::SUPPORTS_OBJECT_IDS => {
                let made = fsctl(&mut client, CtlCode::CreateOrGetObjectId, file, &[]);
                assert_eq!((made.0, made.1.len()), (SUCCESS, 64));
                assert_eq!(fsctl(&mut client, CtlCode::GetObjectId, file, &[]), made);
            }
            FsAttributes::SUPPORTS_HARD_LINKS => {
                assert_eq!(set_file(&mut client, file, FileInfoClass::LINK, &named("another name")), SUCCESS);
                let standard = query(&mut client, file, InfoType::File, FileInfoClass::STANDARD.0, 0);
                assert_eq!(standard[16..20], 2_u32.to_le_bytes());
            }
            FsAttributes::SUPPORTS_POSIX_UNLINK_RENAME => unlinks_at_once(&mut client),
            FsAttributes::NAMED_STREAMS => client.make(&format!("{NAME}:stream"), b"beside"),
            FsAttributes::SUPPORTS_EXTENDED_ATTRIBUTES => {
                let ea = [&[0, 0, 0, 0, 0, 1, 1, 0][..], b"E\0v"].concat();
                assert_eq!(set_file(&mut client, file, FileInfoClass::FULL_EA, &ea), SUCCESS);
                assert_eq!(query(&mut client, file, InfoType::File, FileInfoClass::FULL_EA.0, 0), ea);
            }
            FsAttributes::SUPPORTS_BLOCK_REFCOUNTING => shares_storage(&mut client),
            other => panic!("{other:?} is announced and not proved"),
        }
    }
}

fn tells_case_apart(world: &SmbTestServer, client: &mut Peer) {
    let posix = [RequestContext::Posix { mode: 0o644 }];
    let mut knowing = world.dial(&Dial { posix: true, ..Dial::elsewhere() });
    for (name, text) in [("Case", b"upper"), ("case", b"lower")] {
        let contexts = Contexts::Requests(&posix);
        let id = knowing.create(&OpenFile { contexts, ..OpenFile::named(name) }).file_id();
        assert_eq!(knowing.write(id, 0, text), SUCCESS);
    }
    let id = client.open("Case");
    assert_eq!(client.read(id, 0, 9).data(), b"upper");
}

fn keeps_reparse_points(client: &mut Peer) {
    // An unassigned tag with a GUID (MS-FSCC 2.1.2.3).
    let data = [&0x0000_1234_u32.to_le_bytes()[..], &[4, 0, 0, 0], &[9; 16], b"data"].concat();
    let options = CreateOptions::OPEN_REPARSE_POINT;
    let id = client.create(&OpenFile { options, ..OpenFile::named("reparse") }).file_id();
    assert_eq!(fsctl(client, CtlCode::SetReparsePoint, id, &data).0, SUCCESS);
    assert_eq!(fsctl(client, CtlCode::GetReparsePoint, id, &[]), (SUCCESS, data));
}

fn unlinks_at_once(client: &mut Peer) {
    let (kept, goes) = (client.open("unlinked"), client.open("unlinked"));
    assert_eq!(set_file(client, goes, FileInfoClass::DISPOSITION_EX, &[3, 0, 0, 0]), SUCCESS);
    assert_eq!(client.close(goes), SUCCESS);
    let again = OpenFile { disposition: create::Disposition::Open, ..OpenFile::named("unlinked") };
    assert_eq!(client.create(&again).status(), NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(client.write(kept, 0, b"still"), SUCCESS);
}

fn shares_storage(client: &mut Peer) {
    let (from, to) = (client.open("from"), client.open("to"));
    let block = vec![7; 65_536];
    assert_eq!(client.write(from, 0, &block), SUCCESS);
    assert_eq!(client.write(to, 0, &[0; 65_536]), SUCCESS);
    let ids = [from.persistent.to_le_bytes(), from.volatile.to_le_bytes()].concat();
    let lengths = [0_u64, 0, 65_536].map(u64::to_le_bytes).concat();
    let asked = [ids, lengths].concat();
    assert_eq!(fsctl(client, CtlCode::DuplicateExtentsToFile, to, &asked).0, SUCCESS);
    assert_eq!(client.read(to, 0, 65_536).data(), block);
}

fn ask_aapl(client: &mut Peer, name: &str) -> (aapl::ServerCaps, aapl::VolumeCaps, FileId) {
    let (bitmap, caps) = (aapl::QueryBitmap::from_bits_retain(7), aapl::ServerCaps::from_bits_retain(0xff));
    let asked = [RequestContext::Aapl(aapl::Request::ServerQuery { bitmap, client_caps: caps })];
    let answer = client.create(&OpenFile { contexts: Contexts::Requests(&asked), ..OpenFile::named(name) });
    let told = contexts_of(&answer, |context| match context {
        ResponseContext::Aapl(aapl::Response::ServerQuery { server_caps, volume_caps, .. }) => {
            server_caps.zip(volume_caps)
        }
        _ => None,
    });
    let (server, volume) = told.expect("an AAPL context");
    (server, volume, answer.file_id())
}

/// COPYCHUNK for a whole file (OSX_COPYFILE) is not supported, and so not announced: the client would take
/// SUCCESS for a copy.
#[test]
fn what_macos_is_told_is_done() {
    let (world, plan) = SmbTestServer::faulty();
    let mut client = world.client();
    let (server, volume, file) = ask_aapl(&mut client, "f");
    assert_eq!(server, aapl::ServerCaps::UNIX_BASED);
    // Names that only POSIX has: a colon is U+F022 on the wire.
    client.make("a\u{f022}b", b"colon");
    assert_eq!(volume, aapl::VolumeCaps::FULL_SYNC);
    let flush = |client: &mut Peer| {
        client.status(SmbCommand::Flush, |out| flush::Request { reserved1: 0xffff, file_id: file }.write(out))
    };
    assert_eq!(flush(&mut client), SUCCESS);
    plan.always(VolumeCall::Sync, Some(Failure::Io));
    assert_eq!(flush(&mut client), NtStatus::IO_DEVICE_ERROR);
}

// The same as Samba's vfs_fruit (fruit:posix_rename).
#[test]
fn a_mac_renames_a_directory_in_which_it_has_files_open_and_nobody_else() {
    let world = SmbTestServer::in_memory();
    let (mut mac, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    ask_aapl(&mut mac, "anything");
    let open = |client: &mut Peer| client.create(&OpenFile::directory("d")).file_id();
    let rename =
        |client: &mut Peer, id: FileId, to: &str| set_file(client, id, FileInfoClass::RENAME, &named(to));
    let directory = open(&mut mac);
    let file = mac.open("d\\f");
    assert_eq!(rename(&mut mac, directory, "moved"), SUCCESS);
    assert_eq!(mac.write(file, 0, b"moved along"), SUCCESS);
    let id = mac.open("moved\\f");
    assert_eq!(mac.read(id, 0, 20).data(), b"moved along");
    // A file of another client is a conflict as ever, and a client that is not a Mac is refused.
    let theirs = other.open("moved\\theirs");
    assert_eq!(rename(&mut mac, directory, "again"), NtStatus::ACCESS_DENIED);
    assert_eq!(other.close(theirs), SUCCESS);
    let directory = open(&mut other);
    let _below = other.open("d\\f");
    assert_eq!(rename(&mut other, directory, "never"), NtStatus::ACCESS_DENIED);
}
