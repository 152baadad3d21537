//! Behaviour of other servers that ours does not show: few credits at a time, old dialects, sessions that
//! expire, other mechanisms. The peer follows the script.

mod support {
    pub mod peer;
}

use std::sync::Arc;
use std::time::Duration;

use auth::spnego::{self, NegTokenInit};
use client::Error;
use client::smb::{Connection, Credentials, File, OpenOptions, Options, Session, Tree};
use smb_wire::create::{self, CreateAction, Disposition, FileInfo, OplockLevel};
use smb_wire::create_context::Contexts;
use smb_wire::fscc::directory::{DirectoryClass, EntryName, Listing, ListingEntry};
use smb_wire::negotiate::{Capabilities, Dialect};
use smb_wire::{
    FileId, Header, NtStatus, SmbCommand, Utf16, close, echo, query_directory, query_info, read, utf16, write,
};
use support::peer::{ChannelPeer, Server};
use testkit::samba::USER;
use tokio::task::JoinHandle;

/// A server with the usual properties, except for the changes of `how`.
async fn server(how: impl FnOnce(&mut Server)) -> Server {
    let mut server = Server::start().await;
    how(&mut server);
    server
}

/// Logs on and connects a share, while the other end follows `script`.
async fn connecting<F>(
    mut server: Server,
    script: impl FnOnce(Server, ChannelPeer) -> F,
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
async fn connected(server: Server) -> (Tree, Server, ChannelPeer) {
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
    let request = peer.next_of(SmbCommand::Create).await;
    peer.accept(&request, opened).await;
    let file = opening.await.unwrap().unwrap();
    peer.grants = 8;
    let reading = tokio::spawn(async move { file.read(0, 1 << 20).await.map(|data| data.len()) });
    for _ in 0..3 {
        let request = peer.next().await;
        let header = Header::parse(&request).unwrap();
        assert_eq!(header.command(), SmbCommand::Echo);
        assert!(header.credits() > 8, "it asks for more: {}", header.credits());
        peer.accept(&request, |out| echo::Response.write(out)).await;
    }
    let request = peer.next_of(SmbCommand::Read).await;
    assert_eq!(Header::parse(&request).unwrap().credit_charge(), 16);
    peer.refuse(&request, NtStatus::END_OF_FILE).await;
    assert_eq!(reading.await.unwrap().unwrap(), 0);
}

/// A share and an open file on a server that never grants more than one credit, and was already asked for
/// more.
async fn with_one_credit() -> (Tree, File, ChannelPeer) {
    let (tree, _server, mut peer) = connected(server(|it| it.grants = 1).await).await;
    let opening = opening(&tree);
    let request = peer.next_of(SmbCommand::Create).await;
    peer.accept(&request, opened).await;
    let file = opening.await.unwrap().unwrap();
    let reading = tokio::spawn(async move { (file.read(0, 1 << 20).await.map(|data| data.len()), file) });
    let request = peer.next().await;
    assert_eq!(Header::parse(&request).unwrap().command(), SmbCommand::Echo);
    peer.accept(&request, |out| echo::Response.write(out)).await;
    let request = peer.next_of(SmbCommand::Read).await;
    peer.refuse(&request, NtStatus::END_OF_FILE).await;
    let (read, file) = reading.await.unwrap();
    assert_eq!(read.unwrap(), 0);
    (tree, file, peer)
}

#[tokio::test]
async fn what_a_server_grants_no_credits_for_is_read_and_written_in_parts() {
    let (_tree, file, mut peer) = with_one_credit().await;
    let working = tokio::spawn(async move {
        let read = file.read(7, 200_000).await.unwrap().to_vec();
        (file.write(9, &read).await, file.read(0, 200_000).await.map(|data| data.len()), read)
    });
    let content: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let parts = [0..65_536, 65_536..131_072, 131_072..196_608, 196_608..200_000];
    for part in parts.clone() {
        let request = peer.next_of(SmbCommand::Read).await;
        assert_eq!(Header::parse(&request).unwrap().credit_charge(), 1);
        let asked = read::Request::parse(&request).unwrap();
        assert_eq!((asked.offset, asked.length as usize), (7 + part.start as u64, part.len()));
        let data = &content[part];
        peer.accept(&request, |out| read::Response { data_remaining: 0, flags: 0, data }.write(out)).await;
    }
    for part in parts {
        let request = peer.next_of(SmbCommand::Write).await;
        let asked = write::Request::parse(&request).unwrap();
        assert_eq!(asked.offset, 9 + part.start as u64);
        assert!(asked.data == &content[part.clone()], "{part:?}");
        let count = part.len() as u32;
        peer.accept(&request, |out| write::Response { count }.write(out)).await;
    }
    // The file ends in the second part.
    for length in [65_536, 1000] {
        let request = peer.next_of(SmbCommand::Read).await;
        let data = &content[..length];
        peer.accept(&request, |out| read::Response { data_remaining: 0, flags: 0, data }.write(out)).await;
    }
    let (written, read_to_its_end, read) = working.await.unwrap();
    assert_eq!((written.unwrap(), read_to_its_end.unwrap()), (200_000, 66_536));
    assert!(read == content);
}

#[tokio::test]
async fn what_a_part_of_a_large_request_is_refused_for_is_what_the_whole_is_refused_for() {
    let (_tree, file, mut peer) = with_one_credit().await;
    let working = tokio::spawn(async move {
        (file.write(0, &[7; 200_000]).await, file.read(0, 200_000).await.map(|data| data.len()))
    });
    for status in [NtStatus::DISK_FULL, NtStatus::FILE_LOCK_CONFLICT] {
        let request = peer.next().await;
        match status {
            NtStatus::DISK_FULL => {
                peer.accept(&request, |out| write::Response { count: 65_536 }.write(out)).await;
            }
            _ => {
                let data = &[0; 65_536];
                let all = read::Response { data_remaining: 0, flags: 0, data };
                peer.accept(&request, |out| all.write(out)).await;
            }
        }
        let request = peer.next().await;
        peer.refuse(&request, status).await;
    }
    let (written, read) = working.await.unwrap();
    assert_eq!(written.unwrap_err().status(), Some(NtStatus::DISK_FULL));
    assert_eq!(read.unwrap_err().status(), Some(NtStatus::FILE_LOCK_CONFLICT));
}

/// The open that a QUERY_INFO or CLOSE is about.
fn file_of(message: &[u8]) -> FileId {
    match Header::parse(message).unwrap().command() {
        SmbCommand::QueryInfo => query_info::Request::parse(message).unwrap().file_id,
        _ => close::Request::parse(message).unwrap().file_id,
    }
}

#[tokio::test]
async fn a_compound_that_the_credits_do_not_pay_for_goes_as_single_requests() {
    let (tree, _file, mut peer) = with_one_credit().await;
    let id = FileId { persistent: 1, volatile: 2 };
    let closed = |out: &mut Vec<u8>| close::Response::default().write(out);
    for refused in [None, Some(SmbCommand::QueryInfo), Some(SmbCommand::Create)] {
        let tree = tree.clone();
        let looking = tokio::spawn(async move { tree.stat("file").await });
        let opening = peer.next_of(SmbCommand::Create).await;
        if refused == Some(SmbCommand::Create) {
            // Nothing more is sent.
            peer.refuse(&opening, NtStatus::OBJECT_NAME_NOT_FOUND).await;
        } else {
            peer.accept(&opening, opened).await;
            let asking = peer.next_of(SmbCommand::QueryInfo).await;
            assert_eq!(file_of(&asking), id);
            match refused {
                None => {
                    let output_buffer = &[3; 56];
                    let all = query_info::Response { output_buffer };
                    peer.accept(&asking, |out| all.write(out)).await;
                }
                Some(_) => peer.refuse(&asking, NtStatus::ACCESS_DENIED).await,
            }
            // It is closed whatever came of the query.
            let closing = peer.next_of(SmbCommand::Close).await;
            assert_eq!(file_of(&closing), id);
            assert!(!Header::parse(&closing).unwrap().is_related());
            peer.accept(&closing, closed).await;
        }
        let found = looking.await.unwrap();
        let status = found.as_ref().err().and_then(Error::status);
        match refused {
            None => assert_eq!(found.unwrap().end_of_file, 0x0303_0303_0303_0303),
            Some(SmbCommand::QueryInfo) => assert_eq!(status, Some(NtStatus::ACCESS_DENIED)),
            _ => assert_eq!(status, Some(NtStatus::OBJECT_NAME_NOT_FOUND)),
        }
    }
}

#[tokio::test]
async fn a_share_is_looked_at_with_one_credit() {
    let mut server = server(|it| it.grants = 1).await;
    let address = server.address;
    let client = tokio::spawn(async move {
        let connection = Connection::connect(address, "peer", &Options::default()).await?;
        let session = Session::log_on(&connection, &Credentials::new(USER.0, USER.1), false).await?;
        session.connect_and_look("files", "place").await
    });
    let mut peer = server.accept().await;
    server.log_on(&mut peer).await;
    let request = peer.next().await;
    peer.accept(&request, |out| echo::Response.write(out)).await;
    peer.connect_tree().await;
    for command in [SmbCommand::Create, SmbCommand::Close] {
        let request = peer.next_of(command).await;
        assert_eq!(Header::parse(&request).unwrap().tree_id(), support::peer::TREE);
        match command {
            SmbCommand::Create => peer.accept(&request, opened).await,
            _ => peer.accept(&request, |out| close::Response::default().write(out)).await,
        }
    }
    client.await.unwrap().unwrap().1.unwrap();
}

#[tokio::test]
async fn a_server_that_grants_more_later_is_asked_for_whole_blocks_again() {
    let (_tree, file, mut peer) = with_one_credit().await;
    peer.grants = 32;
    let reading = tokio::spawn(async move {
        file.read(0, 1).await?;
        file.read(0, 1 << 20).await.map(|data| data.len())
    });
    for charge in [1, 16] {
        let request = peer.next_of(SmbCommand::Read).await;
        assert_eq!(Header::parse(&request).unwrap().credit_charge(), charge);
        peer.refuse(&request, NtStatus::END_OF_FILE).await;
    }
    assert_eq!(reading.await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn without_requests_of_several_credits_none_is_larger_than_one_pays_for() {
    let (tree, _server, mut peer) =
        connected(server(|it| it.capabilities = Capabilities::MULTI_CHANNEL).await).await;
    let opening = opening(&tree);
    let request = peer.next_of(SmbCommand::Create).await;
    peer.accept(&request, opened).await;
    let file = opening.await.unwrap().unwrap();
    let reading = tokio::spawn(async move { file.read(0, 1 << 20).await.map(|data| data.len()) });
    let request = peer.next_of(SmbCommand::Read).await;
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
            let request = peer.next_of(SmbCommand::Ioctl).await;
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
        let request = peer.next_of(SmbCommand::Create).await;
        peer.refuse_unsigned(&request, status).await;
        let refused = opening.await.unwrap().unwrap_err();
        match status {
            NtStatus::USER_SESSION_DELETED => assert_eq!(refused.status(), Some(status)),
            _ => assert!(matches!(refused, Error::Unprotected(SmbCommand::Create)), "{refused}"),
        }
    }
}

#[tokio::test]
async fn a_session_whose_time_is_over_is_renewed_and_what_was_refused_is_sent_again() {
    let (tree, mut server, mut peer) = connected(Server::start().await).await;
    let both = [opening(&tree), opening(&tree)];
    let (one, other) = (peer.next_of(SmbCommand::Create).await, peer.next_of(SmbCommand::Create).await);
    peer.refuse(&one, NtStatus::NETWORK_SESSION_EXPIRED).await;
    peer.refuse(&other, NtStatus::NETWORK_SESSION_EXPIRED).await;
    server.renew(&mut peer).await;
    for _ in &both {
        let again = peer.next_of(SmbCommand::Create).await;
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
    let request = peer.next_of(SmbCommand::Create).await;
    peer.pend_unsigned(&request).await;
    peer.accept(&request, opened).await;
    opening.await.unwrap().unwrap();
}

/// Tickets of which none is asked for.
#[derive(Debug)]
struct NoTickets;

impl auth::Tickets for NoTickets {
    fn context(&self, _: &str) -> Result<Box<dyn auth::TicketContext>, auth::TicketFailure> {
        panic!("a ticket for a server that does not take one")
    }
}

#[tokio::test]
async fn the_reason_for_no_log_on_is_the_servers_offer() {
    let tickets = || Credentials::of_tickets(Arc::new(NoTickets));
    for (offered, who, kind) in [
        (spnego::NTLMSSP, tickets(), auth::TicketFailureKind::NotOffered),
        (spnego::KERBEROS, Credentials::new(USER.0, USER.1), auth::TicketFailureKind::Required),
    ] {
        let mech_list = &spnego::mech_list(&[offered]);
        let hint = NegTokenInit { mechs: Vec::new(), mech_list, mech_token: None }.encode();
        let mut server = server(|it| it.hint = hint).await;
        let address = server.address;
        let accepted = tokio::spawn(async move { server.accept().await });
        let connection = Connection::connect(address, "peer", &Options::default()).await.unwrap();
        let mut peer = accepted.await.unwrap();
        let refused = Session::log_on(&connection, &who, false).await.unwrap_err();
        let Error::LogOn(auth::Refusal::NoTicket(why)) = &refused else { panic!("{refused}") };
        assert_eq!(why.kind, kind, "{why}");
        assert!(why.why.contains("Kerberos") && why.why.contains("--kerberos"), "{why}");
        drop(connection);
        peer.is_closed().await;
    }
}

#[tokio::test]
async fn a_listing_that_does_not_go_on_is_given_up() {
    let mut again = Vec::new();
    let name = utf16::encode("name");
    Listing::new(&mut again, DirectoryClass::IdBothDirectory, 4096)
        .push(&ListingEntry::default(), EntryName::Wire(Utf16::new(&name).unwrap()))
        .unwrap();
    // Nothing for ever, and the same for ever.
    for listing in [Vec::new(), again] {
        let (tree, _server, mut peer) = connected(Server::start().await).await;
        let opening = opening(&tree);
        let request = peer.next_of(SmbCommand::Create).await;
        peer.accept(&request, opened).await;
        let file = opening.await.unwrap().unwrap();
        let answering = tokio::spawn(async move {
            loop {
                let request = peer.next_of(SmbCommand::QueryDirectory).await;
                let response = query_directory::Response { output_buffer: &listing };
                peer.accept(&request, |out| response.write(out)).await;
            }
        });
        let listed = tokio::time::timeout(Duration::from_secs(20), file.list("*")).await.expect("an end");
        assert!(matches!(listed, Err(Error::Protocol(_))), "{listed:?}");
        answering.abort();
    }
}
