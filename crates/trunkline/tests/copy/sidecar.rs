//! Metadata of files besides their data: access lists, owners, extended attributes and named streams, in all
//! directions.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::*;
use crate::lost_connections::tree;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// The access list that `setfacl -m u:1234:r` makes of mode 640, and that `setfacl -m u:1234:rx` makes of a
/// directory's default of mode 750.
fn list(owner: u16, named: u16, group: u16) -> Vec<u8> {
    let nobody = u32::MAX;
    let entries = [
        (1, owner, nobody),
        (2, named, 1234),
        (4, group, nobody),
        (0x10, named | group, nobody),
        (0x20, 0, nobody),
    ];
    let entries = entries.into_iter().flat_map(|(tag, bits, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
    });
    2u32.to_le_bytes().into_iter().chain(entries).collect()
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let length = getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

/// Creates a file and a directory with all metadata that this host supports.
fn plant(server: &CopyTestServer) {
    server.program.write("here/dir/file", "data");
    let (directory, file) = (server.path("here/dir"), server.path("here/dir/file"));
    let set =
        |path: &Path, name: &str, value: &[u8]| setxattr(path, name, value, XattrFlags::empty()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o750)).unwrap();
    set(&file, ACCESS, &list(6, 4, 4));
    set(&directory, DEFAULT, &list(7, 5, 5));
    for path in [&file, &directory] {
        set(path, "user.colour", b"red");
        set(path, "user.with.dots", &[0, 255, 10]);
    }
}

/// Compares the metadata that came back with the original.
fn compare(server: &CopyTestServer, back: &str) {
    for name in ["dir", "dir/file"] {
        let [here, back] = ["here", back].map(|root| server.path(root).join(name));
        for attribute_name in [ACCESS, DEFAULT, "user.colour", "user.with.dots"] {
            let [here, back] = [&here, &back].map(|path| attribute(path, attribute_name));
            assert_eq!(here, back, "{name}: {attribute_name}");
        }
        let [here, back] = [&here, &back].map(|path| path.metadata().unwrap());
        assert_eq!(here.mode(), back.mode(), "{name}");
        assert_eq!((here.uid(), here.gid()), (back.uid(), back.gid()), "{name}");
    }
}

#[test]
fn lists_and_attributes_come_back_from_a_share_and_from_an_export() {
    let server = CopyTestServer::start();
    plant(&server);
    for (there, back) in [(server.smb("there"), "smb"), (server.nfs("export"), "nfs")] {
        let (status, report, said) = server.copy(&format!("here {there} -A -X"));
        assert_eq!((status, said.as_str()), (1, ""), "{there}: {report:#}");
        let (status, report, said) = server.copy(&format!("{there} {back} --acls --xattrs"));
        assert_eq!((status, said.as_str()), (1, ""), "{there}: {report:#}");
        compare(&server, back);
    }
    let (status, _, said) = server.copy("here local --copyall");
    assert_eq!((status, said.as_str()), (1, ""));
    compare(&server, "local");
}

/// The access list of a file without execute permission allows readers to execute it, since Windows asks for
/// that. Its permission bits do not.
#[test]
fn permission_bits_stay_beside_the_lists_of_an_export() {
    let server = CopyTestServer::start();
    for (name, mode) in [("dir", 0o3775), ("plain", 0o644), ("program", 0o755), ("none", 0o600)] {
        let path = server.path("files/from").join(name);
        match name {
            "dir" => std::fs::create_dir_all(&path).unwrap(),
            _ => drop(server.program.write(&format!("files/from/{name}"), "data")),
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let [from, to] = ["from", "to"].map(|name| server.nfs(name));
    let (status, report, said) = server.copy(&format!("{from} {to} -A"));
    assert_eq!((status, said.as_str(), &report["not_kept"]), (1, "", &serde_json::json!({})), "{report:#}");
    for name in ["dir", "plain", "program", "none"] {
        let [from, to] = ["from", "to"].map(|root| server.path("files").join(root).join(name));
        let [from, to] = [from, to].map(|path| path.metadata().unwrap().mode() & 0o7777);
        assert_eq!(format!("{from:o}"), format!("{to:o}"), "{name}");
    }
}

#[test]
fn without_being_asked_nothing_but_times_and_permission_bits_is_kept() {
    let server = CopyTestServer::start();
    plant(&server);
    assert_eq!(server.copy("here usual").0, 1);
    let file = server.path("usual/dir/file");
    assert_eq!((attribute(&file, ACCESS), attribute(&file, "user.colour")), (None, None));
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
    assert_eq!(server.copy("here bare --copy D").0, 1);
    let [here, bare] = ["here", "bare"].map(|root| server.path(root).join("dir/file").metadata().unwrap());
    assert_ne!(here.modified().unwrap(), bare.modified().unwrap());
    assert_ne!(bare.mode() & 0o777, 0o640);
    let (status, report, _) = server.copy("here bare --copy D");
    assert_eq!((status, &report["files"]["copied"]), (1, &1.into()), "nothing tells that they are the same");
}

#[test]
fn streams_and_descriptors_go_from_share_to_share() {
    let server = CopyTestServer::start();
    server.program.write("files/from/file", "data");
    server.program.write("files/from/empty", "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let large: Vec<u8> = (0..2_500_000u32).map(|at| (at % 241) as u8).collect();
    let url = server.smb("");
    runtime.block_on(async {
        let tree = tree(&url).await;
        for (path, data) in [
            ("from/file:Zone.Identifier", &b"[ZoneTransfer]"[..]),
            ("from/empty:large", &large),
            ("from:of the directory", b"here too"),
        ] {
            let how = client::smb::OpenOptions::file(smb_wire::create::Disposition::OverwriteIf);
            let stream = tree.open(path, &how).await.unwrap();
            for (number, piece) in data.chunks(1 << 20).enumerate() {
                stream.write(number as u64 * (1 << 20), piece).await.unwrap();
            }
            stream.close().await.unwrap();
        }
    });
    let [from, to, usual, plain] = ["from", "to", "usual", "plain"].map(|name| server.smb(name));
    let (status, report, said) = server.copy(&format!("{from} {to} --acls"));
    assert_eq!((status, said.as_str(), &report["not_kept"]), (1, "", &serde_json::json!({})), "{report:#}");
    for copy in [format!("{from} {usual}"), format!("{from} {plain} --copy DATX")] {
        let (status, _, said) = server.copy(&copy);
        assert_eq!((status, said.as_str()), (1, ""));
    }
    runtime.block_on(async {
        let tree = tree(&url).await;
        let read = async |path: &str| {
            let stream = tree.open(path, &client::smb::OpenOptions::read()).await?;
            let mut content = Vec::new();
            loop {
                let piece = stream.read(content.len() as u64, 1 << 20).await?;
                if piece.is_empty() {
                    return Ok::<_, client::Error>(content);
                }
                content.extend_from_slice(&piece);
            }
        };
        for to in ["to", "usual"] {
            assert_eq!(read(&format!("{to}/file:Zone.Identifier")).await.unwrap(), b"[ZoneTransfer]");
            assert!(read(&format!("{to}/empty:large")).await.unwrap() == large, "{to}");
            assert_eq!(read(&format!("{to}:of the directory")).await.unwrap(), b"here too");
        }
        assert!(read("plain/file:Zone.Identifier").await.is_err());
    });
}

#[test]
fn what_a_target_cannot_hold_is_said_once_and_counted() {
    let server = CopyTestServer::start();
    for number in 0..5 {
        server.program.write(&format!("here/{number}"), "data");
    }
    assert_eq!(server.copy(&format!("here {}", server.smb("from"))).0, 1);
    // The owners there are users of the server, whom this host does not know.
    let (status, report, said) = server.copy(&format!("{} back --owner", server.smb("from")));
    assert_eq!(status, 1, "{said}");
    assert_eq!(report["not_kept"], serde_json::json!({ "owners": 6 }), "{report:#}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("owners are not kept: the target has no users or groups"), "{said}");
    let long = "n".repeat(255);
    let file = server.path("here/0");
    setxattr(&file, "user.a:b", b"no name for a share", XattrFlags::empty()).unwrap();
    setxattr(&file, format!("user.{}", &long[..200]), b"x", XattrFlags::empty()).unwrap();
    let (status, report, said) = server.copy(&format!("here {} -X", server.smb("to")));
    assert_eq!(
        (status, &report["not_kept"]),
        (1, &serde_json::json!({ "extended attributes": 1 })),
        "{said}"
    );
}

#[test]
fn letters_without_a_meaning_are_refused() {
    let server = CopyTestServer::start();
    for (letters, why) in [("DATSOU", "U out"), ("AT", "write D"), ("DQ", "Q says nothing")] {
        let (status, _, said) = server.copy(&format!("here there --copy {letters}"));
        assert_eq!(status, 16, "{said}");
        assert!(said.contains(why), "{letters}: {said}");
        assert!(!server.path("there").exists());
    }
}

#[test]
fn what_can_be_run_on_an_export_can_be_run_here_also_with_its_list() {
    let server = CopyTestServer::start();
    server.program.write("files/from/script", "#!/bin/sh\n");
    for mode in [0o755, 0o640] {
        fs::set_permissions(server.path("files/from/script"), fs::Permissions::from_mode(mode)).unwrap();
        let back = format!("back{mode:o}");
        let (status, _, said) = server.copy(&format!("{} {back} --acls", server.nfs("from")));
        assert_eq!((status, said.as_str()), (1, ""));
        assert_eq!(server.path(&back).join("script").metadata().unwrap().mode() & 0o777, mode);
    }
}
