//! The client against a peer that answers by a script: out of order, late, short of credits, wrongly.

use std::collections::VecDeque;
use std::time::Duration;

use client::Error;
use client::smb::{Connection, Credentials, Options, Session};
use smb_wire::header::Chain;
use smb_wire::negotiate::{
    self, Capabilities, Context, Contexts, Dialect, HashAlgorithm, Response, SecurityMode,
};
use smb_wire::{Guid, Header, NtStatus, SmbCommand, WireList, echo, error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The server's end of a connection.
struct RawPeer {
    stream: TcpStream,
    /// Requests that have come and not been looked at.
    requests: VecDeque<Header>,
}

/// A connection that has been negotiated, with `credits` granted by the answer to NEGOTIATE.
async fn connected(credits: u16, stock: u16) -> (Connection, RawPeer) {
    connected_by(credits, Options { credits: stock, ..Options::default() }).await
}

/// The same with these options.
async fn connected_by(credits: u16, options: Options) -> (Connection, RawPeer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let peer = tokio::spawn(async move {
        let mut peer = RawPeer { stream: listener.accept().await.unwrap().0, requests: VecDeque::new() };
        let request = peer.next().await;
        assert_eq!((request.command(), request.message_id()), (SmbCommand::Negotiate, 0));
        peer.send(&negotiated(&request, credits)).await;
        peer
    });
    let connection = Connection::connect(address, "peer", &options).await.unwrap();
    (connection, peer.await.unwrap())
}

fn negotiated(request: &Header, credits: u16) -> Vec<u8> {
    let contexts = [Context::PreauthIntegrity {
        hash_algorithms: WireList::Values(&[HashAlgorithm::Sha512]),
        salt: &[1],
    }];
    let mut message = Vec::new();
    let mut header = Header::response_to(request, NtStatus::SUCCESS);
    header.set_credits(credits);
    header.push(&mut message);
    Response {
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialect_revision: Dialect::Smb311,
        server_guid: Guid::ZERO,
        capabilities: Capabilities::LARGE_MTU,
        max_transact_size: 1 << 20,
        max_read_size: 1 << 20,
        max_write_size: 1 << 20,
        system_time: 0,
        server_start_time: 0,
        security_buffer: &[],
        contexts: Contexts::Values(&contexts),
    }
    .write(&mut message);
    message
}

fn echoed(request: &Header, credits: u16) -> Vec<u8> {
    let mut message = Vec::new();
    let mut header = Header::response_to(request, NtStatus::SUCCESS);
    header.set_credits(credits);
    header.push(&mut message);
    echo::Response.write(&mut message);
    message
}

fn refused(request: &Header, status: NtStatus, async_id: Option<u64>, credits: u16) -> Vec<u8> {
    let mut message = Vec::new();
    let mut header = Header::response_to(request, status);
    header.set_credits(credits);
    if let Some(id) = async_id {
        header.set_async_id(id);
    }
    header.push(&mut message);
    error::Response::default().write(&mut message);
    message
}

impl RawPeer {
    /// The next request.
    async fn next(&mut self) -> Header {
        while self.requests.is_empty() {
            let length = self.stream.read_u32().await.unwrap() as usize;
            let mut frame = vec![0; length];
            self.stream.read_exact(&mut frame).await.unwrap();
            self.requests.extend(Chain::new(&frame).map(|it| *it.unwrap().0));
        }
        self.requests.pop_front().unwrap()
    }

    async fn send(&mut self, message: &[u8]) {
        let mut frame = (message.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(message);
        self.stream.write_all(&frame).await.unwrap();
    }

    /// Whether nothing comes although the client has had every chance to send.
    async fn is_quiet(&mut self) -> bool {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        self.requests.is_empty() && self.stream.try_read(&mut [0]).is_err()
    }
}

fn echo_task(connection: &Connection) -> tokio::task::JoinHandle<client::Result<()>> {
    let connection = connection.clone();
    tokio::spawn(async move { connection.echo().await })
}

#[tokio::test]
async fn requests_are_pipelined_and_their_answers_may_come_in_any_order() {
    let (connection, mut peer) = connected(64, 64).await;
    let tasks: Vec<_> = (0..32).map(|_| echo_task(&connection)).collect();
    let mut requests = Vec::new();
    for expected in 1..=32 {
        let request = peer.next().await;
        assert_eq!((request.message_id(), request.credit_charge()), (expected, 1));
        requests.push(request);
    }
    // The odd ones fail, so that an answer that reaches the wrong request shows.
    let mut all = Vec::new();
    for request in requests.iter().rev() {
        let message = match request.message_id() % 2 {
            0 => echoed(request, 1),
            _ => refused(request, NtStatus::ACCESS_DENIED, None, 1),
        };
        all.extend_from_slice(&(message.len() as u32).to_be_bytes());
        all.extend_from_slice(&message);
    }
    // In pieces that respect no boundary.
    for piece in all.chunks(37) {
        peer.stream.write_all(piece).await.unwrap();
        tokio::task::yield_now().await;
    }
    for (at, task) in tasks.into_iter().enumerate() {
        let answered = task.await.unwrap();
        let expected = if at % 2 == 0 { Some(NtStatus::ACCESS_DENIED) } else { None };
        assert_eq!(answered.err().and_then(|error| error.status()), expected, "{at}");
    }
}

#[tokio::test]
async fn no_request_is_sent_without_a_credit() {
    let (connection, mut peer) = connected(2, 16).await;
    let tasks: Vec<_> = (0..5).map(|_| echo_task(&connection)).collect();
    let (first, second) = (peer.next().await, peer.next().await);
    assert!(first.credits() >= 14, "asks for what is missing: {}", first.credits());
    assert!(peer.is_quiet().await, "there were two credits");
    peer.send(&echoed(&first, 0)).await;
    assert!(peer.is_quiet().await, "nothing was granted");
    // An interim answer grants credits and leaves its request under way.
    peer.send(&refused(&second, NtStatus::PENDING, Some(77), 2)).await;
    let (third, fourth) = (peer.next().await, peer.next().await);
    assert_eq!((third.message_id(), fourth.message_id()), (3, 4));
    assert!(peer.is_quiet().await);
    peer.send(&refused(&second, NtStatus::CANCELLED, Some(77), 0)).await;
    peer.send(&echoed(&third, 1)).await;
    let fifth = peer.next().await;
    peer.send(&echoed(&fourth, 1)).await;
    peer.send(&echoed(&fifth, 1)).await;
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(task.await.unwrap().err().and_then(|error| error.status()));
    }
    assert_eq!(statuses, [None, Some(NtStatus::CANCELLED), None, None, None]);
}

#[tokio::test]
async fn a_server_that_leaves_no_credit_is_an_error_and_not_a_hang() {
    let (connection, mut peer) = connected(1, 16).await;
    let (first, second) = (echo_task(&connection), echo_task(&connection));
    let request = peer.next().await;
    peer.send(&echoed(&request, 0)).await;
    first.await.unwrap().unwrap();
    assert!(matches!(second.await.unwrap(), Err(Error::Credits { needed: 1, granted: 0 })));
}

#[tokio::test]
async fn an_answer_to_a_dropped_request_gives_its_credit_back() {
    let (connection, mut peer) = connected(1, 1).await;
    let task = echo_task(&connection);
    let request = peer.next().await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let next = echo_task(&connection);
    assert!(peer.is_quiet().await);
    peer.send(&echoed(&request, 1)).await;
    let request = peer.next().await;
    assert_eq!(request.message_id(), 2);
    peer.send(&echoed(&request, 1)).await;
    next.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_end_of_the_connection_ends_every_request() {
    let (connection, mut peer) = connected(1, 16).await;
    let tasks: Vec<_> = (0..3).map(|_| echo_task(&connection)).collect();
    peer.next().await;
    drop(peer);
    for task in tasks {
        assert!(matches!(task.await.unwrap(), Err(Error::Closed | Error::Io(_))));
    }
    assert!(connection.echo().await.is_err());
}

#[tokio::test]
async fn a_peer_that_breaks_the_protocol_loses_the_connection() {
    let break_it: [fn(&Header) -> Vec<u8>; 5] = [
        |_| b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        |request| echoed(request, 1)[..30].to_vec(),
        |request| {
            let mut header = *request;
            header.set_credits(1);
            let mut message = Vec::new();
            header.push(&mut message);
            echo::Response.write(&mut message);
            message
        },
        |request| {
            let mut other = Header::request(SmbCommand::Read, request.message_id());
            other.set_credits(1);
            refused(&other, NtStatus::ACCESS_DENIED, None, 1)
        },
        |request| {
            let mut message = echoed(request, 1);
            message[20] = 7;
            message
        },
    ];
    for (at, broken) in break_it.into_iter().enumerate() {
        let (connection, mut peer) = connected(8, 8).await;
        let task = echo_task(&connection);
        let request = peer.next().await;
        peer.send(&broken(&request)).await;
        let answered = tokio::time::timeout(Duration::from_secs(20), task).await.expect("an end").unwrap();
        assert!(matches!(answered, Err(Error::Protocol(_) | Error::Malformed(_))), "{at}: {answered:?}");
    }
}

#[tokio::test]
async fn a_dialect_that_was_not_offered_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let peer = tokio::spawn(async move {
        let mut peer = RawPeer { stream: listener.accept().await.unwrap().0, requests: VecDeque::new() };
        let request = peer.next().await;
        peer.send(&negotiated(&request, 1)).await;
        peer
    });
    let options = Options { dialects: vec![negotiate::Dialect::Smb302], ..Options::default() };
    let refused = Connection::connect(address, "peer", &options).await.unwrap_err();
    assert!(matches!(refused, Error::Protocol(_)), "{refused}");
    peer.await.unwrap();
}

#[tokio::test]
async fn a_server_that_says_nothing_loses_the_connection() {
    let options = Options { silence: Duration::from_millis(200), ..Options::default() };
    let (connection, mut peer) = connected_by(8, options).await;
    let task = echo_task(&connection);
    peer.next().await;
    assert_eq!(peer.next().await.command(), SmbCommand::Echo, "it is asked before it is given up");
    let error =
        tokio::time::timeout(Duration::from_secs(20), task).await.expect("an end").unwrap().unwrap_err();
    assert!(error.is_loss() && error.to_string().contains("nothing for 200ms"), "{error}");
    assert!(connection.echo().await.unwrap_err().is_loss());
}

#[tokio::test]
async fn a_request_may_take_longer_than_silence_where_the_server_says_that_it_is_there() {
    let options = Options { silence: Duration::from_millis(800), ..Options::default() };
    let (connection, mut peer) = connected_by(8, options).await;
    let task = echo_task(&connection);
    let waiting = peer.next().await;
    peer.send(&refused(&waiting, NtStatus::PENDING, Some(77), 1)).await;
    for _ in 0..3 {
        // Sent when half of the time is over.
        let asked = peer.next().await;
        assert_eq!(asked.command(), SmbCommand::Echo);
        peer.send(&echoed(&asked, 1)).await;
    }
    peer.send(&echoed(&waiting, 1)).await;
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn nothing_is_asked_of_a_server_from_which_nothing_is_awaited() {
    let options = Options { silence: Duration::from_millis(40), ..Options::default() };
    let (connection, mut peer) = connected_by(8, options).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(peer.is_quiet().await);
    let task = echo_task(&connection);
    let request = peer.next().await;
    peer.send(&echoed(&request, 1)).await;
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_login_that_is_not_answered_ends() {
    let options = Options { connect_timeout: Duration::from_millis(500), ..Options::default() };
    let (connection, _peer) = connected_by(8, options).await;
    let alice = Credentials::new("alice", "password");
    let logging_on = Session::log_on(&connection, &alice, false);
    let error = tokio::time::timeout(Duration::from_secs(20), logging_on).await.expect("an end").unwrap_err();
    assert!(error.to_string().starts_with("SESSION_SETUP was not answered within 500ms"), "{error}");
}

/// Tickets of a KDC that is silent until the test lets it go.
#[derive(Debug)]
struct SilentKdc(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl auth::Tickets for SilentKdc {
    fn context(&self, _: &str) -> Result<Box<dyn auth::TicketContext>, auth::TicketFailure> {
        let _ = self.0.lock().unwrap().recv();
        Err(auth::TicketFailure { kind: auth::TicketFailureKind::Other, why: "let go".to_owned() })
    }
}

#[tokio::test]
async fn a_silent_kdc_is_no_silence_of_the_server() {
    let options = Options { connect_timeout: Duration::from_millis(50), ..Options::default() };
    let (connection, mut peer) = connected_by(8, options).await;
    let (release, held) = std::sync::mpsc::channel();
    let tickets = Credentials::of_tickets(std::sync::Arc::new(SilentKdc(held.into())));
    let failed = Session::log_on(&connection, &tickets, false).await.unwrap_err();
    let Error::LogOn(auth::Refusal::NoTicket(why)) = &failed else { panic!("{failed}") };
    assert_eq!(why.kind, auth::TicketFailureKind::NoKdc);
    assert!(why.why.contains("KDC") && why.why.contains("krb5.conf"), "{why}");
    assert!(peer.is_quiet().await, "nothing was asked of the server");
    drop(release);
}
