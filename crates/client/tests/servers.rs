//! What servers of other makes do that ours does not: few credits at a time, old dialects, sessions that end, other
//! mechanisms. The peer does what the script says.

#[path = "support/peer.rs"]
mod peer;
mod support;

use std::time::Duration;

use auth::spnego::{self, NegTokenInit};
use client::{Connection, Credentials, Error, File, OpenOptions, Options, Session, Tree};
use peer::{Peer, Server};
use smb_wire::create::{self, CreateAction, Disposition, FileInfo, OplockLevel};
use smb_wire::create_context::Contexts;
use smb_wire::fscc::directory::{DirectoryClass, Entry, EntryName, Listing};
use smb_wire::negotiate::{Capabilities, Dialect};
use smb_wire::{Command, FileId, Header, NtStatus, Utf16, echo, query_directory, read, utf16};
use support::USER;
use tokio::task::JoinHandle;

/// A server that is as usual but for what `how` changes.
async fn server(how: impl FnOnce(&mut Server)) -> Server {
    let mut server = Server::start().await;
    how(&mut server);
    server
}

/// Logs on and connects a share, while the other end does what `script` says.
async fn connecting<F>(
    mut server: Server,
    script: impl FnOnce(Server, Peer) -> F,
) -> (client::Result<Tree>, F::Output)
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let address = server.address;
    let client = tokio::spawn(async move {
        let connection = Connection::connect(address, "peer", &Options::default()).await?;
        let session = Session::log_on(&connection, &Credentials::new(USER.0, USER.1), false).await?;
        session.connect("files").await
    });
    let mut peer = server.accept().await;
    server.log_on(&mut peer).await;
    let script = tokio::spawn(script(server, peer));
    (client.await.unwrap(), script.await.unwrap())
}

/// A share, and the other end.
async fn connected(server: Server) -> (Tree, Server, Peer) {
    let (tree, (server, peer)) = connecting(server, |server, mut peer| async move {
        peer.connect_tree().await;
        (server, peer)
    })
    .await;
    (tree.unwrap(), server, peer)
}

fn opening(tree: &Tree) -> JoinHandle<client::Result<File>> {
    let tree = tree.clone();
    tokio::spawn(async move { tree.open("file", &OpenOptions::file(Disposition::OpenIf)).await })
}

fn opened(out: &mut Vec<u8>) {
    create::Response {
        oplock_level: OplockLevel::None,
        flags: create::ResponseFlags::empty(),
        create_action: CreateAction::Opened,
        info: FileInfo::default(),
        file_id: FileId { persistent: 1, volatile: 2 },
        contexts: Contexts::EMPTY,
    }
    .write(out);
}

#[tokio::test]
async fn credits_that_come_little_by_little_are_asked_for_until_a_large_request_can_be_paid_for() {
    let (tree, _server, mut peer) = connected(server(|it| it.grants = 1).await).await;
    let opening = opening(&tree);
    let request = peer.next_of(Command::Create).await;
    peer.accept(&request, opened).await;
    let file = opening.await.unwrap().unwrap();
    peer.grants = 8;
    let reading = tokio::spawn(async move { file.read(0, 1 << 20).await.map(|data| data.len()) });
    for _ in 0..3 {
        let request = peer.next().await;
        let header = Header::parse(&request).unwrap();
        assert_eq!(header.command(), Command::Echo);
        assert!(header.credits() > 8, "it asks for more: {}", header.credits());
        peer.accept(&request, |out| echo::Response.write(out)).await;
    }
    let request = peer.next_of(Command::Read).await;
    assert_eq!(Header::parse(&request).unwrap().credit_charge(), 16);
    peer.refuse(&request, NtStatus::END_OF_FILE).await;
    assert_eq!(reading.await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_server_that_grants_no_more_is_not_asked_for_ever() {
    let (tree, _server, mut peer) = connected(server(|it| it.grants = 1).await).await;
    let opening = opening(&tree);
    let request = peer.next_of(Command::Create).await;
    peer.accept(&request, opened).await;
    let file = opening.await.unwrap().unwrap();
    let reading = tokio::spawn(async move { file.read(0, 1 << 20).await.map(|data| data.len()) });
    let request = peer.next().await;
    peer.accept(&request, |out| echo::Response.write(out)).await;
    assert!(matches!(reading.await.unwrap(), Err(Error::Credits { needed: 16, granted: 1 })));
}

#[tokio::test]
async fn without_requests_of_several_credits_none_is_larger_than_one_pays_for() {
    let (tree, _server, mut peer) =
        connected(server(|it| it.capabilities = Capabilities::MULTI_CHANNEL).await).await;
    let opening = opening(&tree);
    let request = peer.next_of(Command::Create).await;
    peer.accept(&request, opened).await;
    let file = opening.await.unwrap().unwrap();
    let reading = tokio::spawn(async move { file.read(0, 1 << 20).await.map(|data| data.len()) });
    let request = peer.next_of(Command::Read).await;
    assert_eq!(read::Request::parse(&request).unwrap().length, 65536);
    peer.refuse(&request, NtStatus::END_OF_FILE).await;
    reading.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_of_3_0_that_cannot_validate_the_negotiation_may_say_so_under_its_signature() {
    for (status, signed, is_let_in) in [
        (NtStatus::NOT_SUPPORTED, true, true),
        (NtStatus::INVALID_DEVICE_REQUEST, true, true),
        (NtStatus::ACCESS_DENIED, true, false),
        (NtStatus::NOT_SUPPORTED, false, false),
    ] {
        let server = server(|it| it.dialect = Dialect::Smb302).await;
        let (tree, _peer) = connecting(server, move |_, mut peer| async move {
            peer.connect_tree().await;
            let request = peer.next_of(Command::Ioctl).await;
            match signed {
                true => peer.refuse(&request, status).await,
                false => peer.refuse_unsigned(&request, status).await,
            }
            peer
        })
        .await;
        assert_eq!(tree.is_ok(), is_let_in, "{status} {signed}: {:?}", tree.err());
    }
}

#[tokio::test]
async fn a_session_that_the_server_has_ended_is_told_from_a_forgery() {
    for status in [NtStatus::USER_SESSION_DELETED, NtStatus::ACCESS_DENIED] {
        let (tree, _server, mut peer) = connected(Server::start().await).await;
        let opening = opening(&tree);
        let request = peer.next_of(Command::Create).await;
        peer.refuse_unsigned(&request, status).await;
        let refused = opening.await.unwrap().unwrap_err();
        match status {
            NtStatus::USER_SESSION_DELETED => assert_eq!(refused.status(), Some(status)),
            _ => assert!(matches!(refused, Error::Unprotected(Command::Create)), "{refused}"),
        }
    }
}

#[tokio::test]
async fn a_session_whose_time_is_over_is_renewed_and_what_was_refused_is_sent_again() {
    let (tree, mut server, mut peer) = connected(Server::start().await).await;
    let both = [opening(&tree), opening(&tree)];
    let (one, other) = (peer.next_of(Command::Create).await, peer.next_of(Command::Create).await);
    peer.refuse(&one, NtStatus::NETWORK_SESSION_EXPIRED).await;
    peer.refuse(&other, NtStatus::NETWORK_SESSION_EXPIRED).await;
    server.renew(&mut peer).await;
    for _ in &both {
        let again = peer.next_of(Command::Create).await;
        peer.accept(&again, opened).await;
    }
    for opening in both {
        opening.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_interim_answer_needs_no_signature_even_where_it_says_that_it_has_one() {
    let (tree, _server, mut peer) = connected(Server::start().await).await;
    let opening = opening(&tree);
    let request = peer.next_of(Command::Create).await;
    peer.pend_unsigned(&request).await;
    peer.accept(&request, opened).await;
    opening.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_takes_kerberos_alone_is_not_asked_and_the_error_says_so() {
    let mech_list = &spnego::mech_list(&[spnego::KERBEROS]);
    let hint = NegTokenInit { mechs: Vec::new(), mech_list, mech_token: None }.encode();
    let mut server = server(|it| it.hint = hint).await;
    let address = server.address;
    let accepted = tokio::spawn(async move { server.accept().await });
    let connection = Connection::connect(address, "peer", &Options::default()).await.unwrap();
    let mut peer = accepted.await.unwrap();
    let refused = Session::log_on(&connection, &Credentials::new(USER.0, USER.1), false).await.unwrap_err();
    assert!(refused.to_string().contains("Kerberos"), "{refused}");
    drop(connection);
    peer.is_closed().await;
}

#[tokio::test]
async fn a_listing_that_does_not_go_on_is_given_up() {
    let mut again = Vec::new();
    let name = utf16::encode("name");
    Listing::new(&mut again, DirectoryClass::IdBothDirectory, 4096)
        .push(&Entry::default(), EntryName::Wire(Utf16::new(&name).unwrap()))
        .unwrap();
    // Nothing for ever, and the same for ever.
    for listing in [Vec::new(), again] {
        let (tree, _server, mut peer) = connected(Server::start().await).await;
        let opening = opening(&tree);
        let request = peer.next_of(Command::Create).await;
        peer.accept(&request, opened).await;
        let file = opening.await.unwrap().unwrap();
        let answering = tokio::spawn(async move {
            loop {
                let request = peer.next_of(Command::QueryDirectory).await;
                let response = query_directory::Response { output_buffer: &listing };
                peer.accept(&request, |out| response.write(out)).await;
            }
        });
        let listed = tokio::time::timeout(Duration::from_secs(20), file.list("*")).await.expect("an end");
        assert!(matches!(listed, Err(Error::Protocol(_))), "{listed:?}");
        answering.abort();
    }
}
