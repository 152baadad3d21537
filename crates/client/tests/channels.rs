//! Several channels against a peer that answers as a script says: how they are bound, and what goes over them
//! when one is lost.

mod support {
    pub mod peer;
}

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use client::Error;
use client::smb::{
    ChannelOptions, Connection, Credentials, File, OpenOptions, OpenedChannels, Options, Session,
};
use smb_wire::create::{self, CreateAction, Disposition, FileInfo, OplockLevel};
use smb_wire::create_context::{Contexts, RequestContext};
use smb_wire::header::Flags;
use smb_wire::{FileId, Guid, Header, NtStatus, SmbCommand, close, lock, read, write};
use support::peer::{ChannelPeer, MessageBytes, Server};
use testkit::samba::USER;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

const FILE: FileId = FileId { persistent: 1, volatile: 2 };

/// So many channels; nothing is opened again while a test runs.
fn wanting(channels: usize) -> ChannelOptions {
    ChannelOptions { channels, reopen_after: Duration::from_secs(3600), ..ChannelOptions::default() }
}

/// Logs on over one connection and asks for channels, while the other end does what `script` says.
async fn with_channels<F>(
    options: ChannelOptions,
    script: impl FnOnce(Server, ChannelPeer) -> F,
) -> (Session, OpenedChannels, F::Output)
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    with_channels_by(Options::default(), options, script).await
}

/// The same, by `connecting`. The addresses of `options` come before that of the server.
async fn with_channels_by<F>(
    connecting: Options,
    options: ChannelOptions,
    script: impl FnOnce(Server, ChannelPeer) -> F,
) -> (Session, OpenedChannels, F::Output)
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    with_channels_of(Server::start().await, connecting, options, script).await
}

/// The same to this server.
async fn with_channels_of<F>(
    mut server: Server,
    connecting: Options,
    options: ChannelOptions,
    script: impl FnOnce(Server, ChannelPeer) -> F,
) -> (Session, OpenedChannels, F::Output)
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let address = server.address;
    let client = tokio::spawn(async move {
        let connection = Connection::connect(address, "peer", &connecting).await.unwrap();
        let session = Session::log_on(&connection, &Credentials::new(USER.0, USER.1), false).await.unwrap();
        let mut options = options;
        options.addresses.push(address);
        let opened = session.open_channels(&options).await.unwrap();
        (session, opened)
    });
    let mut first = server.accept().await;
    server.log_on(&mut first).await;
    let script = tokio::spawn(script(server, first));
    let (session, opened) = client.await.unwrap();
    (session, opened, script.await.unwrap())
}

/// A session over two channels with an open file.
async fn two_channels() -> (Session, File, ChannelPeer, ChannelPeer) {
    two_channels_by(wanting(2)).await
}

async fn two_channels_by(options: ChannelOptions) -> (Session, File, ChannelPeer, ChannelPeer) {
    two_channels_of(Server::start().await, options).await
}

async fn two_channels_of(
    server: Server,
    options: ChannelOptions,
) -> (Session, File, ChannelPeer, ChannelPeer) {
    let script = |mut server: Server, first| async move {
        let mut second = server.accept().await;
        server.bind(&mut second).await;
        (first, second)
    };
    let (session, opened, (mut first, second)) =
        with_channels_of(server, Options::default(), options, script).await;
    assert_eq!((opened.channels, opened.failure.is_none()), (2, true));
    let of_client = session.clone();
    let opening = tokio::spawn(async move {
        let tree = of_client.connect("files").await.unwrap();
        tree.open("file", &OpenOptions::file(Disposition::OpenIf)).await.unwrap()
    });
    first.connect_tree().await;
    let request = first.next_of(SmbCommand::Create).await;
    first.accept(&request, created).await;
    (session, opening.await.unwrap(), first, second)
}

#[tokio::test]
async fn a_login_waits_with_the_password_until_it_is_told_to_go_on() {
    let mut server = Server::start().await;
    let address = server.address;
    let who = Credentials::new(USER.0, USER.1);
    let accepted = tokio::spawn(async move {
        let mut peer = server.accept().await;
        server.log_on(&mut peer).await;
    });
    let connection = Connection::connect(address, "peer", &Options::default()).await.unwrap();
    let begun = Session::begin(&connection, &who).await.unwrap();
    // The server has answered once and waits for the proof; what is on its way would be there by now.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert!(!accepted.is_finished(), "it was proven already");
    let session = begun.finish(false).await.unwrap();
    accepted.await.unwrap();
    assert_eq!(session.channels().len(), 1);
}

fn created(out: &mut Vec<u8>) {
    create::Response {
        oplock_level: OplockLevel::None,
        flags: create::ResponseFlags::empty(),
        create_action: CreateAction::Opened,
        info: FileInfo::default(),
        file_id: FILE,
        contexts: Contexts::EMPTY,
    }
    .write(out);
}

fn written(out: &mut Vec<u8>) {
    write::Response { count: 4 }.write(out);
}

/// ChannelSequence and whether it is a replay.
fn marks(message: &MessageBytes) -> (u16, bool) {
    let header = Header::parse(message).unwrap();
    (header.channel_sequence(), header.flags().contains(Flags::REPLAY_OPERATION))
}

/// The name that a CREATE goes by.
fn create_guid(message: &MessageBytes) -> Guid {
    let request = create::Request::parse(message).unwrap();
    let contexts: Vec<_> = request.contexts.requests().map(|it| it.unwrap()).collect();
    match contexts[..] {
        [RequestContext::DurableHandleRequestV2 { create_guid, .. }] => create_guid,
        _ => panic!("{contexts:?}"),
    }
}

fn write_of(message: &MessageBytes) -> (u64, &[u8]) {
    let request = write::Request::parse(message).unwrap();
    (request.offset, request.data)
}

fn writing(file: File) -> JoinHandle<client::Result<(File, u32)>> {
    tokio::spawn(async move {
        let count = file.write(8, b"once").await?;
        Ok((file, count))
    })
}

#[tokio::test]
async fn a_server_that_refuses_one_more_channel_leaves_the_session_as_it_is() {
    for status in [NtStatus::INSUFFICIENT_RESOURCES, NtStatus::REQUEST_NOT_ACCEPTED] {
        let (session, opened, (mut first, _second)) =
            with_channels(wanting(4), move |mut server, first| async move {
                let mut second = server.accept().await;
                server.bind(&mut second).await;
                let mut third = server.accept().await;
                server.refuse(&mut third, status).await;
                (first, second)
            })
            .await;
        assert_eq!(opened.channels, 2);
        assert_eq!(opened.failure.and_then(|it| it.status()), Some(status));
        let connecting = tokio::spawn(async move { session.connect("files").await.map(drop) });
        first.connect_tree().await;
        connecting.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_server_that_loses_a_new_connection_is_asked_over_another() {
    let (_session, opened, _peers) =
        with_channels_by(patient(), wanting(3), |mut server, first| async move {
            // The first is never answered at all, of the next one only NEGOTIATE; the client gives both up.
            let mut silent = server.accept_silently().await;
            silent.is_closed().await;
            let mut half = server.accept().await;
            half.is_closed().await;
            let mut second = server.accept().await;
            server.bind(&mut second).await;
            (first, second)
        })
        .await;
    assert_eq!(opened.channels, 2);
}

/// A place where nobody takes TCP: connections wait there, and further ones are not answered at all.
async fn dead() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    (address, listener, vec![TcpStream::connect(address).await.unwrap()])
}

/// The addresses of the channels of a session.
fn peers(session: &Session) -> Vec<SocketAddr> {
    session.channels().iter().map(|it| it.peer).collect()
}

/// Patience of a second with each attempt.
fn patient() -> Options {
    Options { connect_timeout: Duration::from_secs(4), ..Options::default() }
}

#[tokio::test]
async fn the_place_of_a_dead_address_goes_to_one_that_answers() {
    let (dead, _listener, _waiting) = dead().await;
    let options = ChannelOptions { addresses: vec![dead], ..wanting(3) };
    let (session, opened, server) = with_channels_by(patient(), options, |mut server, first| async move {
        let mut second = server.accept().await;
        server.bind(&mut second).await;
        let mut third = server.accept().await;
        server.bind(&mut third).await;
        (server.address, first, second, third)
    })
    .await;
    assert_eq!((opened.channels, opened.failure.map(|it| it.to_string())), (3, None));
    assert_eq!(peers(&session), [server.0; 3]);
}

#[tokio::test]
async fn an_address_that_says_nothing_does_not_hold_up_the_others() {
    let mut silent = Server::start().await;
    let options = ChannelOptions { addresses: vec![silent.address], ..wanting(3) };
    let (session, opened, server) = with_channels_by(patient(), options, |mut server, first| async move {
        let mut unanswered = silent.accept_silently().await;
        unanswered.next().await;
        let mut second = server.accept().await;
        server.bind(&mut second).await;
        assert!(unanswered.is_open(), "the good address was waited for until the silent one was given up");
        let mut third = server.accept().await;
        server.bind(&mut third).await;
        (server.address, first, second, third, silent)
    })
    .await;
    assert_eq!((opened.channels, opened.failure.map(|it| it.to_string())), (3, None));
    assert_eq!(peers(&session), [server.0; 3]);
}

#[tokio::test]
async fn a_server_that_calls_itself_otherwise_is_not_the_same() {
    let (session, opened, ()) = with_channels(wanting(2), |mut server, _first| async move {
        server.guid = Guid([8; 16]);
        server.accept().await;
    })
    .await;
    assert_eq!(opened.channels, 1);
    assert!(matches!(opened.failure, Some(Error::Protocol(_))), "{:?}", opened.failure);
    assert_eq!(session.channels().len(), 1);
}

#[tokio::test]
async fn a_little_goes_over_one_channel_unless_all_are_to_be_used() {
    for use_all in [false, true] {
        let options = ChannelOptions { use_all, ..wanting(2) };
        let (_session, file, mut first, mut second) = two_channels_by(options).await;
        let writing =
            tokio::spawn(async move { tokio::join!(file.write(0, b"once"), file.write(4, b"next")) });
        // Both are under way before one is answered.
        let once = first.next_of(SmbCommand::Write).await;
        let further = if use_all { &mut second } else { &mut first };
        let next = further.next_of(SmbCommand::Write).await;
        assert_eq!((write_of(&once).0, write_of(&next).0), (0, 4), "all: {use_all}");
        further.accept(&next, written).await;
        first.accept(&once, written).await;
        let (once, next) = writing.await.unwrap();
        assert_eq!((once.unwrap(), next.unwrap()), (4, 4));
    }
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_replayed_with_the_next_channel_sequence() {
    let (session, file, mut first, mut second) = two_channels().await;
    let writing = writing(file);
    let lost = first.next_of(SmbCommand::Write).await;
    assert_eq!((marks(&lost), write_of(&lost)), ((0, false), (8, &b"once"[..])));
    drop(first);
    let replayed = second.next_of(SmbCommand::Write).await;
    assert_eq!((marks(&replayed), write_of(&replayed)), ((1, true), (8, &b"once"[..])));
    second.accept(&replayed, written).await;
    let (file, count) = writing.await.unwrap().unwrap();
    assert_eq!((count, session.losses(), session.channels().len()), (4, 1, 1));
    // What follows is new.
    let following = tokio::spawn(async move { file.write(12, b"next").await });
    let request = second.next_of(SmbCommand::Write).await;
    assert_eq!(marks(&request), (1, false));
    second.accept(&request, written).await;
    assert_eq!(following.await.unwrap().unwrap(), 4);
}

#[tokio::test]
async fn a_replay_waits_while_the_server_still_works_on_what_it_repeats() {
    let (_session, file, mut first, mut second) = two_channels().await;
    let writing = writing(file);
    first.next_of(SmbCommand::Write).await;
    drop(first);
    for _ in 0..4 {
        let request = second.next_of(SmbCommand::Write).await;
        assert_eq!((marks(&request), write_of(&request)), ((1, true), (8, &b"once"[..])));
        second.refuse(&request, NtStatus::FILE_NOT_AVAILABLE).await;
    }
    let request = second.next_of(SmbCommand::Write).await;
    second.accept(&request, written).await;
    assert_eq!(writing.await.unwrap().unwrap().1, 4);
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_is_replayed_under_the_same_name() {
    let (session, _file, mut first, mut second) = two_channels().await;
    let opening = tokio::spawn(async move {
        let connecting = session.connect("files").await.unwrap();
        connecting.open("new", &OpenOptions::file(Disposition::Create)).await.map(|file| file.id())
    });
    first.connect_tree().await;
    let lost = first.next_of(SmbCommand::Create).await;
    assert_eq!(marks(&lost), (0, false));
    drop(first);
    let replayed = second.next_of(SmbCommand::Create).await;
    assert_eq!(marks(&replayed), (1, true));
    assert_eq!(create_guid(&replayed), create_guid(&lost));
    second.accept(&replayed, created).await;
    assert_eq!(opening.await.unwrap().unwrap(), FILE);
}

/// A server of one credit is asked for more once, and gets the CREATE of a compound alone. That channel is
/// lost, and the other one has the same CREATE again, which is answered.
async fn lose_the_create(mut first: ChannelPeer, second: &mut ChannelPeer) {
    first.connect_tree().await;
    let asked = first.next().await;
    first.echo(&asked).await;
    let lost = first.next_of(SmbCommand::Create).await;
    assert_eq!(marks(&lost), (0, false));
    drop(first);
    let replayed = second.next_of(SmbCommand::Create).await;
    assert_eq!((marks(&replayed), create_guid(&replayed)), ((1, true), create_guid(&lost)));
    second.accept(&replayed, created).await;
}

/// Refuses what follows the CREATE; the file is closed then.
async fn refuse_and_close(peer: &mut ChannelPeer, command: SmbCommand) {
    let request = peer.next_of(command).await;
    peer.refuse(&request, NtStatus::ACCESS_DENIED).await;
    let request = peer.next_of(SmbCommand::Close).await;
    assert_eq!(close::Request::parse(&request).unwrap().file_id, FILE);
    peer.accept(&request, |out| close::Response { info: None }.write(out)).await;
}

#[tokio::test]
async fn a_create_out_of_a_compound_that_is_not_paid_for_is_replayed_under_the_same_name() {
    let mut server = Server::start().await;
    server.grants = 1;
    let (session, _file, first, mut second) = two_channels_of(server, wanting(2)).await;
    let looking = tokio::spawn(async move { session.connect("files").await?.stat("file").await });
    lose_the_create(first, &mut second).await;
    refuse_and_close(&mut second, SmbCommand::QueryInfo).await;
    assert_eq!(looking.await.unwrap().unwrap_err().status(), Some(NtStatus::ACCESS_DENIED));
}

#[tokio::test]
async fn an_open_for_a_change_that_is_not_paid_for_in_one_frame_does_not_stay_behind_a_lost_channel() {
    let mut server = Server::start().await;
    server.grants = 1;
    let (session, _file, first, mut second) = two_channels_of(server, wanting(2)).await;
    let renaming = tokio::spawn(async move {
        session.connect("files").await?.rename("file", "other", client::smb::Settings::default()).await
    });
    lose_the_create(first, &mut second).await;
    refuse_and_close(&mut second, SmbCommand::SetInfo).await;
    assert_eq!(renaming.await.unwrap().unwrap_err().status(), Some(NtStatus::ACCESS_DENIED));
}

#[tokio::test]
async fn what_changes_nothing_twice_is_sent_again_and_a_second_close_finds_it_closed() {
    let (_session, file, mut first, mut second) = two_channels().await;
    let working = tokio::spawn(async move {
        let data = file.read(0, 4).await.unwrap().to_vec();
        file.close().await.unwrap();
        data
    });
    first.next_of(SmbCommand::Read).await;
    drop(first);
    let request = second.next_of(SmbCommand::Read).await;
    assert_eq!(marks(&request), (1, false));
    second
        .accept(&request, |out| read::Response { data_remaining: 0, flags: 0, data: b"data" }.write(out))
        .await;
    // The close is done once, and was not repeated: what the server says of it is what the caller sees.
    let request = second.next_of(SmbCommand::Close).await;
    assert_eq!(marks(&request), (1, false));
    second.accept(&request, |out| close::Response { info: None }.write(out)).await;
    assert_eq!(working.await.unwrap(), b"data");

    let (_session, file, mut first, mut second) = two_channels().await;
    let closing = tokio::spawn(file.close());
    first.next_of(SmbCommand::Close).await;
    drop(first);
    let request = second.next_of(SmbCommand::Close).await;
    second.refuse(&request, NtStatus::FILE_CLOSED).await;
    closing.await.unwrap().unwrap();
}

/// Index and number of a LOCK.
fn lock_sequence(message: &MessageBytes) -> (u32, u8) {
    let request = lock::Request::parse(message).unwrap();
    (request.lock_sequence_index, request.lock_sequence_number)
}

#[tokio::test]
async fn a_lock_is_sent_again_by_the_number_it_had_and_no_other_has_that() {
    let (_session, file, mut first, mut second) = two_channels().await;
    let locking = tokio::spawn(async move {
        file.lock(0, 1).await?;
        for _ in 0..64 {
            file.unlock(0, 1).await?;
        }
        Ok::<_, Error>(())
    });
    let lost = lock_sequence(&first.next_of(SmbCommand::Lock).await);
    drop(first);
    let mut seen = Vec::new();
    for _ in 0..65 {
        let request = second.next_of(SmbCommand::Lock).await;
        seen.push(lock_sequence(&request));
        second.accept(&request, |out| lock::Response.write(out)).await;
    }
    locking.await.unwrap().unwrap();
    assert_eq!((lost, seen[0]), ((1, 0), (1, 0)));
    let following: Vec<_> = (2..=64).map(|index| (index, 0)).chain([(1, 1)]).collect();
    assert_eq!(seen[1..], following);
}

/// The range that a LOCK asks for, how, and by which number.
fn locking(message: &MessageBytes) -> (u64, u64, lock::LockFlags, (u32, u8)) {
    let request = lock::Request::parse(message).unwrap();
    let element = request.locks.iter().next().unwrap();
    (element.offset, element.length, element.flags, lock_sequence(message))
}

fn locked(out: &mut Vec<u8>) {
    lock::Response.write(out);
}

/// A range that is asked for on two channels, since the first is lost. Answers the other end behind the
/// refusal of the second request.
async fn refused_again(
    file: Arc<File>,
    mut first: ChannelPeer,
    second: &mut ChannelPeer,
) -> JoinHandle<client::Result<()>> {
    let locking = tokio::spawn(async move { file.lock(20, 10).await });
    let lost = lock_sequence(&first.next_of(SmbCommand::Lock).await);
    drop(first);
    let request = second.next_of(SmbCommand::Lock).await;
    assert_eq!(lock_sequence(&request), lost);
    second.refuse(&request, NtStatus::LOCK_NOT_GRANTED).await;
    locking
}

const NOW: lock::LockFlags = lock::LockFlags::FAIL_IMMEDIATELY;
const EXCLUSIVE: lock::LockFlags = lock::LockFlags::EXCLUSIVE_LOCK.union(NOW);
const UNLOCK: lock::LockFlags = lock::LockFlags::UNLOCK;

#[tokio::test]
async fn a_range_is_refused_only_when_the_first_request_for_it_has_not_taken_it_and_never_will() {
    for was_taken in [false, true] {
        let (_session, file, first, mut second) = two_channels().await;
        let client = refused_again(Arc::new(file), first, &mut second).await;
        // It takes nothing any more behind something that was done under its number.
        let request = second.next_of(SmbCommand::Lock).await;
        assert_eq!(locking(&request), (0, 0, lock::LockFlags::SHARED_LOCK | NOW, (1, 0)));
        second.accept(&request, locked).await;
        let request = second.next_of(SmbCommand::Lock).await;
        assert_eq!(locking(&request), (20, 10, UNLOCK, (2, 0)));
        match was_taken {
            true => second.accept(&request, locked).await,
            false => second.refuse(&request, NtStatus::RANGE_NOT_LOCKED).await,
        }
        let request = second.next_of(SmbCommand::Lock).await;
        assert_eq!(locking(&request), (0, 0, UNLOCK, (3, 0)));
        second.accept(&request, locked).await;
        if was_taken {
            // It was in its own way.
            let request = second.next_of(SmbCommand::Lock).await;
            assert_eq!(locking(&request), (20, 10, EXCLUSIVE, (4, 0)));
            second.accept(&request, locked).await;
        }
        let expected = if was_taken { None } else { Some(NtStatus::LOCK_NOT_GRANTED) };
        assert_eq!(client.await.unwrap().err().and_then(|error| error.status()), expected);
    }
}

#[tokio::test]
async fn a_range_that_an_open_has_already_stays_when_it_is_refused_once_more() {
    let (_session, file, mut first, mut second) = two_channels().await;
    let file = Arc::new(file);
    let taking = tokio::spawn({
        let file = Arc::clone(&file);
        async move { file.lock(20, 10).await }
    });
    let request = first.next_of(SmbCommand::Lock).await;
    first.accept(&request, locked).await;
    taking.await.unwrap().unwrap();
    let client = refused_again(Arc::clone(&file), first, &mut second).await;
    // The number of the first request is settled, and the range is not given back.
    let request = second.next_of(SmbCommand::Lock).await;
    assert_eq!(locking(&request), (0, 0, lock::LockFlags::SHARED_LOCK | NOW, (2, 0)));
    second.accept(&request, locked).await;
    let request = second.next_of(SmbCommand::Lock).await;
    assert_eq!(locking(&request), (0, 0, UNLOCK, (3, 0)));
    second.accept(&request, locked).await;
    assert_eq!(client.await.unwrap().unwrap_err().status(), Some(NtStatus::LOCK_NOT_GRANTED));
    let giving = tokio::spawn(async move { file.unlock(20, 10).await });
    let request = second.next_of(SmbCommand::Lock).await;
    assert_eq!(locking(&request), (20, 10, UNLOCK, (4, 0)));
    second.accept(&request, locked).await;
    giving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_range_whose_return_was_not_waited_for_is_not_taken_for_held() {
    let (_session, file, mut first, mut second) = two_channels().await;
    let file = Arc::new(file);
    let client = tokio::spawn({
        let file = Arc::clone(&file);
        async move {
            file.lock(20, 10).await?;
            file.unlock(20, 10).await
        }
    });
    let request = first.next_of(SmbCommand::Lock).await;
    first.accept(&request, locked).await;
    first.next_of(SmbCommand::Lock).await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    let client = refused_again(file, first, &mut second).await;
    let expected = [(0, 0, lock::LockFlags::SHARED_LOCK | NOW, (3, 0)), (20, 10, UNLOCK, (4, 0))];
    for expected in expected {
        let request = second.next_of(SmbCommand::Lock).await;
        assert_eq!(locking(&request), expected);
        second.accept(&request, locked).await;
    }
    client.abort();
}

#[tokio::test]
async fn a_range_of_which_it_cannot_be_known_who_has_it_is_not_said_to_be_refused() {
    for settles in [false, true] {
        let (_session, file, first, mut second) = two_channels().await;
        let client = refused_again(Arc::new(file), first, &mut second).await;
        let request = second.next_of(SmbCommand::Lock).await;
        match settles {
            true => second.accept(&request, locked).await,
            false => second.refuse(&request, NtStatus::INSUFFICIENT_RESOURCES).await,
        }
        let request = second.next_of(SmbCommand::Lock).await;
        assert_eq!(locking(&request), (20, 10, UNLOCK, (2, 0)));
        match settles {
            true => second.refuse(&request, NtStatus::INSUFFICIENT_RESOURCES).await,
            false => second.refuse(&request, NtStatus::RANGE_NOT_LOCKED).await,
        }
        if settles {
            let request = second.next_of(SmbCommand::Lock).await;
            assert_eq!(locking(&request), (0, 0, UNLOCK, (3, 0)));
            second.accept(&request, locked).await;
        }
        let status = client.await.unwrap().unwrap_err().status();
        assert_eq!(status, Some(NtStatus::INSUFFICIENT_RESOURCES), "settles: {settles}");
    }
}

#[tokio::test]
async fn a_range_whose_return_is_asked_for_twice_is_given_back() {
    let (_session, file, mut first, mut second) = two_channels().await;
    let client = tokio::spawn(async move {
        file.lock(20, 10).await?;
        file.unlock(20, 10).await?;
        Ok::<_, Error>(file.unlock(20, 10).await.unwrap_err().status())
    });
    let request = first.next_of(SmbCommand::Lock).await;
    first.accept(&request, locked).await;
    first.next_of(SmbCommand::Lock).await;
    drop(first);
    // As a server says that does not count: the first request has done it.
    for _ in 0..2 {
        let request = second.next_of(SmbCommand::Lock).await;
        second.refuse(&request, NtStatus::RANGE_NOT_LOCKED).await;
    }
    assert_eq!(client.await.unwrap().unwrap(), Some(NtStatus::RANGE_NOT_LOCKED));
}

#[tokio::test]
async fn with_its_last_channel_a_session_ends() {
    let (session, file, mut first, second) = two_channels().await;
    let writing = writing(file);
    first.next_of(SmbCommand::Write).await;
    drop((first, second));
    assert!(matches!(writing.await.unwrap(), Err(Error::Closed | Error::Io(_))));
    assert!(session.connect("files").await.is_err());
    assert!(session.channels().is_empty());
}
