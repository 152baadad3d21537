//! Small files that are made in one compound, against a peer that answers as a script says.

#[path = "support/peer.rs"]
mod peer;
mod support;

use client::{Connection, Credentials, Error, OpenOptions, Options, Result, Session, Settings};
use peer::{Message, Peer, Server};
use smb_wire::create::{self, CreateAction, CreateOptions, Disposition, FileInfo, OplockLevel};
use smb_wire::create_context::Contexts;
use smb_wire::{Command, FileId, NtStatus, close, set_info, write};
use support::USER;
use tokio::task::JoinHandle;

const FILE: FileId = FileId { persistent: 1, volatile: 2 };
const MAKING: [Command; 4] = [Command::Create, Command::Write, Command::SetInfo, Command::Close];

/// A client that makes a file of four bytes, and the other end with the requests that came for it: all of them, before any is answered.
async fn delivering() -> (JoinHandle<Result<()>>, Peer, Vec<Message>) {
    let mut server = Server::start().await;
    let address = server.address;
    let client = tokio::spawn(async move {
        let connection = Connection::connect(address, "peer", &Options::default()).await?;
        let session = Session::log_on(&connection, &Credentials::new(USER.0, USER.1), false).await?;
        let tree = session.connect("files").await?;
        let how = OpenOptions::file(Disposition::Create);
        tree.deliver("new", &how, b"data", Settings::default()).await
    });
    let mut peer = server.accept().await;
    server.log_on(&mut peer).await;
    peer.connect_tree().await;
    let mut requests = Vec::new();
    for command in MAKING {
        requests.push(peer.next_of(command).await);
    }
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

fn closed(out: &mut Vec<u8>) {
    close::Response::default().write(out);
}

/// Lets the client remove the file, as it must.
async fn removal(peer: &mut Peer) {
    let opening = peer.next_of(Command::Create).await;
    let options = create::Request::parse(&opening).unwrap().create_options;
    assert!(options.contains(CreateOptions::DELETE_ON_CLOSE));
    let closing = peer.next_of(Command::Close).await;
    peer.accept(&opening, created).await;
    peer.accept(&closing, closed).await;
}

fn status(done: &Result<()>) -> Option<NtStatus> {
    done.as_ref().err().and_then(Error::status)
}

#[tokio::test]
async fn a_file_that_is_new_takes_one_round_trip() {
    let (client, mut peer, requests) = delivering().await;
    peer.accept(&requests[0], created).await;
    peer.accept(&requests[1], written).await;
    peer.accept(&requests[2], |out| set_info::Response.write(out)).await;
    peer.accept(&requests[3], closed).await;
    client.await.unwrap().unwrap();
}

#[tokio::test]
async fn where_there_is_a_file_nothing_is_done_to_it() {
    let (client, mut peer, requests) = delivering().await;
    for request in &requests {
        peer.refuse(request, NtStatus::OBJECT_NAME_COLLISION).await;
    }
    // Asking for anything more, it would wait for an answer.
    let done = client.await.unwrap();
    assert_eq!(status(&done), Some(NtStatus::OBJECT_NAME_COLLISION));
}

#[tokio::test]
async fn what_a_server_that_goes_on_behind_a_refused_write_has_made_is_removed() {
    let (client, mut peer, requests) = delivering().await;
    peer.accept(&requests[0], created).await;
    peer.refuse(&requests[1], NtStatus::DISK_FULL).await;
    peer.accept(&requests[2], |out| set_info::Response.write(out)).await;
    peer.accept(&requests[3], closed).await;
    removal(&mut peer).await;
    assert_eq!(status(&client.await.unwrap()), Some(NtStatus::DISK_FULL));
}

#[tokio::test]
async fn what_a_server_that_stops_behind_a_refused_write_has_made_is_closed_and_removed() {
    let (client, mut peer, requests) = delivering().await;
    peer.accept(&requests[0], created).await;
    for request in &requests[1..] {
        peer.refuse(request, NtStatus::DISK_FULL).await;
    }
    let closing = peer.next_of(Command::Close).await;
    assert_eq!(close::Request::parse(&closing).unwrap().file_id, FILE);
    peer.accept(&closing, closed).await;
    removal(&mut peer).await;
    assert_eq!(status(&client.await.unwrap()), Some(NtStatus::DISK_FULL));
}
