//! An NFS client whose server restarts. The client reclaims its opens before it does anything else. An open
//! that the server does not return is lost, and reports it.

mod support {
    pub mod nfs;
}

use std::time::Duration;

use client::nfs::{Client, Creation, ExportDirectory, ExportFile, NfsStat, OpenOptions, Options, StableHow};
use client::{Bytes, Error, Result};
use nfs_wire::op::OpNum;
use nfs_wire::op::open::ShareAccess;
use support::nfs::{NfsTestServer, Trick};

/// A client with so many connections, and the directory of the server.
async fn connected(server: &NfsTestServer, connections: usize) -> (Client, ExportDirectory) {
    connected_as(server, Options { connections, ..Options::default() }).await
}

async fn connected_as(server: &NfsTestServer, options: Options) -> (Client, ExportDirectory) {
    let client = Client::connect(server.address, options).await.unwrap();
    let directory = client.directory("/").await.unwrap();
    (client, directory)
}

async fn file(directory: &ExportDirectory) -> ExportFile {
    directory.open("file", &OpenOptions::write(Creation::IfMissing(0o644))).await.unwrap()
}

async fn write(file: &ExportFile) -> Result<()> {
    file.write(0, &Bytes::from_static(b"data"), StableHow::FileSync).await.map(drop)
}

/// The number of times that each of these was carried out.
fn done<const N: usize>(server: &NfsTestServer, operations: [OpNum; N]) -> [usize; N] {
    operations.map(|operation| server.done(operation))
}

fn is_lost<T>(result: Result<T>, why: NfsStat) -> bool {
    matches!(result, Err(Error::StateLost { status }) if status == why)
}

#[tokio::test]
async fn an_open_file_is_claimed_before_anything_else_is_done_in_the_new_session() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let reading = directory.open("file", &OpenOptions::read()).await.unwrap();
    let writing = file(&directory).await;
    write(&writing).await.unwrap();
    server.play(Trick::ForgetClients(OpNum::Write));
    let before = server.state().seen.len();
    write(&writing).await.unwrap();
    let seen: Vec<_> = server.state().seen[before..].iter().map(|it| it.operations.clone()).collect();
    let claim = vec![OpNum::PutFh, OpNum::Open];
    let wanted = [
        vec![OpNum::PutFh, OpNum::Write],
        vec![OpNum::CreateSession],
        vec![OpNum::ExchangeId],
        vec![OpNum::CreateSession],
        claim.clone(),
        claim,
        vec![OpNum::ReclaimComplete],
        vec![OpNum::PutFh, OpNum::Write],
    ];
    assert_eq!(seen, wanted);
    // Each by its owner, for what it was opened for.
    let mut claimed = server.state().claimed.clone();
    claimed.sort_by(|one, other| one.0.cmp(&other.0));
    let none = ShareAccess::WANT_NO_DELEG;
    let [one, other] = [1u32, 2].map(|owner| owner.to_be_bytes().to_vec());
    assert_eq!(claimed, [(one, ShareAccess::READ | none), (other, ShareAccess::BOTH | none)]);
    // They are as open as ever.
    assert_eq!(*reading.read(0, 4).await.unwrap(), *b"data");
    reading.close().await.unwrap();
    writing.close().await.unwrap();
    assert_eq!(done(&server, [OpNum::Open, OpNum::Close]), [4, 2]);
}

#[tokio::test]
async fn all_is_claimed_once_however_many_requests_and_connections_meet_the_restart() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 3).await;
    let mut files = Vec::new();
    for _ in 0..5 {
        files.push(file(&directory).await);
    }
    server.play(Trick::ForgetClients(OpNum::Write));
    let mut tasks = tokio::task::JoinSet::new();
    for file in files {
        tasks.spawn(async move {
            for _ in 0..20 {
                write(&file).await?;
            }
            file.close().await
        });
    }
    while let Some(written) = tasks.join_next().await {
        written.unwrap().unwrap();
    }
    assert_eq!(server.state().claimed.len(), 5);
    let once_more = [OpNum::ExchangeId, OpNum::CreateSession, OpNum::ReclaimComplete];
    assert_eq!(done(&server, once_more), [2; 3]);
    assert_eq!(done(&server, [OpNum::Write, OpNum::Close]), [100, 5]);
}

#[tokio::test]
async fn a_file_that_is_not_given_back_is_lost_and_each_use_says_so() {
    for why in [NfsStat::NoGrace, NfsStat::ReclaimBad, NfsStat::ReclaimConflict, NfsStat::Stale] {
        let server = NfsTestServer::start().await;
        let (_client, directory) = connected(&server, 1).await;
        let lost = file(&directory).await;
        server.play(Trick::ForgetClients(OpNum::Write));
        server.play(Trick::Refuse(OpNum::Open, why));
        assert!(is_lost(write(&lost).await, why), "{why:?}");
        assert!(lost.is_lost());
        assert!(is_lost(lost.read(0, 4).await, why));
        assert!(is_lost(lost.commit().await, why));
        assert!(is_lost(lost.set_length(0).await, why));
        assert!(is_lost(lost.stat().await, why));
        assert!(is_lost(lost.security(true).await, why));
        assert!(is_lost(lost.data_from(&[0]).await, why));
        assert!(is_lost(lost.copy_from(&lost, 0, 4).await, why));
        assert!(is_lost(lost.close().await, why));
        // It is not opened again but by who asks for it, and the client goes on.
        let opened = [OpNum::Open, OpNum::ReclaimComplete, OpNum::Write, OpNum::Close];
        assert_eq!(done(&server, opened), [1, 2, 0, 0], "{why:?}");
        let anew = file(&directory).await;
        write(&anew).await.unwrap();
        anew.close().await.unwrap();
    }
}

#[tokio::test]
async fn nothing_is_claimed_of_another_server_in_its_place() {
    let server = NfsTestServer::start().await;
    let (client, directory) = connected(&server, 1).await;
    let file = file(&directory).await;
    server.state().scope = b"other";
    server.play(Trick::ForgetClients(OpNum::Write));
    assert!(is_lost(write(&file).await, NfsStat::Stale));
    assert_eq!((client.about().scope, server.state().claimed.len()), (b"other".to_vec(), 0));
}

#[tokio::test]
async fn one_lost_file_costs_no_other() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let files = [file(&directory).await, file(&directory).await];
    server.play(Trick::ForgetClients(OpNum::Remove));
    server.play(Trick::Refuse(OpNum::Open, NfsStat::ReclaimConflict));
    directory.remove("name").await.unwrap();
    assert_eq!(files.iter().filter(|file| file.is_lost()).count(), 1);
    for file in files {
        assert_eq!(write(&file).await.is_err(), file.is_lost());
    }
}

#[tokio::test]
async fn a_server_that_asks_to_come_later_gets_the_claim_again() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let file = file(&directory).await;
    server.play(Trick::ForgetClients(OpNum::Write));
    for (operation, status) in [
        (OpNum::Open, NfsStat::Grace),
        (OpNum::Open, NfsStat::Delay),
        (OpNum::PutFh, NfsStat::Delay),
        (OpNum::ReclaimComplete, NfsStat::Delay),
    ] {
        server.play(Trick::Refuse(operation, status));
    }
    write(&file).await.unwrap();
    let state = server.state();
    assert_eq!((state.claimed.len(), state.tricks.len()), (1, 0));
}

#[tokio::test]
async fn a_server_that_puts_a_claim_off_for_ever_is_believed_in_the_end() {
    let server = NfsTestServer::start().await;
    let options = Options { patience: Duration::from_millis(30), ..Options::default() };
    let (_client, directory) = connected_as(&server, options).await;
    let file = file(&directory).await;
    server.play(Trick::ForgetClients(OpNum::Write));
    (0..10_000).for_each(|_| server.play(Trick::Refuse(OpNum::Open, NfsStat::Delay)));
    assert!(is_lost(write(&file).await, NfsStat::Delay));
    assert_eq!(server.done(OpNum::ReclaimComplete), 2);
}

#[tokio::test]
async fn a_server_that_restarts_while_files_are_claimed_gets_them_all_again() {
    for operation in [OpNum::Open, OpNum::ReclaimComplete] {
        let server = NfsTestServer::start().await;
        let (_client, directory) = connected(&server, 1).await;
        let files = [file(&directory).await, file(&directory).await];
        server.play(Trick::ForgetClients(OpNum::Write));
        server.play(Trick::ForgetClients(operation));
        for file in files {
            write(&file).await.unwrap();
            file.close().await.unwrap();
        }
        assert_eq!(done(&server, [OpNum::ExchangeId, OpNum::ReclaimComplete]), [3, 2], "{operation:?}");
    }
}

#[tokio::test]
async fn what_is_left_of_claiming_is_done_by_the_next_request() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let file = file(&directory).await;
    server.play(Trick::ForgetClients(OpNum::Write));
    server.play(Trick::Refuse(OpNum::ReclaimComplete, NfsStat::ServerFault));
    let refused = write(&file).await.unwrap_err();
    assert_eq!(refused.nfs_status(), Some(NfsStat::ServerFault));
    write(&file).await.unwrap();
    let of_the_second =
        [OpNum::ExchangeId, OpNum::CreateSession, OpNum::ReclaimComplete, OpNum::DestroySession];
    assert_eq!(done(&server, of_the_second), [2, 3, 2, 1]);
    assert_eq!(server.state().claimed.len(), 1, "what was given back is not claimed again");
}

#[tokio::test]
async fn a_server_that_keeps_its_sessions_says_that_files_are_to_be_claimed() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 2).await;
    let file = file(&directory).await;
    // The request that is told so has what is void; the next one has what is claimed by then.
    server.play(Trick::Restart(OpNum::Write));
    write(&file).await.unwrap();
    let made = [OpNum::ExchangeId, OpNum::CreateSession, OpNum::ReclaimComplete, OpNum::Write];
    assert_eq!(done(&server, made), [1, 2, 2, 1]);
    server.play(Trick::Restart(OpNum::Remove));
    directory.remove("name").await.unwrap();
    assert_eq!(server.state().claimed.len(), 2);
    write(&file).await.unwrap();
    assert_eq!(done(&server, made), [1, 3, 3, 2]);
    assert_eq!(server.done(OpNum::DestroySession), 2);
}

#[tokio::test]
async fn what_nobody_has_open_any_more_is_not_claimed() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let [closed, dropped] = [file(&directory).await, file(&directory).await];
    closed.close().await.unwrap();
    drop(dropped);
    server.play(Trick::ForgetClients(OpNum::Remove));
    directory.remove("name").await.unwrap();
    assert_eq!(server.state().claimed, []);
    assert_eq!(server.done(OpNum::ReclaimComplete), 2);
}

#[tokio::test]
async fn delegations_end_with_the_server_and_the_files_stay_open() {
    let server = NfsTestServer::start().await;
    server.state().delegates = true;
    let options = Options { delegations: true, ..Options::default() };
    let (client, directory) = connected_as(&server, options).await;
    let file = file(&directory).await;
    assert_eq!(client.delegations(), 1);
    server.play(Trick::ForgetClients(OpNum::Write));
    write(&file).await.unwrap();
    assert_eq!((client.delegations(), server.state().claimed.len()), (0, 1));
    file.close().await.unwrap();
}

#[tokio::test]
async fn a_client_that_asks_for_nothing_claims_what_it_has_open_within_the_lease() {
    let server = NfsTestServer::start().await;
    server.state().lease_s = 3;
    let (_client, directory) = connected(&server, 1).await;
    let file = file(&directory).await;
    server.play(Trick::ForgetClients(OpNum::Sequence));
    let claiming = async {
        while server.done(OpNum::ReclaimComplete) < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), claiming).await.expect("it renews its lease");
    write(&file).await.unwrap();
    assert_eq!(server.state().claimed.len(), 1);
}

#[tokio::test]
async fn the_instance_of_an_open_file_tells_of_a_restart_that_no_verifier_tells_of() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let [source, target] = [file(&directory).await, file(&directory).await];
    let before = target.instance().unwrap();
    target.share_storage_of(&source, 0, 4).await.unwrap();
    target.commit().await.unwrap();
    assert_eq!(target.instance().unwrap(), before);
    server.play(Trick::ForgetClients(OpNum::Commit));
    target.commit().await.unwrap();
    assert_ne!(target.instance().unwrap(), before);
}

#[tokio::test]
async fn unstable_pieces_on_both_sides_of_a_restart_are_no_success() {
    let server = NfsTestServer::start().await;
    let (client, directory) = connected(&server, 1).await;
    server.state().committed = Some(StableHow::Unstable);
    let long = Bytes::from(vec![7; client.max_io() as usize + 1]);
    let how = OpenOptions::write(Creation::IfMissing(0o644));
    directory.put("file", &how, &long).await.unwrap();
    for (at, puts) in [(OpNum::Write, false), (OpNum::Write, true), (OpNum::Commit, true)] {
        let file = file(&directory).await;
        // The first WRITE or the OPEN is before the restart.
        if at == OpNum::Write {
            server.play(Trick::Hold(OpNum::Write));
        }
        server.play(Trick::ForgetClients(at));
        let writing = async {
            match puts {
                true => directory.put("file", &how, &long).await,
                false => file.write_all(0, &long).await.map(drop),
            }
        };
        let releasing = async {
            while at == OpNum::Write && server.held() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            server.release();
        };
        let (written, ()) = tokio::join!(writing, releasing);
        assert!(matches!(written, Err(Error::UnstableLost)), "{at:?}: {written:?}");
        file.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_never_says_that_all_is_claimed_costs_no_open() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let file = file(&directory).await;
    server.state().is_always_in_need = true;
    server.play(Trick::ForgetClients(OpNum::Write));
    for _ in 0..3 {
        write(&file).await.unwrap();
    }
    assert_eq!(done(&server, [OpNum::CreateSession, OpNum::ReclaimComplete]), [2, 2]);
    file.close().await.unwrap();
}

#[tokio::test]
async fn a_commit_that_meets_the_restart_does_not_succeed_on_a_lost_file() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let file = file(&directory).await;
    server.play(Trick::ForgetClients(OpNum::Commit));
    server.play(Trick::Refuse(OpNum::Open, NfsStat::NoGrace));
    assert!(is_lost(file.commit().await, NfsStat::NoGrace));
}

#[tokio::test]
async fn a_request_that_meets_the_restart_says_that_the_file_is_lost_whatever_the_server_says() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let file = file(&directory).await;
    server.play(Trick::ForgetClients(OpNum::Write));
    server.play(Trick::Refuse(OpNum::Open, NfsStat::Stale));
    server.play(Trick::Refuse(OpNum::Write, NfsStat::Stale));
    assert!(is_lost(write(&file).await, NfsStat::Stale));
}

#[tokio::test]
async fn a_file_that_is_dropped_while_it_is_claimed_is_closed() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let file = file(&directory).await;
    server.play(Trick::ForgetClients(OpNum::Remove));
    server.play(Trick::Hold(OpNum::Open));
    let dropping = async {
        while server.held() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(file);
        server.release();
    };
    let (removed, ()) = tokio::join!(directory.remove("name"), dropping);
    removed.unwrap();
    assert_eq!(done(&server, [OpNum::Close, OpNum::ReclaimComplete]), [1, 2]);
}

#[tokio::test]
async fn a_server_that_restarts_at_each_attempt_is_not_asked_for_ever() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let file = file(&directory).await;
    (0..10).for_each(|_| server.play(Trick::Restart(OpNum::Write)));
    assert_eq!(write(&file).await.unwrap_err().nfs_status(), Some(NfsStat::BadStateId));
    assert_eq!(server.seen(OpNum::Write).len(), 3);
    assert!(!file.is_lost());
}
