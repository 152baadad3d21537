//! The recycle folder over both protocols, turned on and off while clients work.

use std::os::unix::fs::PermissionsExt;

use client::Bytes;
use client::nfs::{Client, Creation, ExportDirectory};
use client::smb::{OpenOptions, Settings, Tree};
use nfs_wire::NfsStat;
use smb_wire::NtStatus;
use smb_wire::create::Disposition;

use crate::LiveServer;

const BERT: u32 = 60_002;
const MORE: &str = "recycle = true\n[[user]]\nname = \"Bert\"\npassword_file = \"password\"\nuid = 60002\n";

fn start() -> LiveServer {
    let server = LiveServer::start_as(MORE, |serve| serve);
    let open_to_all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(server.program.path().join("files"), open_to_all).unwrap();
    server
}

async fn put(tree: &Tree, path: &str) {
    let file = tree.open(path, &OpenOptions::file(Disposition::Create)).await.unwrap();
    file.write(0, b"text").await.unwrap();
    file.close().await.unwrap();
}

async fn remove(tree: &Tree, path: &str) {
    tree.open(path, &OpenOptions::delete()).await.unwrap().close().await.unwrap();
}

async fn nfs_as(server: &LiveServer, uid: u32) -> Client {
    let options = client::nfs::Options { uid, gid: uid, ..client::nfs::Options::default() };
    Client::connect(server.nfs, options).await.unwrap()
}

async fn put_over_nfs(directory: &ExportDirectory, name: &str) {
    let how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
    directory.put(name, &how, &Bytes::from_static(b"text")).await.unwrap();
}

#[tokio::test]
async fn a_user_gets_back_over_either_protocol_what_was_removed_over_the_other() {
    let server = start();
    let bert = server.log_on_as("bert", "s3cret").await.connect("files").await.unwrap();
    let how = OpenOptions::directory(Disposition::Create);
    bert.open("reports", &how).await.unwrap().close().await.unwrap();
    put(&bert, "reports\\a.txt").await;
    remove(&bert, "reports\\a.txt").await;
    let files = server.program.path().join("files");
    assert_eq!(std::fs::read(files.join(".recycle/bert/reports/a.txt")).unwrap(), b"text");
    let mode = std::fs::metadata(files.join(".recycle/bert")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    let client = nfs_as(&server, BERT).await;
    let root = client.directory("/files").await.unwrap();
    put_over_nfs(&root, "b.txt").await;
    root.remove("b.txt").await.unwrap();
    // The Linux client gives a removed file that it has open such a name.
    put_over_nfs(&root, ".nfs00000000000000ab0000002c").await;
    root.remove(".nfs00000000000000ab0000002c").await.unwrap();
    let own = client.directory("/files/.recycle/bert").await.unwrap();
    let mut names: Vec<_> = own.list().await.unwrap().iter().map(|entry| entry.name.clone()).collect();
    names.sort();
    assert_eq!(names, [b"b.txt".to_vec(), b"reports".to_vec()]);
    bert.rename(".recycle\\bert\\b.txt", "b.txt", Settings::default()).await.unwrap();
    let (data, _) = root.fetch("b.txt", 100).await.unwrap();
    assert_eq!(&data[..], b"text");
    // A removal in the folder is final.
    let reports = client.directory("/files/.recycle/bert/reports").await.unwrap();
    reports.remove("a.txt").await.unwrap();
    assert!(!files.join(".recycle/bert/reports/a.txt").exists());

    server.says("share set files recycle=false").await;
    remove(&bert, "b.txt").await;
    assert!(!files.join("b.txt").exists());
    assert!(!files.join(".recycle/bert/b.txt").exists(), "a removal is final when `recycle` is off");
}

#[tokio::test]
async fn others_neither_see_nor_change_the_folder_of_a_user() {
    let server = start();
    let bert = server.log_on_as("bert", "s3cret").await.connect("files").await.unwrap();
    put(&bert, "secret").await;
    remove(&bert, "secret").await;
    let anna = server.log_on().await.connect("files").await.unwrap();
    put(&anna, "hers").await;
    remove(&anna, "hers").await;
    let folder = anna.open(".recycle", &OpenOptions::directory(Disposition::Open)).await.unwrap();
    let listed = folder.list("*").await.unwrap();
    let names: Vec<_> = listed.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(names.iter().filter(|name| !name.starts_with('.')).collect::<Vec<_>>(), ["anna"]);
    folder.close().await.unwrap();
    for path in [".recycle\\bert\\secret", ".recycle\\bert"] {
        let refused = anna.open(path, &OpenOptions::attributes()).await;
        let status = refused.err().and_then(|error| error.status());
        assert!(path == ".recycle\\bert" || status == Some(NtStatus::ACCESS_DENIED), "{path}: {status:?}");
    }
    for tree in [&anna, &bert] {
        let moved = tree.rename(".recycle", "taken", Settings::default()).await;
        assert_eq!(moved.err().and_then(|error| error.status()), Some(NtStatus::ACCESS_DENIED));
    }
    let stranger = nfs_as(&server, BERT + 1).await;
    let refused = stranger.directory("/files/.recycle/bert").await;
    let listed = match refused {
        Ok(directory) => directory.list().await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert_eq!(listed.err().and_then(|error| error.nfs_status()), Some(NfsStat::Access));
}
