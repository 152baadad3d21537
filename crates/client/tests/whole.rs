//! Small files created in one compound, against a peer that answers by a script.

mod support {
    pub mod peer;
}

use client::smb::{Connection, Credentials, OpenOptions, Options, Session, Settings};
use client::{Error, Result};
use smb_wire::create::{self, Access, CreateAction, CreateOptions, Disposition, FileInfo, OplockLevel};
use smb_wire::create_context::{Contexts, RequestContext};
use smb_wire::fscc::FileInfoClass;
use smb_wire::fscc::file::{RenameFlags, RenameLayout, RenameRequest};
use smb_wire::{FileId, NtStatus, SmbCommand, close, set_info, write};
use support::peer::{ChannelPeer, MessageBytes, Server};
use testkit::samba::USER;
use tokio::task::JoinHandle;

const FILE: FileId = FileId { persistent: 1, volatile: 2 };
const MAKING: [SmbCommand; 5] =
    [SmbCommand::Create, SmbCommand::Write, SmbCommand::SetInfo, SmbCommand::SetInfo, SmbCommand::Close];

/// A client that works in a session, and the other end.
async fn in_session<T: Send + 'static, F>(
    what: impl FnOnce(Session) -> F + Send + 'static,
) -> (JoinHandle<Result<T>>, ChannelPeer)
where
    F: Future<Output = Result<T>> + Send,
{
    let mut server = Server::start().await;
    let address = server.address;
    let client = tokio::spawn(async move {
        let connection = Connection::connect(address, "peer", &Options::default()).await?;
        what(Session::log_on(&connection, &Credentials::new(USER.0, USER.1), false).await?).await
    });
    let mut peer = server.accept().await;
    server.log_on(&mut peer).await;
    (client, peer)
}

/// The requests for `commands`: all of them, before any is answered.
async fn all_of(peer: &mut ChannelPeer, commands: &[SmbCommand]) -> Vec<MessageBytes> {
    let mut requests = Vec::new();
    for command in commands {
        requests.push(peer.next_of(*command).await);
    }
    requests
}

fn how_to_make(disposition: Disposition) -> OpenOptions {
    let how = OpenOptions::file(disposition);
    OpenOptions { access: how.access | Access::DELETE, ..how }
}

/// A client that creates a file of four bytes, and the other end with the requests for it.
async fn delivering() -> (JoinHandle<Result<()>>, ChannelPeer, Vec<MessageBytes>) {
    let (client, mut peer) = in_session(async |session| {
        let (tree, how) = (session.connect("files").await?, how_to_make(Disposition::OverwriteIf));
        tree.deliver("part", "new", &how, b"data", Settings::default()).await
    })
    .await;
    peer.connect_tree().await;
    let requests = all_of(&mut peer, &MAKING).await;
    (client, peer, requests)
}

fn created(out: &mut Vec<u8>) {
    create::Response {
        oplock_level: OplockLevel::None,
        flags: create::ResponseFlags::empty(),
        create_action: CreateAction::Created,
        info: FileInfo::default(),
        file_id: FILE,
        contexts: Contexts::EMPTY,
    }
    .write(out);
}

fn written(out: &mut Vec<u8>) {
    write::Response { count: 4 }.write(out);
}

fn set(out: &mut Vec<u8>) {
    set_info::Response.write(out);
}

fn closed(out: &mut Vec<u8>) {
    close::Response::default().write(out);
}

/// Lets the client remove the closed file `name`, as it must.
async fn removal(peer: &mut ChannelPeer, name: &str) {
    let opening = peer.next_of(SmbCommand::Create).await;
    let request = create::Request::parse(&opening).unwrap();
    assert!(request.create_options.contains(CreateOptions::DELETE_ON_CLOSE));
    assert_eq!(request.name.to_string_lossy(), name);
    let closing = peer.next_of(SmbCommand::Close).await;
    peer.accept(&opening, created).await;
    peer.accept(&closing, closed).await;
}

/// The same by the handle that is still open.
async fn removal_by_handle(peer: &mut ChannelPeer) {
    let deleting = peer.next_of(SmbCommand::SetInfo).await;
    let request = set_info::Request::parse(&deleting).unwrap();
    assert_eq!((request.file_id, request.buffer), (FILE, &[1][..]));
    assert_eq!(request.file_info_class, FileInfoClass::DISPOSITION.0);
    let closing = peer.next_of(SmbCommand::Close).await;
    peer.accept(&deleting, set).await;
    peer.accept(&closing, closed).await;
}

fn status(done: &Result<()>) -> Option<NtStatus> {
    done.as_ref().err().and_then(Error::status)
}

#[tokio::test]
async fn a_new_file_takes_one_round_trip_and_has_its_name_only_behind_its_data_and_its_time() {
    let (client, mut peer, requests) = delivering().await;
    let creating = create::Request::parse(&requests[0]).unwrap();
    assert_eq!(creating.name.to_string_lossy(), "part");
    let contexts: Vec<_> = creating.contexts.requests().collect::<std::result::Result<_, _>>().unwrap();
    assert_eq!(contexts, [RequestContext::AllocationSize(4)]);
    let [timed, named] = [&requests[2], &requests[3]].map(|it| set_info::Request::parse(it).unwrap());
    assert_eq!(timed.file_info_class, FileInfoClass::BASIC.0);
    assert_eq!(named.file_info_class, FileInfoClass::RENAME.0);
    let naming = RenameRequest::parse(named.buffer, RenameLayout::Type2).unwrap();
    assert_eq!((naming.flags, naming.name.to_string_lossy().as_str()), (RenameFlags::empty(), "new"));
    peer.accept(&requests[0], created).await;
    peer.accept(&requests[1], written).await;
    peer.accept(&requests[2], set).await;
    peer.accept(&requests[3], set).await;
    peer.accept(&requests[4], closed).await;
    client.await.unwrap().unwrap();
}

#[tokio::test]
async fn where_there_is_a_file_by_now_nothing_is_done_to_it() {
    for goes_on in [false, true] {
        let (client, mut peer, requests) = delivering().await;
        peer.accept(&requests[0], created).await;
        peer.accept(&requests[1], written).await;
        peer.accept(&requests[2], set).await;
        peer.refuse(&requests[3], NtStatus::OBJECT_NAME_COLLISION).await;
        if goes_on {
            peer.accept(&requests[4], closed).await;
        } else {
            peer.refuse(&requests[4], NtStatus::OBJECT_NAME_COLLISION).await;
            let closing = peer.next_of(SmbCommand::Close).await;
            assert_eq!(close::Request::parse(&closing).unwrap().file_id, FILE);
            peer.accept(&closing, closed).await;
        }
        // Asking for anything more, it would wait for an answer.
        let done = client.await.unwrap();
        assert_eq!(status(&done), Some(NtStatus::OBJECT_NAME_COLLISION));
    }
}

#[tokio::test]
async fn what_cannot_be_made_leaves_nothing_to_be_done() {
    let (client, mut peer, requests) = delivering().await;
    for request in &requests {
        peer.refuse(request, NtStatus::DISK_FULL).await;
    }
    assert_eq!(status(&client.await.unwrap()), Some(NtStatus::DISK_FULL));
}

#[tokio::test]
async fn what_a_server_that_goes_on_behind_a_refused_write_has_named_is_removed_by_that_name() {
    let (client, mut peer, requests) = delivering().await;
    peer.accept(&requests[0], created).await;
    peer.refuse(&requests[1], NtStatus::DISK_FULL).await;
    peer.accept(&requests[2], set).await;
    peer.accept(&requests[3], set).await;
    peer.accept(&requests[4], closed).await;
    removal(&mut peer, "new").await;
    assert_eq!(status(&client.await.unwrap()), Some(NtStatus::DISK_FULL));
}

#[tokio::test]
async fn where_the_write_and_the_name_are_refused_the_file_of_that_name_stays() {
    let (client, mut peer, requests) = delivering().await;
    peer.accept(&requests[0], created).await;
    peer.refuse(&requests[1], NtStatus::DISK_FULL).await;
    peer.accept(&requests[2], set).await;
    peer.refuse(&requests[3], NtStatus::OBJECT_NAME_COLLISION).await;
    peer.accept(&requests[4], closed).await;
    removal(&mut peer, "part").await;
    assert_eq!(status(&client.await.unwrap()), Some(NtStatus::DISK_FULL));
}

#[tokio::test]
async fn what_was_written_in_part_is_removed_too() {
    let (client, mut peer, requests) = delivering().await;
    peer.accept(&requests[0], created).await;
    peer.accept(&requests[1], |out| write::Response { count: 3 }.write(out)).await;
    peer.accept(&requests[2], set).await;
    peer.accept(&requests[3], set).await;
    peer.accept(&requests[4], closed).await;
    removal(&mut peer, "new").await;
    assert!(matches!(client.await.unwrap(), Err(Error::Protocol(_))));
}

#[tokio::test]
async fn what_a_server_that_stops_behind_a_refused_write_has_open_is_removed_by_its_handle() {
    let (client, mut peer, requests) = delivering().await;
    peer.accept(&requests[0], created).await;
    for request in &requests[1..] {
        peer.refuse(request, NtStatus::DISK_FULL).await;
    }
    removal_by_handle(&mut peer).await;
    assert_eq!(status(&client.await.unwrap()), Some(NtStatus::DISK_FULL));
}

#[tokio::test]
async fn what_nobody_looks_for_is_made_without_another_name_and_removed_when_it_is_not_whole() {
    for is_written in [true, false] {
        let (client, mut peer) = in_session(async |session| {
            let (tree, how) = (session.connect("files").await?, how_to_make(Disposition::Create));
            tree.make_whole("unseen", &how, b"data", Settings::default()).await
        })
        .await;
        peer.connect_tree().await;
        let commands = [SmbCommand::Create, SmbCommand::Write, SmbCommand::SetInfo, SmbCommand::Close];
        let requests = all_of(&mut peer, &commands).await;
        let creating = create::Request::parse(&requests[0]).unwrap();
        assert_eq!(creating.name.to_string_lossy(), "unseen");
        peer.accept(&requests[0], created).await;
        match is_written {
            true => peer.accept(&requests[1], written).await,
            false => peer.refuse(&requests[1], NtStatus::DISK_FULL).await,
        }
        peer.accept(&requests[2], set).await;
        peer.accept(&requests[3], closed).await;
        if is_written {
            client.await.unwrap().unwrap();
        } else {
            removal(&mut peer, "unseen").await;
            assert_eq!(status(&client.await.unwrap()), Some(NtStatus::DISK_FULL));
        }
    }
}

#[tokio::test]
async fn a_directory_gets_its_name_and_its_time_in_one_round_trip() {
    for (named, timed) in [(true, true), (true, false), (false, false)] {
        let (client, mut peer) = in_session(async |session| {
            let with = Settings { last_write_time: 7, attributes: 0 };
            session.connect("files").await?.rename("unnamed", "new", with).await
        })
        .await;
        peer.connect_tree().await;
        let commands = [SmbCommand::Create, SmbCommand::SetInfo, SmbCommand::SetInfo, SmbCommand::Close];
        let requests = all_of(&mut peer, &commands).await;
        let [naming, timing] = [&requests[1], &requests[2]].map(|it| set_info::Request::parse(it).unwrap());
        let new_name = RenameRequest::parse(naming.buffer, RenameLayout::Type2).unwrap();
        assert_eq!((new_name.flags, new_name.name.to_string_lossy().as_str()), (RenameFlags::empty(), "new"));
        assert_eq!(timing.file_info_class, FileInfoClass::BASIC.0);
        peer.accept(&requests[0], created).await;
        for (request, is_done) in requests[1..].iter().zip([named, timed]) {
            match is_done {
                true => peer.accept(request, set).await,
                false => peer.refuse(request, NtStatus::OBJECT_NAME_COLLISION).await,
            }
        }
        if timed {
            peer.accept(&requests[3], closed).await;
        } else {
            peer.refuse(&requests[3], NtStatus::OBJECT_NAME_COLLISION).await;
            let closing = peer.next_of(SmbCommand::Close).await;
            assert_eq!(close::Request::parse(&closing).unwrap().file_id, FILE);
            peer.accept(&closing, closed).await;
        }
        let done = client.await.unwrap();
        match named {
            true => assert_eq!(done.unwrap(), timed),
            false => assert_eq!(done.unwrap_err().status(), Some(NtStatus::OBJECT_NAME_COLLISION)),
        }
    }
}

#[tokio::test]
async fn a_share_is_connected_to_and_looked_at_in_one_round_trip_or_in_more() {
    let answers = [NtStatus::SUCCESS, NtStatus::OBJECT_NAME_NOT_FOUND, NtStatus::INVALID_PARAMETER];
    for answer in answers {
        let (client, mut peer) =
            in_session(async |session| session.connect_and_look("files", "place").await).await;
        peer.connect_tree().await;
        let requests = all_of(&mut peer, &[SmbCommand::Create, SmbCommand::Close]).await;
        let looking = create::Request::parse(&requests[0]).unwrap();
        assert_eq!(
            (looking.name.to_string_lossy().as_str(), looking.create_disposition),
            ("place", Disposition::Open)
        );
        if answer.is_success() {
            peer.accept(&requests[0], created).await;
            peer.accept(&requests[1], closed).await;
        } else {
            peer.refuse(&requests[0], answer).await;
            peer.refuse(&requests[1], answer).await;
        }
        if answer == NtStatus::INVALID_PARAMETER {
            // Such a server does not do both at once, and may say another thing when it is asked again.
            let commands = [SmbCommand::Create, SmbCommand::QueryInfo, SmbCommand::Close];
            for request in all_of(&mut peer, &commands).await {
                peer.refuse(&request, NtStatus::ACCESS_DENIED).await;
            }
        }
        let (_, found) = client.await.unwrap().unwrap();
        let said = found.err().and_then(|error| error.status());
        let expected = match answer {
            NtStatus::SUCCESS => None,
            NtStatus::INVALID_PARAMETER => Some(NtStatus::ACCESS_DENIED),
            other => Some(other),
        };
        assert_eq!(said, expected);
    }
}
