//! A state directory that was copied or cleared in part: each start reports the missing files.

use std::path::{Path, PathBuf};

use client::Bytes;
use client::nfs::{Client, Creation};
use client::smb::OpenOptions;
use smb_wire::create::Disposition;

use crate::LiveServer;

/// The server's messages about missing files since its start.
fn told(server: &LiveServer) -> Vec<String> {
    let log = std::fs::read_to_string(server.program.path().join("log")).unwrap();
    let is_told = |line: &&str| line.contains("WARN") && (line.contains("missing") || line.contains("gone"));
    log.lines().filter(is_told).map(str::to_owned).collect()
}

/// The only entry of a directory whose name fits.
fn entry(directory: &Path, fits: impl Fn(&str) -> bool) -> PathBuf {
    let mut found = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    found.find(|path| fits(&name(path))).expect("an entry")
}

#[tokio::test]
async fn what_a_copy_of_the_state_directory_lacks_is_told_at_the_start() {
    let mut server = LiveServer::start();
    let state = server.program.path().join("state");
    {
        let nfs = Client::connect(server.nfs, client::nfs::Options::default()).await.unwrap();
        let files = nfs.directory("/files").await.unwrap();
        let how = client::nfs::OpenOptions::write(Creation::IfMissing(0o644));
        let file = files.open("file", &how).await.unwrap();
        file.write_all(0, &Bytes::from_static(b"data")).await.unwrap();
        let session = server.log_on().await;
        let tree = session.connect("files").await.unwrap();
        let stream = tree.open("other:named", &OpenOptions::file(Disposition::Create)).await.unwrap();
        stream.write(0, b"data").await.unwrap();
        stream.close().await.unwrap();
        // The clients disappear without closing their files.
    }
    server.restart();
    assert_eq!(told(&server), [""; 0]);
    let volumes = state.join("volumes");
    let opens = entry(&volumes, |name| name.ends_with(".opens"));
    let beside = opens.with_extension("");
    let clients = entry(&state, |name| {
        name.starts_with("nfs-clients.") && !name.contains(".new") && !name.ends_with(".complete")
    });
    for journal in [&opens, &clients] {
        server.restart_after(|| std::fs::remove_file(journal).unwrap());
        let told = told(&server);
        let named = format!("{}", journal.display());
        assert!(
            told.len() == 1
                && told[0].contains("a journal is missing and a new one replaces it")
                && told[0].contains(&named),
            "{told:#?}"
        );
    }
    // The stream still exists, until all of the directory is removed.
    server.restart_after(|| std::fs::remove_dir_all(&volumes).unwrap());
    let told_all = told(&server);
    let of_streams: Vec<_> = told_all.iter().filter(|line| line.contains("named streams")).collect();
    assert!(
        of_streams.len() == 1
            && of_streams[0].contains(&beside.display().to_string())
            && of_streams[0].contains("files"),
        "{told_all:#?}"
    );
    // It was reported once, and nothing is stored there now.
    server.restart();
    assert!(!told(&server).iter().any(|line| line.contains("named streams")), "{:#?}", told(&server));
}
