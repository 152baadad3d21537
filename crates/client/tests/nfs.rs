//! An NFS client against a peer that plays tricks. A repeated request must be recognisable as a retry, and a
//! finished one must not be carried out twice.

mod support {
    pub mod nfs;
}

use std::time::Duration;

use client::nfs::{Client, Creation, ExportDirectory, ExportFile, NfsStat, OpenOptions, Options, StableHow};
use client::{Bytes, Error};
use nfs_wire::op::OpNum;
use support::nfs::{NfsTestServer, Trick};

/// A client with so many connections, and the directory of the server.
async fn connected(server: &NfsTestServer, connections: usize) -> (Client, ExportDirectory) {
    let patience = Duration::from_secs(20);
    let reconnect_after = Duration::from_millis(1);
    let options = Options { connections, patience, reconnect_after, ..Options::default() };
    let client = Client::connect(server.address, options).await.unwrap();
    let directory = client.directory("/").await.unwrap();
    (client, directory)
}

async fn file(directory: &ExportDirectory) -> ExportFile {
    directory.open("file", &OpenOptions::write(Creation::IfMissing(0o644))).await.unwrap()
}

/// Waits for `done`, which is bound to happen.
async fn until(done: impl Fn() -> bool) {
    let waiting = async {
        while !done() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it happens");
}

#[tokio::test]
async fn a_session_is_begun_once_and_ended() {
    let server = NfsTestServer::start().await;
    let (client, directory) = connected(&server, 3).await;
    assert_eq!((client.connections().len(), client.slots(), client.max_io()), (3, 64, 1 << 20));
    directory.remove("name").await.unwrap();
    client.close().await.unwrap();
    let once = [
        OpNum::ExchangeId,
        OpNum::CreateSession,
        OpNum::ReclaimComplete,
        OpNum::Remove,
        OpNum::DestroySession,
        OpNum::DestroyClientId,
    ];
    assert_eq!(once.map(|it| server.done(it)), [1; 6]);
    assert!(matches!(directory.remove("name").await, Err(Error::Closed)));
}

#[tokio::test]
async fn one_request_after_the_other_goes_in_the_first_slot_with_the_next_number_over_connections_in_turn() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 4).await;
    for _ in 0..8 {
        directory.remove("name").await.unwrap();
    }
    let seen = server.seen(OpNum::Remove);
    let first = seen[0].slot.unwrap();
    assert_eq!(first.0, 0);
    let slots: Vec<_> = seen.iter().map(|it| it.slot.unwrap()).collect();
    assert_eq!(slots, (0..8).map(|at| (0, first.1 + at)).collect::<Vec<_>>());
    let mut used: Vec<_> = seen.iter().map(|it| it.connection).collect();
    used.sort_unstable();
    assert_eq!(used, [0, 0, 1, 1, 2, 2, 3, 3]);
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_there_are_slots() {
    let server = NfsTestServer::start().await;
    server.state().slots = 2;
    let (client, directory) = connected(&server, 2).await;
    assert_eq!(client.slots(), 2);
    (0..2).for_each(|_| server.play(Trick::Hold(OpNum::Remove)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..5 {
        let directory = directory.clone();
        tasks.spawn(async move { directory.remove("name").await });
    }
    until(|| server.held() == 2).await;
    assert_eq!(server.seen(OpNum::Remove).len(), 2, "the others wait");
    server.release();
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    let seen = server.seen(OpNum::Remove);
    assert!(seen.len() == 5 && seen.iter().all(|it| it.slot.unwrap().0 < 2), "{seen:?}");
}

#[tokio::test]
async fn what_was_done_when_its_connection_was_cut_is_not_done_again() {
    for connections in [1, 3] {
        let server = NfsTestServer::start().await;
        let (client, directory) = connected(&server, connections).await;
        server.play(Trick::CutAfter(OpNum::Remove));
        directory.remove("name").await.unwrap();
        assert_eq!((server.done(OpNum::Remove), client.losses()), (1, 1));
        let [first, retry] = &server.seen(OpNum::Remove)[..] else { panic!("two attempts") };
        assert_ne!(first.connection, retry.connection);
        assert_eq!((first.slot, retry.again), (retry.slot, true));
        // The lost connection is replaced, and the session goes on.
        until(|| client.connections().len() == connections).await;
        directory.remove("name").await.unwrap();
        assert_eq!(server.done(OpNum::Remove), 2);
    }
}

#[tokio::test]
async fn what_was_lost_with_its_connection_is_sent_again_with_the_same_number() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 2).await;
    let file = file(&directory).await;
    server.play(Trick::CutBefore(OpNum::Write));
    let data = Bytes::from(vec![7; 100_001]);
    assert_eq!(file.write(3, &data, StableHow::Unstable).await.unwrap().count, 100_001);
    let [first, retry] = &server.seen(OpNum::Write)[..] else { panic!("two attempts") };
    assert_eq!((first.slot, first.connection != retry.connection, retry.again), (retry.slot, true, false));
    assert_eq!(server.state().content, [vec![0; 3], vec![7; 100_001]].concat());
}

#[tokio::test]
async fn what_the_server_has_done_and_forgotten_is_asked_again_only_where_that_does_no_harm() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    for operation in [OpNum::Sequence, OpNum::PutFh] {
        server.play(Trick::Refuse(operation, NfsStat::RetryUncachedRep));
        directory.stat("name").await.unwrap();
        server.play(Trick::Refuse(operation, NfsStat::RetryUncachedRep));
        let refused = directory.remove("name").await.unwrap_err();
        assert_eq!(refused.nfs_status(), Some(NfsStat::RetryUncachedRep));
    }
    assert_eq!(server.done(OpNum::Remove), 0);
}

#[tokio::test]
async fn a_server_that_asks_to_come_later_is_asked_later() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    // At an operation the slot has moved on; at SEQUENCE it has not.
    server.play(Trick::Refuse(OpNum::Remove, NfsStat::Delay));
    directory.remove("name").await.unwrap();
    server.play(Trick::Refuse(OpNum::Sequence, NfsStat::Delay));
    directory.remove("name").await.unwrap();
    let numbers: Vec<_> = server.seen(OpNum::Remove).iter().map(|it| it.slot.unwrap().1).collect();
    let first = numbers[0];
    assert_eq!(numbers, [first, first + 1, first + 2, first + 2]);
    assert_eq!(server.done(OpNum::Remove), 2);
}

#[tokio::test]
async fn a_server_that_asks_to_come_later_for_ever_is_believed_in_the_end() {
    let server = NfsTestServer::start().await;
    let options = Options { patience: Duration::from_millis(30), ..Options::default() };
    let client = Client::connect(server.address, options).await.unwrap();
    let directory = client.directory("/").await.unwrap();
    (0..10_000).for_each(|_| server.play(Trick::Refuse(OpNum::Remove, NfsStat::Delay)));
    let refused = directory.remove("name").await.unwrap_err();
    assert_eq!(refused.nfs_status(), Some(NfsStat::Delay));
}

#[tokio::test]
async fn what_was_made_before_the_server_asks_to_come_later_is_not_made_again() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    server.play(Trick::Refuse(OpNum::Write, NfsStat::Delay));
    let new = OpenOptions { read: false, write: true, creation: Creation::Always(0o644) };
    directory.put("name", &new, &Bytes::from_static(b"content")).await.unwrap();
    assert_eq!([OpNum::Open, OpNum::Write, OpNum::Close].map(|it| server.done(it)), [1; 3]);
    assert_eq!(server.state().content, b"content");
}

#[tokio::test]
async fn a_lost_session_is_made_anew_with_the_same_client_id() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 2).await;
    server.play(Trick::ForgetSessions(OpNum::Remove));
    directory.remove("name").await.unwrap();
    let made = [OpNum::ExchangeId, OpNum::CreateSession, OpNum::ReclaimComplete, OpNum::Remove];
    assert_eq!(made.map(|it| server.done(it)), [1, 2, 1, 1]);
    assert_eq!(server.seen(OpNum::Remove)[1].slot, Some((0, 1)), "a new session begins with one");
}

#[tokio::test]
async fn a_server_that_began_anew_gets_to_know_the_client_again() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    server.play(Trick::ForgetClients(OpNum::Remove));
    directory.remove("name").await.unwrap();
    let made = [OpNum::ExchangeId, OpNum::CreateSession, OpNum::ReclaimComplete, OpNum::Remove];
    assert_eq!(made.map(|it| server.done(it)), [2, 2, 2, 1]);
}

#[tokio::test]
async fn a_server_that_does_not_agree_about_slots_gets_another_session() {
    for status in [NfsStat::BadSlot, NfsStat::BadHighSlot, NfsStat::SeqMisordered] {
        let server = NfsTestServer::start().await;
        let (_client, directory) = connected(&server, 1).await;
        server.play(Trick::Refuse(OpNum::Sequence, status));
        directory.remove("name").await.unwrap();
        let made = [OpNum::DestroySession, OpNum::CreateSession, OpNum::Remove];
        assert_eq!(made.map(|it| server.done(it)), [1, 2, 1], "{status:?}");
    }
}

#[tokio::test]
async fn a_session_that_is_lost_twice_is_an_error() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    (0..2).for_each(|_| server.play(Trick::ForgetSessions(OpNum::Remove)));
    let refused = directory.remove("name").await.unwrap_err();
    assert_eq!(refused.nfs_status(), Some(NfsStat::BadSession));
    directory.remove("name").await.unwrap();
    assert_eq!(server.done(OpNum::Remove), 1);
}

#[tokio::test]
async fn the_slot_of_a_request_that_was_given_up_is_asked_about_before_it_is_used_again() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    server.play(Trick::Hold(OpNum::Remove));
    {
        let mut given_up = Box::pin(directory.remove("name"));
        tokio::select! {
            _ = &mut given_up => panic!("it is held"),
            () = until(|| server.held() == 1) => {}
        }
    }
    directory.remove("other").await.unwrap();
    let seen = server.seen(OpNum::Remove);
    let ((slot, number), next) = (seen[0].slot.unwrap(), seen[1].slot.unwrap());
    assert_eq!(next, (slot, number + 1));
    // Between them a SEQUENCE alone, which the server took for a retry.
    let state = server.state();
    let probe = state.seen.iter().find(|it| it.again).expect("a probe");
    assert_eq!((probe.slot, probe.operations.len()), (Some((slot, number)), 0));
}

#[tokio::test]
async fn data_of_every_length_comes_and_goes_whole_in_one_piece_or_in_fragments() {
    for fragments in [false, true] {
        let server = NfsTestServer::start().await;
        let (_client, directory) = connected(&server, 2).await;
        server.state().fragments = fragments;
        let file = file(&directory).await;
        let content: Vec<u8> = (0..(1 << 20) + 1).map(|at: u32| (at % 251) as u8).collect();
        file.write_all(0, &content.clone().into()).await.unwrap();
        assert!(server.state().content == content);
        for length in [0, 1, 2, 3, 4, 4096, 32_000, 40_000, 150_001, 1 << 20] {
            let data = file.read(1, length).await.unwrap();
            assert!(*data == content[1..=length as usize], "{length}");
        }
        let end = file.read(1 << 20, 100).await.unwrap();
        assert_eq!((end.len(), end.eof), (1, true));
        file.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_delegation_is_given_back_when_the_server_asks_and_a_repeated_recall_changes_nothing() {
    let server = NfsTestServer::start().await;
    server.state().delegates = true;
    let options = Options { delegations: true, ..Options::default() };
    let client = Client::connect(server.address, options).await.unwrap();
    let directory = client.directory("/").await.unwrap();
    let file = file(&directory).await;
    assert_eq!(client.delegations(), 1);
    server.recall(1, b"fh");
    until(|| server.done(OpNum::DelegReturn) == 1).await;
    until(|| server.state().replies.len() == 1).await;
    assert_eq!(client.delegations(), 0);
    // The same number again: the reply comes from the client's cache.
    server.recall(1, b"fh");
    until(|| server.state().replies.len() == 2).await;
    {
        let state = server.state();
        assert_eq!(state.replies[0], state.replies[1]);
    }
    // A new number: there is nothing to give back any more.
    server.recall(2, b"fh");
    until(|| server.state().replies.len() == 3).await;
    let last = server.state().replies.split_off(1);
    assert_ne!(last[0], last[1]);
    assert_eq!(server.done(OpNum::DelegReturn), 1);
    file.close().await.unwrap();
}

#[tokio::test]
async fn a_file_in_one_piece_is_on_the_store_before_it_gets_its_name() {
    let server = NfsTestServer::start().await;
    let (_client, directory) = connected(&server, 1).await;
    let data = Bytes::from_static(b"data");
    directory.deliver("part", "file", 0o600, &data, None).await.unwrap();
    assert_eq!(server.state().stable, [StableHow::DataSync]);
    assert_eq!(server.state().done.get(&OpNum::Commit), None, "one round trip");
    server.state().committed = Some(StableHow::Unstable);
    let refused = directory.deliver("part", "file", 0o600, &data, None).await.unwrap_err();
    assert!(matches!(refused, Error::Protocol("a WRITE is less safe than was asked for")), "{refused}");
}

/// Does the same as [`connected`], with one connection on which silence may last `silence`.
async fn connected_impatiently(
    server: &NfsTestServer,
    silence: Duration,
    patience: Duration,
) -> (Client, ExportDirectory) {
    let reconnect_after = Duration::from_millis(1);
    let options = Options { silence, patience, reconnect_after, ..Options::default() };
    let client = Client::connect(server.address, options).await.unwrap();
    let directory = client.directory("/").await.unwrap();
    (client, directory)
}

/// The result of `doing`, which ends.
async fn soon<T>(doing: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), doing).await.expect("it ends")
}

#[tokio::test]
async fn a_connection_on_which_nothing_comes_is_lost_and_its_request_goes_over_the_next() {
    let server = NfsTestServer::start().await;
    let (client, directory) =
        connected_impatiently(&server, Duration::from_millis(200), Duration::from_secs(20)).await;
    server.state().is_mute = true;
    server.play(Trick::Hold(OpNum::Remove));
    soon(directory.remove("name")).await.unwrap();
    assert_eq!((server.done(OpNum::Remove), client.losses()), (1, 1));
    assert_eq!(server.state().nulls, 1, "it was asked before it was given up");
}

#[tokio::test]
async fn a_request_may_take_longer_than_silence_where_the_server_says_that_it_is_there() {
    let server = NfsTestServer::start().await;
    let (client, directory) =
        connected_impatiently(&server, Duration::from_millis(800), Duration::from_secs(20)).await;
    server.play(Trick::Hold(OpNum::Remove));
    let removing = tokio::spawn(async move { directory.remove("name").await });
    // Each is sent when half of the time is over.
    until(|| server.state().nulls == 3).await;
    server.release();
    soon(removing).await.unwrap().unwrap();
    assert_eq!((server.done(OpNum::Remove), client.losses()), (1, 0));
}

#[tokio::test]
async fn a_server_that_takes_connections_and_never_answers_ends_a_request() {
    let server = NfsTestServer::start().await;
    let (client, directory) =
        connected_impatiently(&server, Duration::from_secs(60), Duration::from_millis(200)).await;
    server.state().is_dead = true;
    server.play(Trick::CutBefore(OpNum::Remove));
    let error = soon(directory.remove("name")).await.unwrap_err();
    assert!(error.is_loss() && client.losses() > 1, "{error}");
    // One that answers again is gone on with.
    server.state().is_dead = false;
    until(|| !client.connections().is_empty()).await;
    soon(async { while directory.remove("name").await.is_err() {} }).await;
}

#[tokio::test]
async fn connecting_ends_where_nobody_answers_and_where_somebody_hangs_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = Options { connect_timeout: Duration::from_millis(200), ..Options::default() };
    let error = soon(Client::connect(address, options)).await.unwrap_err();
    assert!(error.to_string().starts_with("EXCHANGE_ID was not answered within 200ms"), "{error}");
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let error = soon(Client::connect(address, Options::default())).await.unwrap_err();
    assert!(error.is_loss() && !error.to_string().contains("timed out"), "{error}");
}

/// Whether the server is asked, and says, that it is there while a step hangs that is to end after `time`,
/// which must be named.
async fn is_there_while_it_hangs(hung: OpNum, time: Duration) -> bool {
    let server = NfsTestServer::start().await;
    let options = Options { connect_timeout: time, silence: time / 2, ..Options::default() };
    let connecting = async {
        if hung != OpNum::PutRootFh && hung != OpNum::Lookup {
            server.play(Trick::Hold(hung));
        }
        let client = Client::connect(server.address, options).await?;
        server.play(Trick::Hold(hung));
        client.directory("a/b").await
    };
    let error = soon(connecting).await.map(drop).unwrap_err();
    let named = matches!(error, Error::Late { step, after } if Some(step) == hung.name() && after == time);
    assert!(named && server.held() == 1, "{hung:?}: {error}");
    server.state().nulls > 0
}

#[tokio::test]
async fn a_step_to_an_export_that_is_not_answered_is_named_although_the_server_is_there() {
    let time = Duration::from_millis(400);
    for hung in [
        OpNum::ExchangeId,
        OpNum::CreateSession,
        OpNum::ReclaimComplete,
        OpNum::GetAttr,
        OpNum::PutRootFh,
        OpNum::Lookup,
    ] {
        // A host that puts this process aside for most of the time leaves none to ask in.
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while !is_there_while_it_hangs(hung, time).await {
            assert!(std::time::Instant::now() < end, "{hung:?}: the server has said that it is there");
        }
    }
}

#[tokio::test]
async fn a_path_is_looked_up_in_as_many_steps_as_the_server_demands() {
    let server = NfsTestServer::start().await;
    server.state().operations = 16;
    let (client, _) = connected(&server, 1).await;
    client.directory(&"/name".repeat(25)).await.unwrap();
    let names = |seen: &support::nfs::RecordedCompound| {
        seen.operations.iter().filter(|it| **it == OpNum::Lookup).count()
    };
    assert_eq!(server.seen(OpNum::Lookup).iter().map(names).collect::<Vec<_>>(), [12, 12, 1]);
}

#[tokio::test]
async fn a_server_without_our_minor_version_is_told_from_a_broken_one() {
    let server = NfsTestServer::start().await;
    server.state().is_old = true;
    let error = soon(Client::connect(server.address, Options::default())).await.unwrap_err();
    assert!(error.to_string().contains("does not offer this minor version of NFSv4"), "{error}");
}

#[tokio::test]
async fn the_lease_is_renewed_while_one_of_the_connections_cannot_be_had_again() {
    let server = NfsTestServer::start().await;
    server.state().lease_s = 3;
    let (client, directory) = connected(&server, 2).await;
    server.state().is_dead = true;
    server.play(Trick::CutBefore(OpNum::Remove));
    directory.remove("name").await.unwrap();
    until(|| client.losses() > 3).await;
    let last = server.state().seen.len();
    // A third of the lease passes twice before somebody who asks for nothing says that he is there.
    until(|| server.state().seen[last..].iter().any(|it| it.slot.is_some() && it.operations.is_empty()))
        .await;
}

#[tokio::test]
async fn a_new_connection_is_one_over_which_the_server_can_ask_for_a_delegation() {
    let server = NfsTestServer::start().await;
    let reconnect_after = Duration::from_millis(1);
    let options = Options { delegations: true, reconnect_after, ..Options::default() };
    let client = Client::connect(server.address, options).await.unwrap();
    let directory = client.directory("/").await.unwrap();
    server.play(Trick::CutAfter(OpNum::Remove));
    directory.remove("name").await.unwrap();
    let bound: Vec<_> = server.seen(OpNum::BindConnToSession).iter().map(|it| it.connection).collect();
    assert_eq!(bound, [1]);
}

#[tokio::test]
async fn a_listing_that_comes_back_to_where_it_was_is_given_up() {
    let server = NfsTestServer::start().await;
    server.state().circle = 3;
    let (_client, directory) = connected(&server, 1).await;
    let listed = soon(directory.list()).await;
    assert!(matches!(listed, Err(Error::Protocol(_))), "{listed:?}");
    assert_eq!(server.done(OpNum::ReadDir), 4);
}
