//! Home shares: each user has their own directory, found or made when he connects.

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use client::Bytes;
use client::nfs::{Client, Creation};
use client::smb::{ChannelOptions, OpenOptions, Tree};
use nfs_wire::NfsStat;
use smb_wire::NtStatus;
use smb_wire::create::{Disposition, ShareAccess};
use testkit::program::{Server, own_ids, own_uid};

use crate::LiveServer;

/// A user of the host's user who runs the test.
fn user(name: &str) -> String {
    format!("[[user]]\nname = \"{name}\"\npassword_file = \"password\"\n{}", own_ids())
}

impl LiveServer {
    /// A server with the user bob, and no home share.
    fn with_bob(more: &str) -> LiveServer {
        LiveServer::start_as(&format!("{}{more}", user("Bob")), |serve| serve)
    }

    async fn share_of(&self, user: &str, share: &str) -> Result<Tree, client::Error> {
        self.log_on_as(user, "s3cret").await.connect(share).await
    }

    fn made(&self, path: &str) -> PathBuf {
        self.program.path().join("made").join(path)
    }
}

fn refused<T>(answer: Result<T, client::Error>) -> NtStatus {
    answer.err().expect("it was refused").status().expect("by the server")
}

async fn put(tree: &Tree, path: &str, text: &str) {
    tree.put(path, &OpenOptions::file(Disposition::Create), text.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn one_share_gives_each_user_a_directory_of_his_own() {
    let mut server = LiveServer::with_bob("");
    server
        .refuses("share create home path=made/{usr} users=*=full", "the only placeholder is `{user}`")
        .await;
    server.says("share create home path=made/{user} users=*=full").await;
    assert_eq!(refused(server.share_of("anna", "home").await), NtStatus::BAD_NETWORK_NAME);
    let log = std::fs::read_to_string(server.program.path().join("log")).unwrap();
    assert!(log.contains("made/anna; make it, or set `create_home = true`"), "{log}");
    server.says("share set home create_home=on").await;
    let [anna, bob] =
        [server.share_of("anna", "home").await.unwrap(), server.share_of("BOB", "home").await.unwrap()];
    for (tree, user) in [(&anna, "anna"), (&bob, "bob")] {
        put(tree, "file", user).await;
        assert_eq!(std::fs::read_to_string(server.made(&format!("{user}/file"))).unwrap(), user);
        assert_eq!(std::fs::metadata(server.made(user)).unwrap().mode() & 0o7777, 0o700);
    }
    // Without root both act as one user of the host, and only the home keeps them apart.
    symlink("../bob/file", server.made("anna/beside")).unwrap();
    symlink("..", server.made("anna/up")).unwrap();
    for path in ["beside", "up\\bob\\file", "up"] {
        let read = anna.open(path, &OpenOptions::read()).await;
        assert_eq!(refused(read), NtStatus::OBJECT_PATH_NOT_FOUND, "{path}");
    }
    for path in ["bob\\file", "anna\\file", "made\\bob\\file"] {
        assert_eq!(
            refused(anna.open(path, &OpenOptions::read()).await),
            NtStatus::OBJECT_PATH_NOT_FOUND,
            "{path}"
        );
    }
    assert_eq!(
        refused(anna.open("..\\bob\\file", &OpenOptions::read()).await),
        NtStatus::OBJECT_PATH_SYNTAX_BAD
    );
    // The status names the file by its path in the share.
    let open = anna.open("file", &OpenOptions::read()).await.unwrap();
    let status = server.json("status").await.to_string();
    assert!(status.contains("anna/file"), "{status}");
    open.close().await.unwrap();
    server.refuses("share create inner path=made/anna users=*=read", "contain the same files").await;
    // It is still there after a restart.
    server.restart();
    let bob = server.share_of("bob", "home").await.unwrap();
    assert_eq!(bob.stat("file").await.unwrap().end_of_file, 3);
}

#[tokio::test]
async fn a_home_is_one_file_tree_for_both_protocols() {
    let server = LiveServer::with_bob(
        "[share.home]\npath = \"made/{user}\"\ncreate_home = true\nusers = { \"*\" = \"full\" }\n\
         protocols = [\"smb\", \"nfs\"]\nnfs_secure_port = false\nroot_squash = \"none\"\n",
    );
    let anna = server.share_of("anna", "home").await.unwrap();
    put(&anna, "file", "anna").await;
    let nfs = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
    let home = nfs.directory("/home/anna").await.unwrap();
    let how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
    let alone = OpenOptions { share: ShareAccess::empty(), ..OpenOptions::file(Disposition::Open) };
    let open = anna.open("file", &alone).await.unwrap();
    assert_eq!(home.open("file", &how).await.err().unwrap().nfs_status(), Some(NfsStat::ShareDenied));
    open.close().await.unwrap();
    let file = home.open("other", &how).await.unwrap();
    file.write_all(0, &Bytes::from_static(b"by nfs")).await.unwrap();
    file.close().await.unwrap();
    assert_eq!(anna.stat("other").await.unwrap().end_of_file, 6);
    assert_eq!(nfs.directory("/home/bob").await.err().unwrap().nfs_status(), Some(NfsStat::NoEnt));
}

#[tokio::test]
async fn a_file_in_a_home_outlives_the_killed_server_for_its_user_alone() {
    let mut server = LiveServer::with_bob(
        "[share.home]\npath = \"made/{user}\"\ncreate_home = true\nusers = { \"*\" = \"full\" }\n\
         continuously_available = true\n",
    );
    let anna = server.share_of("anna", "home").await.unwrap();
    let alone = OpenOptions { share: ShareAccess::empty(), ..OpenOptions::file(Disposition::Create) };
    let (file, lasting) = anna.open_persistent("kept", &alone).await.unwrap();
    file.write(0, b"before").await.unwrap();
    server.server.kill();
    server.server = Server::start(&server.program);
    server.find_ports();
    // Nobody has connected the home since the start, and the open counts.
    let again = server.share_of("anna", "home").await.unwrap();
    let bob = server.share_of("bob", "home").await.unwrap();
    assert_eq!(refused(bob.reconnect(&lasting).await), NtStatus::ACCESS_DENIED);
    let file = again.reconnect(&lasting).await.unwrap();
    file.write(6, b" after").await.unwrap();
    assert_eq!(std::fs::read_to_string(server.made("anna/kept")).unwrap(), "before after");
    file.close().await.unwrap();
}

#[tokio::test]
async fn a_share_is_found_under_the_name_of_its_user() {
    let server = LiveServer::with_bob("");
    let line = "share create {user} path=made/{user} create_home=on users=*=full";
    server.refuses(&format!("{line} protocols=smb,nfs"), "cannot be offered over NFS").await;
    server.says(line).await;
    let anna = server.share_of("anna", "ANNA").await.unwrap();
    put(&anna, "file", "anna").await;
    assert!(server.made("anna/file").is_file());
    assert_eq!(refused(server.share_of("anna", "bob").await), NtStatus::BAD_NETWORK_NAME);
    assert!(!server.made("bob").exists());
    server.says("share delete {user} --force").await;
    assert_eq!(refused(server.share_of("anna", "anna").await), NtStatus::BAD_NETWORK_NAME);
}

#[tokio::test]
async fn a_session_over_two_connections_stays_in_its_home() {
    let server = LiveServer::with_bob("");
    server.says("share create home path=made/{user} create_home=on users=*=full").await;
    let session = server.log_on().await;
    let channels =
        ChannelOptions { channels: 2, addresses: vec![server.smb], use_all: true, ..Default::default() };
    assert_eq!(session.open_channels(&channels).await.unwrap().channels, 2);
    let home = session.connect("home").await.unwrap();
    for n in 0..20 {
        put(&home, &format!("file{n}"), "anna").await;
    }
    assert_eq!(std::fs::read_dir(server.made("anna")).unwrap().count(), 20);
    assert_eq!(std::fs::read_dir(server.made("")).unwrap().count(), 1);
}

#[tokio::test]
async fn the_open_session_of_a_removed_user_is_ended() {
    let server = LiveServer::with_bob("");
    server.says(&format!("user add carl --password-file password --uid {}", own_uid())).await;
    server.says("share create home path=made/{user} create_home=on users=*=full").await;
    let [anna, carl] =
        [server.share_of("anna", "home").await.unwrap(), server.share_of("carl", "home").await.unwrap()];
    put(&carl, "file", "carl").await;
    let open = carl.open("file", &OpenOptions::read()).await.unwrap();
    server.says("user remove carl").await;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while open.read(0, 4).await.is_ok() {
        assert!(std::time::Instant::now() < end, "a removed user still reads");
    }
    assert_eq!(std::fs::read_to_string(server.made("carl/file")).unwrap(), "carl", "the files stay");
    put(&anna, "file", "anna").await;
}

#[tokio::test]
async fn homes_of_many_users_leave_nothing_behind() {
    const USERS: usize = 100;
    let users: String = (0..USERS).map(|n| user(&format!("u{n}"))).collect();
    let server = LiveServer::with_bob(&users);
    server.says("share create home path=made/{user} create_home=on users=*=full").await;
    let volumes = || std::fs::read_dir(server.program.path().join("state/volumes")).unwrap().count();
    let (_first, before) = (server.share_of("anna", "home").await.unwrap(), volumes());
    let mut trees = Vec::new();
    for n in 0..USERS {
        let tree = server.share_of(&format!("u{n}"), "home").await.unwrap();
        put(&tree, "file", "text").await;
        trees.push(tree);
    }
    let status = server.json("status").await;
    assert_eq!(status["tcons"].as_object().unwrap().len(), USERS + 1);
    assert_eq!(server.json("share list").await.as_array().unwrap().len(), 2);
    assert_eq!(volumes(), before, "one directory for all homes");
    assert_eq!(std::fs::read_dir(server.made("")).unwrap().count(), USERS + 1);
}
