//! No name leads out of the share: not by `..`, not by a link of the host, not through a stream, a rename or
//! a link that a client makes.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use smb_wire::create::{CreateOptions, Disposition};
use smb_wire::fscc::FileInfoClass;
use smb_wire::{FileId, NtStatus, SmbCommand as Smb, set_info, utf16};
use testkit::smb::client::OpenFile;
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};

const SECRET: &[u8] = b"what nobody may see";

/// A share with an unreachable file beside it, and a client.
fn world_with_secret() -> (SmbTestServer, Peer) {
    let world = SmbTestServer::on_disk();
    std::fs::write(world.outside().join("secret"), SECRET).unwrap();
    let client = world.client();
    (world, client)
}

fn secret_is_untouched(world: &SmbTestServer) -> bool {
    let inside: Vec<_> =
        std::fs::read_dir(world.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    inside == ["secret"] && std::fs::read(world.outside().join("secret")).unwrap() == SECRET
}

#[test]
fn climbing_is_refused() {
    let (world, mut client) = world_with_secret();
    client.create(&OpenFile::directory("directory")).file_id();
    for (name, status) in [
        ("..\\outside\\secret", NtStatus::OBJECT_PATH_SYNTAX_BAD),
        ("directory\\..\\..\\outside\\secret", NtStatus::OBJECT_PATH_SYNTAX_BAD),
        ("directory\\..\\file", NtStatus::OBJECT_PATH_SYNTAX_BAD),
        ("..", NtStatus::OBJECT_PATH_SYNTAX_BAD),
        (".", NtStatus::OBJECT_NAME_INVALID),
        ("directory\\.\\file", NtStatus::OBJECT_NAME_INVALID),
        ("\\outside\\secret", NtStatus::INVALID_PARAMETER),
        ("\\\\server\\files\\file", NtStatus::INVALID_PARAMETER),
        ("../outside/secret", NtStatus::OBJECT_PATH_SYNTAX_BAD),
        ("/etc/passwd", NtStatus::INVALID_PARAMETER),
        ("a/b", NtStatus::OBJECT_PATH_NOT_FOUND),
        ("nul\0byte", NtStatus::OBJECT_NAME_INVALID),
        ("file:", NtStatus::OBJECT_NAME_INVALID),
        ("file:..\\x", NtStatus::OBJECT_NAME_INVALID),
        ("file:../x", NtStatus::OBJECT_NAME_INVALID),
        ("file:stream:$WRONG", NtStatus::OBJECT_NAME_INVALID),
        ("file:a:b:$DATA", NtStatus::OBJECT_NAME_INVALID),
        ("a*", NtStatus::OBJECT_NAME_INVALID),
        ("what?", NtStatus::OBJECT_NAME_INVALID),
        ("less<", NtStatus::OBJECT_NAME_INVALID),
        ("\u{1}", NtStatus::OBJECT_NAME_INVALID),
    ] {
        assert_eq!(client.create(&OpenFile::named(name)).status(), status, "{name:?}");
    }
    let long = "x".repeat(300);
    assert_eq!(client.create(&OpenFile::named(&long)).status(), NtStatus::OBJECT_NAME_INVALID);
    let deep = vec!["deeper"; 4000].join("\\");
    assert_eq!(client.create(&OpenFile::named(&deep)).status(), NtStatus::OBJECT_PATH_NOT_FOUND);
    assert!(secret_is_untouched(&world) && client.is_served());
    assert_eq!(world.server.opens.len(), 1);
}

#[test]
fn a_link_that_leaves_the_share_is_not_followed() {
    let (world, mut client) = world_with_secret();
    let (root, outside) = (world.root(), world.outside());
    symlink("../outside", root.join("climbs")).unwrap();
    symlink("../outside/secret", root.join("climbs to a file")).unwrap();
    symlink(&outside, root.join("absolute")).unwrap();
    symlink(outside.join("secret"), root.join("absolute file")).unwrap();
    symlink("/etc", root.join("etc")).unwrap();
    symlink("climbs", root.join("by way of another")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    std::fs::create_dir(root.join("inside")).unwrap();
    symlink("../../outside", root.join("inside").join("climbs")).unwrap();
    for name in [
        "climbs",
        "climbs\\secret",
        "climbs\\planted",
        "climbs to a file",
        "absolute",
        "absolute\\secret",
        "absolute\\planted",
        "absolute file",
        "etc\\passwd",
        "by way of another\\secret",
        "loop",
        "loop\\secret",
        "magic\\etc\\passwd",
        "inside\\climbs\\secret",
        "climbs\\secret:stream",
    ] {
        for disposition in
            [Disposition::Open, Disposition::OpenIf, Disposition::OverwriteIf, Disposition::Create]
        {
            let answer = client.create(&OpenFile { disposition, ..OpenFile::named(name) });
            let status = answer.status();
            let refused = [
                NtStatus::OBJECT_PATH_NOT_FOUND,
                NtStatus::OBJECT_NAME_NOT_FOUND,
                NtStatus::OBJECT_NAME_COLLISION,
                NtStatus::ACCESS_DENIED,
            ];
            assert!(refused.contains(&status), "{name} {disposition:?}: {status:?}");
        }
    }
    assert_eq!(world.server.opens.len(), 0);
    assert!(secret_is_untouched(&world) && client.is_served());
}

#[test]
fn a_link_inside_the_share_is_followed() {
    let (world, mut client) = world_with_secret();
    let root = world.root();
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    std::fs::write(root.join("a/b/file"), b"found").unwrap();
    symlink("a/b", root.join("short")).unwrap();
    symlink("../b/../b/file", root.join("a/b/winding")).unwrap();
    for name in ["short\\file", "a\\b\\winding", "short\\winding"] {
        let id = client.open(name);
        assert_eq!(client.read(id, 0, 10).data(), b"found", "{name}");
    }
}

/// A client opens `turn\secret` again and again, while `turn` becomes a link out of the share.
#[test]
fn a_directory_that_becomes_a_link_does_not_lead_out() {
    let (world, mut client) = world_with_secret();
    let root = world.root();
    for round in 0..20 {
        on_host(&root, "mkdir turn; echo harmless > turn/secret");
        let id = client.open("turn\\secret");
        assert_eq!(client.read(id, 0, 100).data(), b"harmless\n", "in round {round}");
        client.close(id);
        on_host(&root, "mv turn away; ln -s ../outside turn");
        let answer =
            client.create(&OpenFile { disposition: Disposition::Open, ..OpenFile::named("turn\\secret") });
        assert_eq!(answer.status(), NtStatus::OBJECT_PATH_NOT_FOUND, "in round {round}");
        on_host(&root, "rm -r turn away");
    }
    assert!(secret_is_untouched(&world));
}

/// A change by another program on the host, so that the server does not take it for its own.
fn on_host(directory: &Path, script: &str) {
    let done = Command::new("sh").args(["-ec", script]).current_dir(directory).status();
    assert!(done.expect("a shell").success(), "{script}");
}

/// Sets an information class with these bytes.
fn set(client: &mut Peer, file_id: FileId, class: FileInfoClass, buffer: &[u8]) -> NtStatus {
    client.status(Smb::SetInfo, |out| {
        set_info::Request::of_file(class, file_id, buffer).write(out);
    })
}

/// FILE_RENAME_INFORMATION_TYPE_2 and FILE_LINK_INFORMATION_TYPE_2 (MS-FSCC 2.4.28.2, 2.4.42.2).
fn new_name(name: &str, root_directory: u64) -> Vec<u8> {
    let name = utf16::encode(name);
    let mut buffer = vec![1, 0, 0, 0, 0, 0, 0, 0];
    buffer.extend_from_slice(&root_directory.to_le_bytes());
    buffer.extend_from_slice(&(name.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&name);
    buffer
}

#[test]
fn neither_a_rename_nor_a_hard_link_leads_out() {
    let (world, mut client) = world_with_secret();
    symlink("../outside", world.root().join("climbs")).unwrap();
    let id = client.open("file");
    for class in [FileInfoClass::RENAME, FileInfoClass::LINK] {
        for (name, root_directory) in [
            ("..\\outside\\secret", 0),
            ("..\\outside\\planted", 0),
            ("climbs\\secret", 0),
            ("climbs\\planted", 0),
            ("../outside/planted", 0),
            ("a/b", 0),
            ("..", 0),
            (".", 0),
            ("", 0),
            ("planted", 7),
        ] {
            let status = set(&mut client, id, class, &new_name(name, root_directory));
            assert!(status.0 >= 0xc000_0000, "{class:?} {name:?}: {status:?}");
        }
        // A name longer than its buffer.
        let mut cut = new_name("planted", 0);
        cut.truncate(24);
        assert!(set(&mut client, id, class, &cut).0 >= 0xc000_0000);
    }
    assert!(secret_is_untouched(&world));
    assert!(world.root().join("file").exists() && !world.root().join("planted").exists());
    assert_eq!(set(&mut client, id, FileInfoClass::RENAME, &new_name("moved", 0)), NtStatus::SUCCESS);
    assert!(world.root().join("moved").exists());
}

/// A client may make a link with any target (MS-FSCC 2.1.2.4). The server does not follow it.
#[test]
fn a_link_that_a_client_makes_does_not_lead_out() {
    let (world, mut client) = world_with_secret();
    for (number, target) in
        ["..\\outside", "\\??\\C:\\Windows", "/etc", "..\\..\\..\\..\\..\\etc"].iter().enumerate()
    {
        let name = format!("link {number}");
        let options = CreateOptions::OPEN_REPARSE_POINT | CreateOptions::DIRECTORY_FILE;
        let id = client.create(&OpenFile { options, ..OpenFile::named(&name) }).file_id();
        let text = utf16::encode(target);
        let mut buffer = 0xa000_000cu32.to_le_bytes().to_vec();
        buffer.extend_from_slice(&(12 + text.len() as u16).to_le_bytes());
        buffer.extend_from_slice(&[0; 2]);
        buffer.extend_from_slice(&[0, 0]);
        buffer.extend_from_slice(&(text.len() as u16).to_le_bytes());
        buffer.extend_from_slice(&[0, 0]);
        buffer.extend_from_slice(&(text.len() as u16).to_le_bytes());
        buffer.extend_from_slice(&1u32.to_le_bytes());
        buffer.extend_from_slice(&text);
        let set = smb_wire::ioctl::Request::fsctl(smb_wire::ioctl::CtlCode::SetReparsePoint, id, &buffer, 0);
        client.call(Smb::Ioctl, |out| set.write(out));
        assert_eq!(client.close(id), NtStatus::SUCCESS);
        for below in ["secret", "passwd", "planted"] {
            let path = format!("{name}\\{below}");
            let answer =
                client.create(&OpenFile { disposition: Disposition::OpenIf, ..OpenFile::named(&path) });
            // Stored as plain data and not as a link, it is an ordinary directory.
            if answer.status() == NtStatus::SUCCESS {
                let below = answer.file_id();
                assert_eq!(client.read(below, 0, 10).status(), NtStatus::END_OF_FILE, "{path} to {target}");
                assert!(world.root().join(&name).is_dir());
            }
        }
    }
    assert!(secret_is_untouched(&world) && client.is_served());
}

/// A read-only share refuses every change, even if the host would allow it.
#[test]
fn a_share_that_is_only_read_stays_as_it_is() {
    let (world, mut writer) = world_with_secret();
    writer.make("file", b"kept");
    world.configure(|share| share.read_only = true);
    let mut client = world.dial(&Dial::elsewhere());
    client.connect_tree(SHARE);
    for disposition in
        [Disposition::OpenIf, Disposition::Create, Disposition::OverwriteIf, Disposition::Supersede]
    {
        for name in ["file", "new"] {
            let status = client.create(&OpenFile { disposition, ..OpenFile::named(name) }).status();
            let refused =
                [NtStatus::ACCESS_DENIED, NtStatus::MEDIA_WRITE_PROTECTED, NtStatus::OBJECT_NAME_COLLISION];
            assert!(refused.contains(&status), "{name} {disposition:?}: {status:?}");
        }
    }
    assert!(!world.root().join("new").exists());
    assert_eq!(std::fs::read(world.root().join("file")).unwrap(), b"kept");
}
