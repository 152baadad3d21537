//! Owners and modes that clients write into descriptors by number, as Linux 6.12 sends them: with `posix`,
//! with `modefromsid` and with `idsfromsid`.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use smb_wire::create::{Access, CreateOptions, Disposition};
use smb_wire::create_context::{Contexts, RequestContext};
use smb_wire::query_info::{self, InfoType};
use smb_wire::{FileId, NtStatus};
use testkit::smb::client::OpenFile;
use testkit::smb::{Dial, Peer, SmbTestServer};
use volume::security::{Ace, AceFlags, AceKind, Acl, Descriptor, Rights, Sid, well_known};

const SUCCESS: NtStatus = NtStatus::SUCCESS;
const OWNER: u32 = 1;
const GROUP: u32 = 2;
const DACL: u32 = 4;

/// The bytes that Linux 6.12.117 sent: chmod with `posix` and with `modefromsid`, and a new file with
/// `modefromsid` and with `idsfromsid`.
const POSIX: &str = "01000480380000007c0000000000000014000000020024000100000000001c000000000001030000000000\
    055800000003000000a001000001050000000000051500000051f841540d981375e4e2895de80300000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000010200000000001602000000e803000000000000000000\
    000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000";
const MODE: &str = "010004804c000000900000000000000014000000020038000200000001001c00000000000103000000000005\
    5800000003000000a0010000000014000000001001010000000000050b00000001050000000000051500000051f841540d981375\
    e4e2895de80300000000000000000000000000000000000000000000000000000000000000000000000000000000000001020000\
    0000001602000000e803000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    000000000000000000000000";
const MAKE_WITH_MODE: &str = "0100048000000000000000000000000014000000020038000200000001001c0000000000010300\
    00000000055800000003000000a4010000000014000000001001010000000000050b000000";
const MAKE_WITH_IDS: &str = "010004801400000028000000000000003c00000001030000000000055800000001000000000000\
    000103000000000005580000000200000000000000020054000300000001001c0000000000010300000000000558000000030000\
    00ff0f000000001c00000000100103000000000005580000000100000000000000000014000000001001010000000000050b0000\
    00";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().map(|digit| digit.to_digit(16).expect("a digit")).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// `S-1-5-88-KIND-NUMBER` on the wire.
fn sid(kind: u32, number: u32) -> Vec<u8> {
    let subs = [88, kind, number].map(u32::to_le_bytes).concat();
    [&[1, 3, 0, 0, 0, 0, 0, 5][..], &subs].concat()
}

/// A frame with another number in each SID of this kind.
fn with(frame: &[u8], kind: u32, number: u32) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let prefix = &sid(kind, 0)[..16];
    let places: Vec<usize> =
        frame.windows(16).enumerate().filter(|(_, bytes)| *bytes == prefix).map(|(at, _)| at + 16).collect();
    assert!(!places.is_empty(), "there is one");
    for at in places {
        frame[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    frame
}

fn with_mode(frame: &str, mode: u32) -> Vec<u8> {
    with(&bytes(frame), 3, mode)
}

/// An owner and a group without a list (MS-DTYP 2.4.6).
fn owners(uid: u32, gid: u32) -> Vec<u8> {
    let header = [0x8000_0001_u32, 20, 40, 0, 0].map(u32::to_le_bytes).concat();
    [header, sid(1, uid), sid(2, gid)].concat()
}

fn set_security(client: &mut Peer, file_id: FileId, which: u32, buffer: &[u8]) -> NtStatus {
    client.set_info(file_id, InfoType::Security, 0, which, buffer)
}

fn query_security(client: &mut Peer, file_id: FileId, which: u32) -> Descriptor {
    let answer = client.query_info(file_id, InfoType::Security, 0, which);
    assert_eq!(answer.status(), SUCCESS);
    let response = query_info::Response::parse(&answer.message).expect("a response");
    Descriptor::parse(response.output_buffer).expect("a descriptor")
}

/// The mode by number in a list.
fn mode_said(shown: &Descriptor) -> Option<u32> {
    let list = shown.dacl.as_ref().expect("a list");
    list.aces.iter().find_map(|ace| match ace.sid()?.subs() {
        [88, 3, mode] => Some(*mode),
        _ => None,
    })
}

fn mode_on_host(world: &SmbTestServer, name: &str) -> u32 {
    let found = std::fs::metadata(world.root().join(name));
    found.unwrap_or_else(|why| panic!("{name}: {why}")).permissions().mode() & 0o7777
}

fn with_descriptor(client: &mut Peer, open: OpenFile<'_>, bytes: &[u8]) -> FileId {
    let contexts = [RequestContext::SdBuffer(bytes)];
    let open = OpenFile { disposition: Disposition::Create, contexts: Contexts::Requests(&contexts), ..open };
    client.create(&open).file_id()
}

/// Whether an entry lets the owner read, and whether one gives Authenticated Users full access.
fn lets(shown: &Descriptor) -> (bool, bool) {
    let list = shown.dacl.as_ref().expect("a list");
    let has = |rights: Rights, is_meant: &dyn Fn(&Sid) -> bool| {
        list.aces.iter().any(
            |ace| matches!(&ace.kind, AceKind::Allow(given, sid) if given.contains(rights) && is_meant(sid)),
        )
    };
    let everybody = has(Rights::WRITE_DATA, &|sid| *sid == well_known::AUTHENTICATED_USERS);
    (has(Rights::READ_DATA, &|_| true), everybody)
}

#[test]
fn chmod_of_a_client_with_the_posix_extensions_sets_the_mode_and_closes_nothing() {
    let world = SmbTestServer::on_disk();
    let mut client = world.dial(&Dial { posix: true, ..Dial::default() });
    let contexts = [RequestContext::Posix { mode: 0o644 }];
    let posix = OpenFile { contexts: Contexts::Requests(&contexts), ..OpenFile::named("f") };
    let made = client.create(&posix).file_id();
    for mode in [0o600, 0o755, 0o640, 0o444, 0o000, 0o1644] {
        let access = Access::WRITE_DAC | Access::READ_CONTROL;
        let file = client.create(&OpenFile { access, ..posix }).file_id();
        assert_eq!(set_security(&mut client, file, DACL, &with_mode(POSIX, mode)), SUCCESS);
        assert_eq!(mode_on_host(&world, "f"), mode);
        let shown = query_security(&mut client, file, OWNER | GROUP | DACL);
        assert_eq!(mode_said(&shown), Some(mode));
        assert_eq!(lets(&shown), (mode & 0o444 != 0, false), "{mode:o}");
        assert_eq!(client.close(file), SUCCESS);
    }
    assert_eq!(client.close(made), SUCCESS);
}

#[test]
fn what_modefromsid_makes_has_its_mode_and_lets_nobody_else_in() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let linux = |mode| with_mode(MAKE_WITH_MODE, mode);
    let file = with_descriptor(&mut client, OpenFile::named("f"), &linux(0o640));
    let directory = with_descriptor(&mut client, OpenFile::directory("d"), &linux(0o750));
    assert_eq!((mode_on_host(&world, "f"), mode_on_host(&world, "d")), (0o640, 0o750));
    let both = with_mode(MAKE_WITH_IDS, 0o711);
    with_descriptor(&mut client, OpenFile::named("with both"), &both);
    assert_eq!(mode_on_host(&world, "with both"), 0o711);
    for (file, mode) in [(file, 0o640), (directory, 0o750)] {
        let shown = query_security(&mut client, file, DACL);
        assert_eq!((mode_said(&shown), lets(&shown)), (Some(mode), (true, false)));
    }
    assert_eq!(set_security(&mut client, file, DACL, &with_mode(MODE, 0o4711)), SUCCESS);
    assert_eq!(mode_on_host(&world, "f"), 0o4711);
    let shown = query_security(&mut client, file, DACL);
    assert_eq!((mode_said(&shown), lets(&shown)), (Some(0o4711), (true, false)));
}

/// All ways to create an object with a mode over SMB, below a directory that passes full access for
/// everybody on.
// RFC 8881 6.4.3: the rule for NFS applies to the mode of a POSIX create context too
#[test]
fn a_mode_is_applied_to_what_is_inherited_whichever_way_something_is_made() {
    let world = SmbTestServer::on_disk();
    let mut client = world.dial(&Dial { posix: true, ..Dial::default() });
    let above =
        client.create(&OpenFile { disposition: Disposition::Create, ..OpenFile::directory("d") }).file_id();
    let handed_down = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let all = Ace::allow(well_known::EVERYONE, Rights::ALL, handed_down);
    let list = Descriptor { dacl: Some(Acl::new(vec![all])), ..Descriptor::default() };
    let list = list.encode().expect("a descriptor");
    assert_eq!(set_security(&mut client, above, DACL, &list), SUCCESS);
    let sent = with_mode(MAKE_WITH_MODE, 0o600);
    let ways = [
        ("inherited", vec![], false),
        ("posix", vec![RequestContext::Posix { mode: 0o600 }], true),
        ("modefromsid", vec![RequestContext::SdBuffer(&sent)], true),
        ("both", vec![RequestContext::Posix { mode: 0o644 }, RequestContext::SdBuffer(&sent)], true),
    ];
    // Linux's client separates names by a slash if it has the POSIX extensions.
    let separator = |way: &str| if matches!(way, "posix" | "both") { '/' } else { '\\' };
    for (way, contexts, is_shut) in ways {
        for is_directory in [false, true] {
            let name = format!("d{}{way} {is_directory}", separator(way));
            let open = if is_directory { OpenFile::directory(&name) } else { OpenFile::named(&name) };
            let contexts = Contexts::Requests(&contexts);
            let open = OpenFile { disposition: Disposition::Create, contexts, ..open };
            let made = client.create(&open).file_id();
            let shown = query_security(&mut client, made, DACL);
            let others = |ace: &Ace| {
                let is_in_force = !ace.flags.contains(AceFlags::INHERIT_ONLY);
                let is_allowed =
                    matches!(&ace.kind, AceKind::Allow(rights, _) if rights.contains(Rights::READ_DATA));
                is_in_force && is_allowed && ace.sid() == Some(&well_known::EVERYONE)
            };
            let is_open = shown.dacl.as_ref().expect("a list").aces.iter().any(others);
            assert_eq!(is_open, !is_shut, "{name}: {shown:?}");
            let mode = mode_on_host(&world, &name.replace('\\', "/"));
            assert_eq!(mode & 0o077 == 0, is_shut, "{name}: {mode:o}");
            assert_eq!(client.close(made), SUCCESS);
        }
    }
}

#[test]
fn idsfromsid_makes_files_and_is_told_owners_by_number() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let theirs = with(&with(&bytes(MAKE_WITH_IDS), 1, 1234), 2, 5678);
    let file = with_descriptor(&mut client, OpenFile::named("f"), &theirs);
    // Without a mode of its own Linux sends all bits.
    let on_host = std::fs::metadata(world.root().join("f")).expect("a file");
    assert_eq!(mode_on_host(&world, "f") & 0o7000, 0);
    let shown = query_security(&mut client, file, OWNER | GROUP | DACL);
    let number = |kind, number| Some(Sid::new(5, &[88, kind, number]));
    assert_eq!((shown.owner, shown.group), (number(1, on_host.uid()), number(2, on_host.gid())));
    assert_eq!(lets(&shown), (true, false));
    // An owner may set the same value again, but may not give files away.
    let own = owners(on_host.uid(), on_host.gid());
    assert_eq!(set_security(&mut client, file, OWNER | GROUP, &own), SUCCESS);
    let others = owners(1234, 5678);
    assert_eq!(set_security(&mut client, file, OWNER | GROUP, &others), NtStatus::ACCESS_DENIED);
}

#[test]
fn nobody_else_is_told_of_numbers() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let file = client.create(&OpenFile { options: CreateOptions::empty(), ..OpenFile::named("f") }).file_id();
    let shown = query_security(&mut client, file, OWNER | GROUP | DACL);
    assert_eq!(mode_said(&shown), None);
    assert!(shown.owner.is_some_and(|owner| owner.subs().first() != Some(&88)));
}
