//! The server's end of the connections of one session, played by a test. It logs the client on, binds further
//! connections, and sends the answers of the test.
// Each test file uses its own part of this.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::{
    Acceptor, Account, Accounts, Config, GmacNonce, Names, NtHash, Signer, SigningAlgorithm, Step, kdf,
    preauth_hash,
};
use smb_wire::header::Flags;
use smb_wire::negotiate::{self, Capabilities, Context, Contexts, Dialect, HashAlgorithm, SecurityMode};
use smb_wire::session_setup::{self, RequestFlags, SessionFlags};
use smb_wire::tree_connect::{self, ShareType};
use smb_wire::{Guid, Header, NtStatus, SmbCommand, WireList, create, echo, error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use testkit::samba::USER;

/// The IDs of the session and the trees.
pub const SESSION: u64 = 0x7700_1234;
pub const TREE: u32 = 5;

/// A server that waits for the connections of one client.
pub struct Server {
    listener: TcpListener,
    pub address: SocketAddr,
    /// The ClientGuid that every connection must send in NEGOTIATE, once one has sent it.
    client: Option<Guid>,
    /// Session.SigningKey, once the client has logged on.
    session_key: Option<Arc<Signer>>,
    /// The ServerGuid.
    pub guid: Guid,
    /// The dialect that it chooses, its capabilities and its token.
    pub dialect: Dialect,
    pub capabilities: Capabilities,
    pub hint: Vec<u8>,
    /// The credits of each answer.
    pub grants: u16,
}

/// A message with its header in front.
pub type MessageBytes = Vec<u8>;

/// One connection.
pub struct ChannelPeer {
    stream: TcpStream,
    requests: VecDeque<MessageBytes>,
    /// The hash over NEGOTIATE and SESSION_SETUP.
    preauth: [u8; 64],
    /// The channel's signing key, once there is one.
    key: Option<Arc<Signer>>,
    dialect: Dialect,
    pub grants: u16,
}

/// The purpose of a SESSION_SETUP.
enum Setup {
    New,
    Bind,
    /// The session has expired.
    Renew,
}

impl Server {
    pub async fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Server {
            listener,
            address,
            client: None,
            session_key: None,
            guid: Guid([7; 16]),
            dialect: Dialect::Smb311,
            capabilities: Capabilities::LARGE_MTU | Capabilities::MULTI_CHANNEL,
            hint: Vec::new(),
            grants: 64,
        }
    }

    /// Accepts the next connection and sends nothing.
    pub async fn accept_silently(&mut self) -> ChannelPeer {
        let accepted = tokio::time::timeout(Duration::from_secs(20), self.listener.accept()).await;
        let stream = accepted.expect("a connection").unwrap().0;
        let (dialect, grants) = (self.dialect, self.grants);
        ChannelPeer { stream, requests: VecDeque::new(), preauth: [0; 64], key: None, dialect, grants }
    }

    /// Accepts the next connection and negotiates, by default 3.1.1 with several channels, signed by
    /// AES-CMAC.
    pub async fn accept(&mut self) -> ChannelPeer {
        let mut peer = self.accept_silently().await;
        let message = peer.next().await;
        let request = negotiate::Request::parse(&message).unwrap();
        assert!(request.capabilities.contains(Capabilities::MULTI_CHANNEL));
        // MS-SMB2 3.3.5.5
        assert_eq!(*self.client.get_or_insert(request.client_guid), request.client_guid, "one client");
        peer.preauth = preauth_hash(&peer.preauth, &message);
        let hashes = Context::PreauthIntegrity {
            hash_algorithms: WireList::Values(&[HashAlgorithm::Sha512]),
            salt: &[1],
        };
        let response = negotiate::Response {
            security_mode: SecurityMode::SIGNING_ENABLED,
            dialect_revision: self.dialect,
            server_guid: self.guid,
            capabilities: self.capabilities,
            max_transact_size: 1 << 20,
            max_read_size: 1 << 20,
            max_write_size: 1 << 20,
            system_time: 0,
            server_start_time: 0,
            security_buffer: &self.hint,
            contexts: if self.dialect == Dialect::Smb311 {
                Contexts::Values(&[hashes])
            } else {
                Contexts::EMPTY
            },
        };
        let answer = peer.answer(&message, NtStatus::SUCCESS, |out| response.write(out));
        peer.preauth = preauth_hash(&peer.preauth, &answer);
        peer.send(answer).await;
        peer
    }

    /// Logs the client on over `peer`.
    pub async fn log_on(&mut self, peer: &mut ChannelPeer) {
        let key = peer.set_up_session(Setup::New, &Signer::new(SigningAlgorithm::AesCmac, &[0; 16])).await;
        self.session_key = Some(Arc::clone(&key));
        peer.key = Some(key);
    }

    /// Binds the session to `peer`, and checks the requests of the binding.
    pub async fn bind(&mut self, peer: &mut ChannelPeer) {
        let session_key = self.session_key.clone().expect("there is a session");
        peer.key = Some(peer.set_up_session(Setup::Bind, &session_key).await);
    }

    /// Lets the client authenticate again, which changes no key.
    pub async fn renew(&mut self, peer: &mut ChannelPeer) {
        let session_key = self.session_key.clone().expect("there is a session");
        peer.set_up_session(Setup::Renew, &session_key).await;
    }

    /// Refuses to bind the session to `peer`.
    pub async fn refuse(&mut self, peer: &mut ChannelPeer, status: NtStatus) {
        let message = peer.next().await;
        peer.refuse(&message, status).await;
    }
}

impl ChannelPeer {
    /// Does two round trips of SESSION_SETUP: for a new session, or for the present one with requests signed
    /// by `signer`. Returns the key of the channel, which signs the last answer.
    async fn set_up_session(&mut self, what: Setup, signer: &Signer) -> Arc<Signer> {
        let named = |name: &str| name.to_owned();
        let mut acceptor = Acceptor::new(&Config::new(Names {
            netbios_computer: named("PEER"),
            netbios_domain: named("PEER"),
            dns_computer: named("peer"),
            dns_domain: String::new(),
        }));
        let mut accounts = Accounts::default();
        let (name, nt_hash) = (USER.0.to_owned(), NtHash::from_password(USER.1));
        accounts.insert(Account { name, nt_hash, second_hash: None, restriction: None });
        let (is_new, must_bind) = (matches!(what, Setup::New), matches!(what, Setup::Bind));
        let mut expected = if is_new { 0 } else { SESSION };
        loop {
            let message = self.next().await;
            let request = session_setup::Request::parse(&message).unwrap();
            let header = *Header::parse(&message).unwrap();
            let binds = request.flags.contains(RequestFlags::BINDING);
            assert_eq!((header.session_id(), binds), (expected, must_bind));
            assert_eq!(request.previous_session_id, 0);
            // MS-SMB2 3.2.4.1.1
            assert_eq!(header.is_signed(), !is_new);
            if !is_new {
                verify(signer, &message);
            }
            self.preauth = preauth_hash(&self.preauth, &message);
            let token = request.security_buffer;
            let (status, token, key) = match acceptor.step(token, &accounts, wire::Now::default()) {
                Step::Continue(token) => (NtStatus::MORE_PROCESSING_REQUIRED, token, None),
                Step::Done { reply, login } => (NtStatus::SUCCESS, reply, Some(login.session_key)),
                Step::Refused(why) => panic!("{why}"),
            };
            let session_flags = SessionFlags::empty();
            let response = session_setup::Response { session_flags, security_buffer: &token };
            let mut answer = self.answer(&message, status, |out| response.write(out));
            Header::parse_mut(&mut answer).unwrap().set_session_id(SESSION);
            let Some(key) = key else {
                expected = SESSION;
                self.preauth = preauth_hash(&self.preauth, &answer);
                self.send(answer).await;
                continue;
            };
            // MS-SMB2 3.2.5.3.3
            let key = match self.dialect {
                Dialect::Smb311 => kdf(&key[..], b"SMBSigningKey\0", &self.preauth),
                _ => kdf(&key[..], b"SMB2AESCMAC\0", b"SmbSign\0"),
            };
            let key = match what {
                Setup::Renew => self.key.clone().expect("a channel"),
                _ => Arc::new(Signer::new(SigningAlgorithm::AesCmac, &key)),
            };
            sign(&key, &mut answer);
            self.send(answer).await;
            return key;
        }
    }

    /// Lets the client connect a share.
    pub async fn connect_tree(&mut self) {
        let message = self.next_of(SmbCommand::TreeConnect).await;
        let response = tree_connect::Response {
            share_type: ShareType::Disk,
            share_flags: tree_connect::ShareFlags::empty(),
            capabilities: tree_connect::ShareCapabilities::empty(),
            maximal_access: create::Access::all(),
        };
        let mut answer = self.answer(&message, NtStatus::SUCCESS, |out| response.write(out));
        Header::parse_mut(&mut answer).unwrap().set_tree_id(TREE);
        self.send_signed(answer).await;
    }

    /// The next request, which must be a `command` in the session, signed with this channel's own key.
    pub async fn next_of(&mut self, command: SmbCommand) -> MessageBytes {
        let message = self.next().await;
        let header = Header::parse(&message).unwrap();
        assert_eq!((header.command(), header.session_id()), (command, SESSION));
        assert!(header.is_signed());
        verify(self.key.as_ref().expect("a channel"), &message);
        message
    }

    /// The next request.
    pub async fn next(&mut self) -> MessageBytes {
        while self.requests.is_empty() {
            let frame = tokio::time::timeout(Duration::from_secs(20), self.frame()).await;
            self.split(&frame.expect("a request"));
        }
        self.requests.pop_front().unwrap()
    }

    /// The next request, or none when the client has closed the connection.
    pub async fn next_if_any(&mut self) -> Option<MessageBytes> {
        if self.requests.is_empty() && self.stream.peek(&mut [0]).await.ok()? == 0 {
            return None;
        }
        Some(self.next().await)
    }

    /// Answers an ECHO.
    pub async fn echo(&mut self, request: &[u8]) {
        let answer = self.answer(request, NtStatus::SUCCESS, |out| echo::Response.write(out));
        self.send(answer).await;
    }

    async fn frame(&mut self) -> Vec<u8> {
        let length = self.stream.read_u32().await.unwrap() as usize;
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame).await.unwrap();
        frame
    }

    /// Waits until the client has closed the connection, whatever it sends before.
    pub async fn is_closed(&mut self) {
        let mut rest = Vec::new();
        // A reset is an end as well.
        let _ = self.stream.read_to_end(&mut rest).await;
    }

    /// Whether the client has not closed the connection, as far as is known by now.
    pub fn is_open(&self) -> bool {
        let read = self.stream.try_read(&mut [0]);
        read.is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock)
    }

    fn split(&mut self, mut frame: &[u8]) {
        loop {
            let next = Header::parse(frame).unwrap().next_command() as usize;
            let length = if next == 0 { frame.len() } else { next };
            self.requests.push_back(frame[..length].to_vec());
            frame = &frame[length..];
            if next == 0 {
                return;
            }
        }
    }

    /// Answers `request` with an error.
    pub async fn refuse(&mut self, request: &[u8], status: NtStatus) {
        let answer = self.answer(request, status, |out| error::Response::default().write(out));
        self.send_signed(answer).await;
    }

    /// Sends an interim answer, with a signature that is none.
    pub async fn pend_unsigned(&mut self, request: &[u8]) {
        let mut answer = self.answer(request, NtStatus::PENDING, |out| error::Response::default().write(out));
        let header = Header::parse_mut(&mut answer).unwrap();
        header.set_async_id(77);
        header.set_flags(header.flags() | Flags::SIGNED);
        self.send(answer).await;
    }

    /// Answers `request` with an error and no signature.
    pub async fn refuse_unsigned(&mut self, request: &[u8], status: NtStatus) {
        let answer = self.answer(request, status, |out| error::Response::default().write(out));
        self.send(answer).await;
    }

    /// Answers `request` with `body`.
    pub async fn accept(&mut self, request: &[u8], body: impl FnOnce(&mut Vec<u8>)) {
        self.send_signed(self.answer(request, NtStatus::SUCCESS, body)).await;
    }

    /// A response with credits.
    fn answer(&self, request: &[u8], status: NtStatus, body: impl FnOnce(&mut Vec<u8>)) -> MessageBytes {
        let mut header = Header::response_to(Header::parse(request).unwrap(), status);
        header.set_credits(self.grants);
        let mut message = Vec::new();
        header.push(&mut message);
        body(&mut message);
        message
    }

    async fn send_signed(&mut self, mut message: MessageBytes) {
        if let Some(key) = &self.key {
            sign(key, &mut message);
        }
        self.send(message).await;
    }

    async fn send(&mut self, message: MessageBytes) {
        let mut frame = (message.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&message);
        self.stream.write_all(&frame).await.unwrap();
    }
}

fn sign(key: &Signer, message: &mut [u8]) {
    let header = Header::parse_mut(message).unwrap();
    header.set_flags(header.flags() | Flags::SIGNED);
    let nonce = GmacNonce::response(header.message_id());
    let signature = key.sign(message, nonce);
    Header::parse_mut(message).unwrap().set_signature(signature);
}

fn verify(key: &Signer, message: &[u8]) {
    let mut message = message.to_vec();
    let header = Header::parse_mut(&mut message).unwrap();
    let (nonce, signature) = (GmacNonce::request(header.message_id(), false), *header.signature());
    header.set_signature([0; 16]);
    key.verify(&message, nonce, &signature).expect("the signature is that of the key");
}
