//! `trunkline backup` while clients work, and `restore` on another machine or over the old state.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use client::Bytes;
use client::nfs::{Client, Creation};
use client::smb::OpenOptions;
use smb_wire::create::Disposition;

use testkit::program::own_uid;

use crate::LiveServer;

/// Copies the files below a directory as a file backup does: they get other inode numbers.
fn copy_files(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

fn entries(dir: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| fits(&path.file_name().unwrap().to_string_lossy())).collect()
}

#[tokio::test]
async fn a_server_that_burnt_down_is_restored_from_its_files_and_a_backup() {
    let mut server = LiveServer::start();
    let dir = server.program.path().to_owned();
    server.says(&format!("user add bob --password-file password --uid {}", own_uid())).await;
    server.says("share create made path=made users=bob=full").await;
    {
        let session = server.log_on().await;
        let tree = session.connect("files").await.unwrap();
        for name in ["file:stream", "file:second", "gone:stream"] {
            let stream = tree.open(name, &OpenOptions::file(Disposition::OpenIf)).await.unwrap();
            stream.write(0, name.as_bytes()).await.unwrap();
            stream.close().await.unwrap();
        }
        let nfs = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
        let files = nfs.directory("/files").await.unwrap();
        let how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
        let file = files.open("open", &how).await.unwrap();
        file.write_all(0, &Bytes::from_static(b"data")).await.unwrap();
        let made = server.says("backup b.tar").await;
        assert!(made.contains("2 files with sidecar data"), "{made}");
        // The client disappears without closing its file.
    }
    assert!(server.says("backup --verify b.tar").await.contains("complete"));
    // No restore over a running server, with or without --replace.
    for line in ["restore b.tar", "restore --replace b.tar", "restore --sidecar-only b.tar"] {
        server.refuses(line, "a server is running on it").await;
    }
    let log = std::fs::read_to_string(dir.join("log")).unwrap();
    assert!(log.contains("held_us="), "{log}");
    // The disk is lost. The files come back from a file backup, one of them not at once.
    let (files, elsewhere) = (dir.join("files"), dir.join("elsewhere"));
    server.server.signal("-TERM");
    server.server.wait();
    copy_files(&files, &elsewhere);
    std::fs::remove_dir_all(&files).unwrap();
    std::fs::remove_dir_all(dir.join("state")).unwrap();
    copy_files(&elsewhere, &files);
    std::fs::remove_file(files.join("gone")).unwrap();
    let said = server.says("restore b.tar").await;
    assert!(
        said.contains("sidecar data of 1 of 2 files") && said.contains("/files/gone: there is no"),
        "{said}"
    );
    copy_files(&elsewhere.join("gone"), &files.join("gone"));
    let said = server.says("restore --sidecar-only b.tar").await;
    assert!(said.contains("sidecar data of 2 of 2 files"), "{said}");
    server.refuses("restore b.tar", "--replace").await;
    server.start_again();
    let session = server.log_on_as("bob", "s3cret").await;
    session.connect("made").await.unwrap();
    let tree = session.connect("files").await.unwrap();
    for name in ["file:stream", "file:second", "gone:stream"] {
        let stream = tree.open(name, &OpenOptions::file(Disposition::Open)).await.unwrap();
        assert_eq!(&stream.read(0, 64).await.unwrap()[..], name.as_bytes());
        stream.close().await.unwrap();
    }
    // The opens of the files that burnt lead nowhere, and hinder nobody.
    let open = tree.open("open", &OpenOptions::file(Disposition::Open)).await.unwrap();
    open.close().await.unwrap();
}

#[tokio::test]
async fn a_restore_over_the_old_state_keeps_it_aside_and_leaves_streams_alone() {
    let mut server = LiveServer::start();
    let dir = server.program.path().to_owned();
    server.says("user add bob --password-file password").await;
    server.says("user add emma --password-file password").await;
    server.says("token add ci --role read").await;
    let (smb, nfs_client) = {
        let session = server.log_on().await;
        let tree = session.connect("files").await.unwrap();
        let stream = tree.open("file:stream", &OpenOptions::file(Disposition::OpenIf)).await.unwrap();
        stream.write(0, b"old").await.unwrap();
        let nfs = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
        let files = nfs.directory("/files").await.unwrap();
        let how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
        let file = files.open("open", &how).await.unwrap();
        file.write_all(0, &Bytes::from_static(b"data")).await.unwrap();
        server.says("backup b.tar").await;
        stream.write(0, b"new").await.unwrap();
        stream.close().await.unwrap();
        file.close().await.unwrap();
        let later = files.open("later", &how).await.unwrap();
        later.write_all(0, &Bytes::from_static(b"data")).await.unwrap();
        (server.json("user list").await, nfs)
    };
    server.says("user add carl --password-file password").await;
    server.says("user remove bob").await;
    server.program.write("password2", "another s3cret");
    server.says("user passwd emma --password-file password2").await;
    server.says("token revoke ci").await;
    let carl = server.json("user list").await;
    drop(nfs_client);
    server.server.signal("-TERM");
    server.server.wait();
    let said = server.says("restore --replace b.tar").await;
    assert!(said.contains("the state that was there is now in"), "{said}");
    // Rights that were taken back since are named.
    assert!(said.contains("users who were removed since the backup may log on again: bob;"), "{said}");
    assert!(said.contains("tokens that were revoked since the backup are valid again: ci;"), "{said}");
    assert!(said.contains("users have the password of the backup again: emma;"), "{said}");
    let replaced = entries(&dir.join("state"), |name| name.starts_with("replaced-"));
    assert_eq!(replaced.len(), 1);
    assert!(replaced[0].join("version").exists());
    server.start_again();
    assert_eq!(server.json("user list").await, smb);
    let session = server.log_on().await;
    let tree = session.connect("files").await.unwrap();
    let stream = tree.open("file:stream", &OpenOptions::file(Disposition::Open)).await.unwrap();
    assert_eq!(&stream.read(0, 64).await.unwrap()[..], b"new");
    // A RID that was given since is not given to another user.
    server.says("user add dora --password-file password").await;
    let dora = server.json("user list").await;
    let sid = |users: &serde_json::Value, name: &str| {
        users.as_array().unwrap().iter().find(|user| user["name"] == name).unwrap()["sid"].clone()
    };
    assert_ne!(sid(&dora, "dora"), sid(&carl, "carl"));
}

#[tokio::test]
async fn a_backup_without_a_server_is_the_same_and_damaged_ones_are_refused() {
    let mut server = LiveServer::start();
    let dir = server.program.path().to_owned();
    server.says("share create made path=made users=anna=full").await;
    server.says("backup running.tar").await;
    server.server.signal("-TERM");
    server.server.wait();
    server.says("backup b.tar").await;
    let mode = std::os::unix::fs::PermissionsExt::mode(&dir.join("b.tar").metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    server.refuses("backup missing/b.tar", "missing/b.tar: No such file or directory").await;
    // A backup that nobody would get is refused.
    let lost =
        server.program.trunkline("backup - --config trunkline.toml").stdout(Stdio::null()).output().unwrap();
    let said = String::from_utf8(lost.stderr).unwrap();
    assert!(lost.status.code() == Some(2) && said.contains("the backup would be lost"), "{said}");
    let whole = std::fs::read(dir.join("b.tar")).unwrap();
    let before = server.program.files();
    let unchanged = |server: &LiveServer, name: &str| {
        let mut after = server.program.files();
        after.remove(&dir.join(name));
        after == before
    };
    let mut changed = whole.clone();
    changed[3000] ^= 1;
    for (name, bytes, wanted) in [
        ("cut.tar", &whole[..whole.len() / 2], "it is cut"),
        ("empty.tar", &[][..], "it is not a backup of trunkline"),
        ("damaged.tar", &changed[..], "it is damaged"),
    ] {
        std::fs::write(dir.join(name), bytes).unwrap();
        for line in ["restore --replace", "restore --check", "backup --verify"] {
            server.refuses(&format!("{line} {name}"), wanted).await;
            assert!(unchanged(&server, name), "{line} {name}");
        }
        std::fs::remove_file(dir.join(name)).unwrap();
    }
    // A version that no program knows yet, in an archive and in the directory.
    let text = String::from_utf8_lossy(&whole[..2048]).into_owned();
    assert!(text.contains("\"state_version\": 1"));
    std::fs::write(dir.join("state/version"), "trunkline state 7\nwritten by trunkline 9.1.0\n").unwrap();
    server.refuses("user list", "its version is 7, written by trunkline 9.1.0; this is trunkline ").await;
    server.refuses("state downgrade", "its version is 7").await;
    server.refuses("backup c.tar", "its version is 7").await;
    server.says("restore --replace b.tar").await;
    server.start_again();
    server.log_on().await.connect("made").await.unwrap();
}
