//! A share that moves to another directory while clients use it.

use std::time::Instant;

use client::Bytes;
use client::nfs::{Client, Creation};
use client::smb::OpenOptions;
use nfs_wire::NfsStat;
use serde_json::Value;
use smb_wire::create::Disposition;

use crate::LiveServer;

impl LiveServer {
    fn holds(&self, path: &str, wanted: &str) {
        assert_eq!(std::fs::read_to_string(self.program.path().join(path)).unwrap(), wanted, "{path}");
    }

    /// Whether the server has open files in this directory.
    fn has_open(&self, name: &str) -> bool {
        let dir = std::fs::canonicalize(self.program.path().join(name)).unwrap();
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.server.pid())).unwrap();
        let mut targets = all.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        targets.any(|target| target.starts_with(&dir))
    }

    /// Waits until the server has released this directory.
    fn is_free(&self, name: &str) {
        let begun = Instant::now();
        while self.has_open(name) {
            assert!(begun.elapsed() < testkit::program::PATIENCE, "`{name}` is held still");
            std::thread::yield_now();
        }
    }
}

#[tokio::test]
async fn a_share_goes_to_another_directory_and_what_is_open_stays_until_it_is_closed() {
    let mut server = LiveServer::start();
    let how = OpenOptions::file(Disposition::OpenIf);
    let session = server.log_on().await;
    let old = session.connect("files").await.unwrap();
    let open = old.open("a", &how).await.unwrap();
    open.write(0, b"old").await.unwrap();
    let nfs = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
    let nfs_how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
    let directory = nfs.directory("/files").await.unwrap();
    let file = directory.open("b", &nfs_how).await.unwrap();
    file.write_all(0, &Bytes::from_static(b"old")).await.unwrap();

    let said = server.says("share set files path=made").await;
    let note =
        "clients that were connected before (1 connection over SMB, 1 client over NFS, 2 open files) keep";
    assert!(said.contains(note), "{said}");
    let shown = server.json("share show files").await["settings"]["path"].clone();
    assert!(shown.as_str().unwrap().ends_with("/made"), "{shown}");
    // Connected clients continue in the old directory, and new ones are in the new directory.
    open.write(0, b"OLD").await.unwrap();
    file.write_all(0, &Bytes::from_static(b"OLD")).await.unwrap();
    old.open("c", &how).await.unwrap().close().await.unwrap();
    let stale = directory.open("d", &nfs_how).await.err().unwrap();
    assert_eq!(stale.nfs_status(), Some(NfsStat::Stale));
    let new = server.log_on().await.connect("files").await.unwrap();
    new.open("a", &how).await.unwrap().write(0, b"new").await.unwrap();
    let moved = nfs.directory("/files").await.unwrap().open("b", &nfs_how).await.unwrap();
    moved.write_all(0, &Bytes::from_static(b"new")).await.unwrap();
    for (path, wanted) in [("files/a", "OLD"), ("files/b", "OLD"), ("made/a", "new"), ("made/b", "new")] {
        server.holds(path, wanted);
    }
    server.holds("files/c", "");
    let files = server.json("status").await["tcons"].clone();
    assert_eq!(files.as_object().unwrap().len(), 2, "{files}");

    // Files that are still open through the old share cannot be shared a second time.
    std::fs::create_dir(server.program.path().join("files/inner")).unwrap();
    for line in ["share create inner path=files/inner users=*=read", "share set files path=files/inner"] {
        server.refuses(line, "still has connected clients, contain the same files").await;
    }
    open.close().await.unwrap();
    file.close().await.unwrap();
    assert!(server.has_open("files"), "a session is connected to it");
    old.disconnect().await.unwrap();
    server.is_free("files");
    server.says("share create inner path=files/inner users=*=read").await;
    assert_eq!(session.losses(), 0);
    // The change survives a restart, and it is undone together with its origin.
    server.restart();
    let new = server.log_on().await.connect("files").await.unwrap();
    new.open("a", &OpenOptions::file(Disposition::Open)).await.unwrap();
    server.refuses("share set files --reset path", "contain the same files").await;
    server.says("share delete inner").await;
    server.says("share set files --reset path").await;
    server.holds("files/a", "OLD");
    let back = server.log_on().await.connect("files").await.unwrap();
    let file = back.open("a", &OpenOptions::file(Disposition::Open)).await.unwrap();
    assert_eq!(&file.read(0, 3).await.unwrap()[..], b"OLD");
}

#[tokio::test]
async fn a_reload_moves_a_share_and_its_limits_and_counts_go_along() {
    let server = LiveServer::start();
    server.says("account create lab kind=premium users=anna=full").await;
    server.says("share set files account=lab provisioned_gib=100").await;
    let old = server.log_on().await.connect("files").await.unwrap();
    let file = old.open("a", &OpenOptions::file(Disposition::Create)).await.unwrap();
    file.write(0, b"counted").await.unwrap();
    let at = server.program.path().join("trunkline.toml");
    let text = std::fs::read_to_string(&at).unwrap();
    // A mistake in another share leaves it in place.
    let moved = text.replace("path = \"files\"", "path = \"made\"");
    std::fs::write(&at, format!("{moved}[share.bad]\npath = \"none\"\n")).unwrap();
    server.refuses("reload", "no such file or directory").await;
    server
        .log_on()
        .await
        .connect("files")
        .await
        .unwrap()
        .open("a", &OpenOptions::file(Disposition::Open))
        .await
        .unwrap();
    let counted = |metrics: &Value| -> u64 {
        let work = metrics["shares"].as_array().unwrap().iter().find(|share| share["file_share"] == "files");
        work.unwrap_or_else(|| panic!("{metrics}"))["work"]["written_bytes"].as_u64().unwrap()
    };
    std::fs::write(&at, moved).unwrap();
    server.says("reload").await;
    let status = server.json("status").await;
    assert_eq!(status["limits"]["files"]["iops"], 3100);
    assert_eq!(status["usage"]["files"]["quota_bytes"], 100u64 << 30);
    assert_eq!(status["usage"]["files"]["bytes"], 0, "the new directory's: {status}");
    let new = server.log_on().await.connect("files").await.unwrap();
    let one = new.open("one", &OpenOptions::file(Disposition::Create)).await.unwrap();
    one.write(0, b"and more").await.unwrap();
    file.write(0, b"here too").await.unwrap();
    assert_eq!(counted(&server.json("status workload").await), 7 + 8 + 8);
}
