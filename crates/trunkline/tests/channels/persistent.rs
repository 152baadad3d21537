//! The server is killed while a client writes, and started again. The client continues with its open file.

use std::time::Duration;

use client::Error;
use client::smb::{File, OpenOptions, Options, PersistentHandle, Tree};
use smb_wire::NtStatus;
use smb_wire::create::{Disposition, ShareAccess};
use testkit::channels::log_on;

use crate::MultichannelServer;

/// The number of times that the server is killed.
const KILLS: u64 = 3;
/// The number of bytes of one WRITE.
const BLOCK: u64 = 4096;
/// The time that one step may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK as usize / 8)
}

/// Writes blocks until the connection is lost. Returns how many were acknowledged.
async fn write_until_lost(file: &File, from: u64) -> u64 {
    let mut number = from;
    loop {
        match file.write(number * BLOCK, &block(number)).await {
            Ok(_) => number += 1,
            Err(error) => {
                assert!(error.status().is_none(), "{error}");
                return number;
            }
        }
    }
}

/// Reconnects to the open, and checks that the file and its byte-range lock are still exclusive.
async fn go_on(server: &MultichannelServer, lasting: &PersistentHandle) -> (Tree, File) {
    let (_, tree) = log_on(server.address, &Options::default(), false).await;
    let file = tokio::time::timeout(PATIENCE, tree.reconnect(lasting)).await.expect("in time").expect("kept");
    let (_, other) = log_on(server.address, &Options::default(), false).await;
    let beside = other.open("kept", &OpenOptions::file(Disposition::Open)).await.unwrap();
    let refused = |result: Result<(), Error>| result.unwrap_err().status();
    assert_eq!(refused(beside.lock(0, 10).await), Some(NtStatus::LOCK_NOT_GRANTED));
    assert_eq!(refused(other.reconnect(lasting).await.map(drop)), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
    beside.close().await.unwrap();
    (tree, file)
}

#[tokio::test]
async fn a_file_its_range_and_its_bytes_outlive_the_killed_server() {
    let mut server = MultichannelServer::start_with("", "continuously_available = true");
    let (_, tree) = log_on(server.address, &Options::default(), false).await;
    let how = OpenOptions {
        share: ShareAccess::READ | ShareAccess::WRITE,
        ..OpenOptions::file(Disposition::Create)
    };
    let (mut file, lasting) = tree.open_persistent("kept", &how).await.unwrap();
    assert_eq!(lasting.timeout_ms, 60_000);
    file.lock(0, 10).await.unwrap();
    file.lock(20, 10).await.unwrap();
    file.unlock(20, 10).await.unwrap();
    let mut written = 0;
    let mut kept = tree;
    for end in 0..=KILLS {
        let path = server.files().join("kept");
        let before = written;
        let writing = tokio::spawn(async move { write_until_lost(&file, before).await });
        // The server is stopped in the middle of the writes.
        let begun = std::time::Instant::now();
        while std::fs::metadata(&path).unwrap().len() < (before + 20) * BLOCK {
            assert!(begun.elapsed() < PATIENCE, "nothing is written");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The last stop is in order.
        server.restart(end == KILLS);
        written = writing.await.unwrap();
        assert!(written >= before + 19);
        (kept, file) = go_on(&server, &lasting).await;
    }
    let content = std::fs::read(server.files().join("kept")).unwrap();
    let expected: Vec<u8> = (0..written).flat_map(block).collect();
    assert!(content.starts_with(&expected), "an answered WRITE is gone");
    file.unlock(0, 10).await.unwrap();
    file.close().await.unwrap();
    // A closed open does not come back.
    drop(kept);
    server.restart(false);
    let (_, tree) = log_on(server.address, &Options::default(), false).await;
    let gone = tree.reconnect(&lasting).await.unwrap_err();
    assert_eq!(gone.status(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
}

#[tokio::test]
async fn a_journal_that_is_gone_is_told() {
    let mut server = MultichannelServer::start_with("", "continuously_available = true");
    let said =
        |server: &MultichannelServer| std::fs::read_to_string(server.program.path().join("log")).unwrap();
    let line = "a journal is missing and a new one replaces it; it contained what clients had open";
    assert!(!said(&server).contains(line), "a first start lacks nothing");
    let (_, tree) = log_on(server.address, &Options::default(), false).await;
    let (_file, _) = tree.open_persistent("kept", &OpenOptions::file(Disposition::Create)).await.unwrap();
    server.restart(true);
    assert!(!said(&server).contains(line), "{}", said(&server));
    let found = std::fs::read_dir(server.program.path().join("state/volumes")).unwrap();
    let mut journals = found.map(|entry| entry.unwrap().path());
    let journal = journals.find(|path| path.extension().is_some_and(|it| it == "opens")).expect("a journal");
    server.restart_after(|| std::fs::remove_file(&journal).unwrap());
    let told = said(&server);
    assert!(told.contains(line) && told.contains(&journal.display().to_string()), "{told}");
}

/// The server's messages about journals and opens since its start.
fn journal_warnings(server: &MultichannelServer) -> Vec<String> {
    let log = std::fs::read_to_string(server.program.path().join("log")).unwrap();
    let is_one = |line: &&str| line.contains("WARN") && (line.contains("journal") || line.contains(" open "));
    log.lines().filter(is_one).map(str::to_owned).collect()
}

#[tokio::test]
async fn each_damaged_record_is_told_once() {
    let mut server = MultichannelServer::start_with("", "continuously_available = true");
    let (_, tree) = log_on(server.address, &Options::default(), false).await;
    let how = OpenOptions::file(Disposition::Create);
    let (_kept, _) = tree.open_persistent("kept", &how).await.unwrap();
    let (closed, _) = tree.open_persistent("closed", &how).await.unwrap();
    closed.lock(0, 10).await.unwrap();
    closed.close().await.unwrap();
    std::fs::remove_file(server.files().join("closed")).unwrap();
    server.server.signal("-KILL");
    server.server.wait();
    let found = std::fs::read_dir(server.program.path().join("state/volumes")).unwrap();
    let mut journals = found.map(|entry| entry.unwrap().path());
    let journal = journals.find(|path| path.extension().is_some_and(|it| it == "opens")).expect("a journal");
    let whole = std::fs::read(&journal).unwrap();
    // After the header, and after the first record, which occurs twice.
    let after = |at: usize| at + 12 + u32::from_le_bytes(whole[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut damaged) = (after(after(24)), 0);
    while at + 12 < whole.len() {
        let mut bytes = whole.clone();
        bytes[at + 12] ^= 1;
        std::fs::write(&journal, &bytes).unwrap();
        server.begin_again(|| ());
        let told = journal_warnings(&server);
        assert!(told.len() == 1 && told[0].contains(&format!("at byte {at}: 1 record")), "{at}: {told:#?}");
        server.server.signal("-KILL");
        server.server.wait();
        (at, damaged) = (after(at), damaged + 1);
    }
    assert!(damaged >= 4, "{damaged}");
    std::fs::write(&journal, &whole).unwrap();
    server.begin_again(|| ());
    assert_eq!(journal_warnings(&server), [""; 0]);
}
