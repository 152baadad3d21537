//! An SMB client with a blocking socket that can log on, open a file, read and write it, and nothing else.
//!
//! It serves to measure servers. Requests can be prepared and sent in one piece, and the client does nothing
//! on its own. The client for ordinary use is in the crate `client`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use auth::{
    ClientIdentity, GmacNonce, Initiator, InitiatorStep, NtHash, Signer, SigningAlgorithm, Wrap, preauth_hash,
};
use smb::keys::{self, Protection};
use smb_wire::create::{self, Access, CreateOptions, Disposition, ImpersonationLevel, ShareAccess};
use smb_wire::header::Flags;
use smb_wire::negotiate::{
    self, Capabilities, Context, Contexts, Dialect, HashAlgorithm, SecurityMode, context,
};
use smb_wire::session_setup::{self, RequestFlags};
use smb_wire::{
    FileId, Guid, Header, NtStatus, SmbCommand, Utf16, WireList, create_context, read, tree_connect, utf16,
    write,
};
use wire::Now;

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client that has logged on and connected to a share, in dialect 3.1.1 with AES-GMAC.
pub struct RawClient {
    stream: TcpStream,
    next_id: u64,
    session_id: u64,
    tree_id: u32,
    signer: Signer,
    /// Whether requests are signed. If not, a server that does not require signing does not sign its answers
    /// either.
    pub signs: bool,
}

/// The identity of a client.
#[derive(Debug, Clone, Copy)]
pub struct RawClientIdentity<'a> {
    /// The user.
    pub user: &'a str,
    /// The password.
    pub password: &'a str,
    /// The ClientGuid.
    pub guid: Guid,
    /// Whether every request must be signed.
    pub signs: bool,
}

impl RawClient {
    /// Connects, logs on and connects to `share`.
    ///
    /// # Errors
    /// Errors of the socket, and [`io::ErrorKind::InvalidData`] if the server refuses the log-on.
    pub fn log_on(
        address: SocketAddr,
        identity: &RawClientIdentity<'_>,
        share: &str,
    ) -> io::Result<RawClient> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let signer = Signer::new(SigningAlgorithm::AesGmac, &[0; 16]);
        let mut client =
            RawClient { stream, next_id: 0, session_id: 0, tree_id: 0, signer, signs: identity.signs };
        let preauth = client.negotiate(identity)?;
        client.set_up_session(identity, preauth)?;
        client.connect_tree(share)?;
        Ok(client)
    }

    fn negotiate(&mut self, identity: &RawClientIdentity<'_>) -> io::Result<[u8; 64]> {
        let hashes = [HashAlgorithm::Sha512];
        let signing = [context::SigningAlgorithm::new(SigningAlgorithm::AesGmac as u16)];
        let contexts = [
            Context::PreauthIntegrity { hash_algorithms: WireList::Values(&hashes), salt: &[1; 32] },
            Context::Signing(WireList::Values(&signing)),
        ];
        let request = self.message(SmbCommand::Negotiate, |out| {
            negotiate::Request {
                security_mode: security_mode(identity),
                capabilities: Capabilities::LARGE_MTU,
                client_guid: identity.guid,
                dialects: WireList::Values(&[Dialect::Smb311]),
                contexts: Contexts::Values(&contexts),
            }
            .write(out);
        });
        self.send(&request)?;
        let answer = self.receive()?;
        expect(&answer, NtStatus::SUCCESS)?;
        Ok(preauth_hash(&preauth_hash(&[0; 64], &request), &answer))
    }

    fn set_up_session(&mut self, identity: &RawClientIdentity<'_>, mut preauth: [u8; 64]) -> io::Result<()> {
        let hash = NtHash::from_password(identity.password);
        let mut initiator =
            Initiator::new(ClientIdentity::new(identity.user, "", hash, "cifs/server"), Wrap::Spnego);
        let mut token = initiator.first();
        loop {
            let request = self.message(SmbCommand::SessionSetup, |out| {
                session_setup::Request {
                    flags: RequestFlags::empty(),
                    security_mode: security_mode(identity),
                    capabilities: Capabilities::empty(),
                    previous_session_id: 0,
                    security_buffer: &token,
                }
                .write(out);
            });
            self.send(&request)?;
            preauth = preauth_hash(&preauth, &request);
            let answer = self.receive()?;
            let header = *Header::parse(&answer).map_err(invalid)?;
            self.session_id = header.session_id();
            if header.status() == NtStatus::SUCCESS {
                let protection =
                    Protection { dialect: Dialect::Smb311, signing: SigningAlgorithm::AesGmac, cipher: None };
                let key = initiator.session_key().ok_or_else(|| invalid("no session key"))?;
                self.signer = keys::signer(protection, key, &preauth);
                return Ok(());
            }
            expect(&answer, NtStatus::MORE_PROCESSING_REQUIRED)?;
            preauth = preauth_hash(&preauth, &answer);
            let response = session_setup::Response::parse(&answer).map_err(invalid)?;
            token = match initiator.step(response.security_buffer, wall_clock()) {
                InitiatorStep::Continue(token) => token,
                other => return Err(invalid(format!("{other:?}"))),
            };
        }
    }

    fn connect_tree(&mut self, share: &str) -> io::Result<()> {
        let path = utf16::encode(&format!("\\\\server\\{share}"));
        let mut request = self.message(SmbCommand::TreeConnect, |out| {
            tree_connect::Request::new(Utf16::new(&path).unwrap_or_default()).write(out);
        });
        // MS-SMB2 3.2.4.2.4: this request is always signed.
        self.sign(&mut request);
        self.send(&request)?;
        let answer = self.receive()?;
        expect(&answer, NtStatus::SUCCESS)?;
        self.tree_id = Header::parse(&answer).map_err(invalid)?.tree_id();
        Ok(())
    }

    /// Opens a file with the given rights, which others may read and write too.
    ///
    /// # Errors
    /// As [`RawClient::log_on`].
    pub fn open(&mut self, name: &str, access: Access) -> io::Result<FileId> {
        let name = utf16::encode(name);
        let request = self.message(SmbCommand::Create, |out| {
            create::Request {
                requested_oplock_level: create::OplockLevel::None,
                impersonation_level: ImpersonationLevel::Impersonation,
                desired_access: access,
                file_attributes: 0,
                share_access: ShareAccess::READ | ShareAccess::WRITE,
                create_disposition: Disposition::Open,
                create_options: CreateOptions::NON_DIRECTORY_FILE,
                name: Utf16::new(&name).unwrap_or_default(),
                contexts: create_context::Contexts::EMPTY,
            }
            .write(out);
        });
        self.send(&request)?;
        let answer = self.receive()?;
        expect(&answer, NtStatus::SUCCESS)?;
        Ok(create::Response::parse(&answer).map_err(invalid)?.file_id)
    }

    /// Appends one READ with the transport's prefix to `batch`.
    pub fn push_read(&mut self, batch: &mut Vec<u8>, file_id: FileId, offset: u64, length: u32) {
        let request = self.costly_message(SmbCommand::Read, length, |out| {
            read::Request::new(file_id, offset, length).write(out)
        });
        push_record(batch, &request);
    }

    /// Appends one WRITE with the transport's prefix to `batch`.
    pub fn push_write(&mut self, batch: &mut Vec<u8>, file_id: FileId, offset: u64, data: &[u8]) {
        let request = self.costly_message(SmbCommand::Write, data.len() as u32, |out| {
            write::Request::new(file_id, offset, data).write(out);
        });
        push_record(batch, &request);
    }

    /// Sends a prepared batch.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn send_batch(&mut self, batch: &[u8]) -> io::Result<()> {
        self.stream.write_all(batch)
    }

    /// Fills `answers` with received bytes, without examining them.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn receive_into(&mut self, answers: &mut [u8]) -> io::Result<()> {
        self.stream.read_exact(answers)
    }

    /// Checks the signature of a message from the server, in place.
    #[must_use]
    pub fn is_signed_well(&self, message: &mut [u8]) -> bool {
        let Ok(header) = Header::parse_mut(message) else { return false };
        let (signature, id, is_signed) = (*header.signature(), header.message_id(), header.is_signed());
        header.set_signature([0; 16]);
        is_signed && self.signer.verify(message, GmacNonce::response(id), &signature).is_ok()
    }

    /// A message with the next id, signed if the session signs.
    fn message(&mut self, command: SmbCommand, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        self.costly_message(command, 0, body)
    }

    /// Like [`RawClient::message`], with the credits and ids for `payload` bytes (MS-SMB2 3.2.4.1.5).
    fn costly_message(
        &mut self,
        command: SmbCommand,
        payload: u32,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Vec<u8> {
        let charge = payload.div_ceil(1 << 16).max(1) as u16;
        let mut header = Header::request(command, self.next_id);
        self.next_id += u64::from(charge);
        header.set_credit_charge(charge);
        // It requests many credits at first, and then as many as it uses.
        header.set_credits(if self.tree_id == 0 { 128 } else { charge });
        header.set_session_id(self.session_id);
        header.set_tree_id(self.tree_id);
        let mut message = Vec::new();
        header.push(&mut message);
        body(&mut message);
        if self.signs && self.tree_id != 0 {
            self.sign(&mut message);
        }
        message
    }

    fn sign(&self, message: &mut [u8]) {
        let Ok(header) = Header::parse_mut(message) else { return };
        header.set_flags(header.flags() | Flags::SIGNED);
        let id = header.message_id();
        let signature = self.signer.sign(message, GmacNonce::request(id, false));
        if let Ok(header) = Header::parse_mut(message) {
            header.set_signature(signature);
        }
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut record = Vec::new();
        push_record(&mut record, message);
        self.stream.write_all(&record)
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix)?;
        let mut message = vec![0; u32::from_be_bytes(prefix) as usize];
        self.stream.read_exact(&mut message)?;
        Ok(message)
    }
}

/// Appends a message with the transport's prefix.
fn push_record(batch: &mut Vec<u8>, message: &[u8]) {
    batch.extend_from_slice(&(message.len() as u32).to_be_bytes());
    batch.extend_from_slice(message);
}

fn security_mode(identity: &RawClientIdentity<'_>) -> SecurityMode {
    match identity.signs {
        true => SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
        false => SecurityMode::SIGNING_ENABLED,
    }
}

fn expect(message: &[u8], status: NtStatus) -> io::Result<()> {
    let answered = Header::parse(message).map_err(invalid)?.status();
    if answered == status { Ok(()) } else { Err(invalid(answered)) }
}

fn invalid(why: impl std::fmt::Debug) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{why:?}"))
}

fn wall_clock() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { mono_ns: 0, wall_ns: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX) }
}
