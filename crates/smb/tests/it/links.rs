//! Links over the wire: links of the host are removed and renamed by their own names, and a link from a
//! client is not opened as if it were an ordinary file.

use std::os::unix::fs::symlink;
use std::path::Path;

use smb_wire::create::{Access, CreateOptions, Disposition};
use smb_wire::fscc::FileInfoClass;
use smb_wire::{FileId, NtStatus, SmbCommand as Smb, set_info, utf16};
use testkit::smb::client::OpenFile;
use testkit::smb::{Peer, SmbTestServer};

/// A share with files and directories in `real`, and links to them at the top.
fn world_with_links() -> (SmbTestServer, Peer) {
    let world = SmbTestServer::on_disk();
    let root = world.root();
    for directory in ["real/full", "real/empty", "other"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for file in ["real/f", "real/full/g"] {
        std::fs::write(root.join(file), "text").unwrap();
    }
    for (name, target) in [
        ("filelink", "real/f"),
        ("fulllink", "real/full"),
        ("emptylink", "real/empty"),
        ("nowhere", "real/missing"),
        ("out", "/etc/passwd"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    let client = world.client();
    (world, client)
}

fn assert_targets_are_whole(root: &Path, after: &str) {
    for file in ["real/f", "real/full/g"] {
        assert_eq!(std::fs::read(root.join(file)).unwrap_or_default(), b"text", "{file} after {after}");
    }
    assert!(root.join("real/empty").is_dir(), "after {after}");
}

fn set(client: &mut Peer, file_id: FileId, class: FileInfoClass, buffer: &[u8]) -> NtStatus {
    client.status(Smb::SetInfo, |out| {
        set_info::Request::of_file(class, file_id, buffer).write(out);
    })
}

/// The request of clients without a notion of links that remove or rename a name.
fn to_go<'a>(name: &'a str, access: Access, options: CreateOptions) -> OpenFile<'a> {
    OpenFile { access, options, disposition: Disposition::Open, ..OpenFile::named(name) }
}

#[test]
fn a_link_that_is_removed_leaves_what_it_leads_to() {
    let directory = CreateOptions::DIRECTORY_FILE;
    let plain = CreateOptions::empty();
    let links = [
        ("filelink", plain),
        ("fulllink", directory),
        ("emptylink", directory),
        ("nowhere", plain),
        ("out", plain),
    ];
    for access in [Access::DELETE, Access::DELETE | Access::READ_ATTRIBUTES, Access::GENERIC_ALL] {
        for by_close in [true, false] {
            let (world, mut client) = world_with_links();
            let root = world.root();
            for (name, kind) in links {
                if access == Access::GENERIC_ALL && ["nowhere", "out"].contains(&name) {
                    continue;
                }
                let on_close = if by_close { CreateOptions::DELETE_ON_CLOSE } else { plain };
                let id = client.create(&to_go(name, access, kind | on_close)).file_id();
                if !by_close {
                    let status = set(&mut client, id, FileInfoClass::DISPOSITION, &[1]);
                    assert_eq!(status, NtStatus::SUCCESS, "{name}");
                }
                assert_eq!(client.close(id), NtStatus::SUCCESS, "{name}");
                assert!(std::fs::symlink_metadata(root.join(name)).is_err(), "{name} is still there");
                assert_targets_are_whole(&root, name);
            }
        }
    }
}

// MS-FSCC 2.4.42.2
fn new_name(name: &str) -> Vec<u8> {
    let name = utf16::encode(name);
    let mut buffer = vec![0; 16];
    buffer.extend_from_slice(&(name.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&name);
    buffer
}

#[test]
fn a_link_that_is_renamed_leaves_what_it_leads_to() {
    for access in [Access::DELETE, Access::GENERIC_ALL] {
        let (world, mut client) = world_with_links();
        let root = world.root();
        for name in ["filelink", "fulllink"] {
            let id = client.create(&to_go(name, access, CreateOptions::empty())).file_id();
            let to = new_name(&format!("other\\{name}"));
            assert_eq!(set(&mut client, id, FileInfoClass::RENAME, &to), NtStatus::SUCCESS, "{name}");
            assert_eq!(client.close(id), NtStatus::SUCCESS);
            assert_targets_are_whole(&root, name);
            assert!(root.join("other").join(name).is_symlink());
        }
    }
}

/// Clients without a notion of links remove a tree name by name, including the entries behind a link.
#[test]
fn a_tree_that_is_removed_name_by_name_leaves_what_stands_behind_a_link() {
    let (world, mut client) = world_with_links();
    let file = to_go("fulllink\\g", Access::DELETE, CreateOptions::DELETE_ON_CLOSE);
    assert_eq!(client.create(&file).status(), NtStatus::CANNOT_DELETE);
    let id = client.create(&to_go("fulllink\\g", Access::DELETE, CreateOptions::empty())).file_id();
    assert_eq!(set(&mut client, id, FileInfoClass::DISPOSITION, &[1]), NtStatus::CANNOT_DELETE);
    assert_eq!(client.close(id), NtStatus::SUCCESS);
    assert_targets_are_whole(&world.root(), "a recursive delete");
}

/// A reparse point with this tag and data.
// MS-FSCC 2.1.2.2, 2.1.2.3
fn reparse(tag: u32, data: &[u8]) -> Vec<u8> {
    let mut out = tag.to_le_bytes().to_vec();
    out.extend_from_slice(&(data.len() as u16).to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    if tag & 0x8000_0000 == 0 {
        out.extend_from_slice(&[7; 16]);
    }
    out.extend_from_slice(data);
    out
}

const SUBSTITUTE: &str = "\\??\\C:\\elsewhere\\x";

/// An absolute symbolic link, or a junction, which has no flags.
// MS-FSCC 2.1.2.4, 2.1.2.5
fn to_elsewhere(tag: u32) -> Vec<u8> {
    let name = utf16::encode(SUBSTITUTE);
    let length = (name.len() as u16).to_le_bytes();
    let mut data = [[0, 0], length, [0, 0], length].concat();
    if tag == 0xa000_000c {
        data.extend_from_slice(&[0; 4]);
    }
    data.extend_from_slice(&name);
    reparse(tag, &data)
}

fn make_reparse(client: &mut Peer, name: &str, kind: CreateOptions, buffer: &[u8]) {
    let options = CreateOptions::OPEN_REPARSE_POINT | kind;
    let id = client.create(&OpenFile { options, ..OpenFile::named(name) }).file_id();
    let set = smb_wire::ioctl::Request::fsctl(smb_wire::ioctl::CtlCode::SetReparsePoint, id, buffer, 0);
    assert_eq!(client.status(Smb::Ioctl, |out| set.write(out)), NtStatus::SUCCESS, "{name}");
    assert_eq!(client.close(id), NtStatus::SUCCESS);
}

// MS-SMB2 2.2.2.2.1, 3.3.5.9
#[test]
fn an_absolute_link_that_a_client_has_made_stops_who_opens_it() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    make_reparse(&mut client, "file", CreateOptions::NON_DIRECTORY_FILE, &to_elsewhere(0xa000_000c));
    make_reparse(&mut client, "directory", CreateOptions::DIRECTORY_FILE, &to_elsewhere(0xa000_000c));
    for (path, unparsed) in [
        ("file", ""),
        ("directory", ""),
        ("file\\new", "\\new"),
        ("directory\\new", "\\new"),
        ("directory\\deep\\new", "\\deep\\new"),
        ("directory/new", "/new"),
        ("directory/deep//new", "/deep//new"),
    ] {
        for disposition in
            [Disposition::Open, Disposition::OpenIf, Disposition::Create, Disposition::OverwriteIf]
        {
            let answer = client.create(&OpenFile { disposition, ..OpenFile::named(path) });
            assert_eq!(answer.status(), NtStatus::STOPPED_ON_SYMLINK, "{path} {disposition:?}");
            let error = smb_wire::error::Response::parse(&answer.message).unwrap();
            let (_, data) = error.errors().next().unwrap().unwrap();
            let link = smb_wire::error::SymbolicLink::parse(data).unwrap();
            assert_eq!(usize::from(link.unparsed_path_length), utf16::encode(unparsed).len(), "{path}");
            assert_eq!(link.substitute_name.to_string_lossy(), SUBSTITUTE);
            assert!(!link.is_relative);
        }
    }
    assert_eq!(std::fs::read_dir(world.root().join("directory")).unwrap().count(), 0);
    let itself = OpenFile {
        options: CreateOptions::OPEN_REPARSE_POINT,
        disposition: Disposition::Open,
        ..OpenFile::named("file")
    };
    let id = client.create(&itself).file_id();
    // No name can be made behind it either.
    let moved = set(&mut client, id, FileInfoClass::RENAME, &new_name("directory\\moved"));
    assert_eq!(moved, NtStatus::IO_REPARSE_TAG_NOT_HANDLED);
    assert_eq!(client.close(id), NtStatus::SUCCESS);
    for (name, kind) in [("file", CreateOptions::empty()), ("directory", CreateOptions::DIRECTORY_FILE)] {
        let go = to_go(name, Access::DELETE, kind | CreateOptions::DELETE_ON_CLOSE);
        let id = client.create(&go).file_id();
        assert_eq!(client.close(id), NtStatus::SUCCESS);
        assert!(!world.root().join(name).exists());
    }
}

// MS-FSA 2.1.5.1.2
#[test]
fn a_reparse_point_with_another_tag_is_not_opened_as_if_it_were_none() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    for (number, buffer) in
        [to_elsewhere(0xa000_0003), reparse(0x8000_0013, b"data"), reparse(0x0000_1234, b"data")]
            .iter()
            .enumerate()
    {
        for kind in [CreateOptions::DIRECTORY_FILE, CreateOptions::NON_DIRECTORY_FILE] {
            let name = format!("{number} {}", kind.bits());
            make_reparse(&mut client, &name, kind, buffer);
            for path in [name.clone(), format!("{name}\\new")] {
                for disposition in [Disposition::Open, Disposition::OpenIf, Disposition::Create] {
                    let status = client.create(&OpenFile { disposition, ..OpenFile::named(&path) }).status();
                    assert_eq!(status, NtStatus::IO_REPARSE_TAG_NOT_HANDLED, "{path} {disposition:?}");
                }
            }
        }
    }
    // A non-empty directory does not become one.
    client.create(&OpenFile::directory("full")).file_id();
    client.make("full\\file", b"text");
    let options = CreateOptions::OPEN_REPARSE_POINT | CreateOptions::DIRECTORY_FILE;
    let id = client.create(&OpenFile { options, ..OpenFile::named("full") }).file_id();
    let junction = to_elsewhere(0xa000_0003);
    let made = smb_wire::ioctl::Request::fsctl(smb_wire::ioctl::CtlCode::SetReparsePoint, id, &junction, 0);
    assert_eq!(client.status(Smb::Ioctl, |out| made.write(out)), NtStatus::DIRECTORY_NOT_EMPTY);
}
