//! The client's side of the log-on and the tree connect, and the most frequent requests of tests.

use std::rc::Rc;

use auth::{Cipher, ClientIdentity, Initiator, InitiatorStep, NtHash, SigningAlgorithm, Wrap, preauth_hash};
use smb::keys::{self, Protection, Seal};
use smb_wire::create::{
    Access, CreateOptions, Disposition, ImpersonationLevel, OplockLevel, Request as Create, ShareAccess,
};
use smb_wire::create_context::Contexts as CreateContexts;
use smb_wire::negotiate::{
    self, Capabilities, Context, Contexts, Dialect, HashAlgorithm, SecurityMode, context,
};
use smb_wire::query_info::{self, InfoType};
use smb_wire::session_setup::{self, RequestFlags};
use smb_wire::{FileId, Guid, Header, NtStatus, SmbCommand, Utf16, WireList, set_info, tree_connect, utf16};

use super::peer::{Keys, Peer, ReceivedMessage, whole};

/// The user of the clients.
pub const USER: &str = "anna";

/// The settings with which a client negotiates and logs on.
#[derive(Debug, Clone)]
pub struct Dial {
    /// The offered dialect.
    pub dialect: Dialect,
    /// The signing algorithm.
    pub signing: SigningAlgorithm,
    /// The cipher, if it can encrypt.
    pub cipher: Option<Cipher>,
    /// The ClientGuid.
    pub guid: Guid,
    /// The user.
    pub user: String,
    /// The user's password.
    pub password: String,
    /// Whether all messages must be signed.
    pub requires_signing: bool,
    /// Whether all messages are encrypted.
    pub seals: bool,
    /// The previous session, which was lost, or 0.
    pub previous_session_id: u64,
    /// Whether it announces multichannel.
    pub announces_multichannel: bool,
    /// Whether it announces persistent handles.
    pub knows_persistent: bool,
    /// Whether it announces all capabilities.
    pub everything: bool,
    /// Whether it supports the POSIX extensions.
    pub posix: bool,
    /// Further negotiate contexts, each a type and data.
    pub contexts: Vec<(u16, Vec<u8>)>,
    /// The server name of the netname context.
    pub server_name: Option<String>,
    /// The service principal name of the log-on.
    pub target: String,
}

impl Default for Dial {
    fn default() -> Dial {
        Dial {
            dialect: Dialect::Smb311,
            signing: SigningAlgorithm::AesGmac,
            cipher: Some(Cipher::Aes128Gcm),
            guid: Guid(*b"the first client"),
            user: USER.into(),
            password: "s3cret".into(),
            requires_signing: true,
            seals: false,
            previous_session_id: 0,
            announces_multichannel: true,
            knows_persistent: true,
            everything: false,
            posix: false,
            contexts: Vec::new(),
            server_name: None,
            target: "cifs/server".into(),
        }
    }
}

impl Dial {
    /// The settings of another machine.
    pub fn elsewhere() -> Dial {
        Dial { guid: Guid(*b"a second machine"), ..Dial::default() }
    }

    /// Settings with the only signing algorithm and cipher of an older dialect. Since a client has one
    /// dialect, each dialect has its own ClientGuid.
    pub fn with(dialect: Dialect) -> Dial {
        let smb3 = dialect.is_smb3();
        let signing = if smb3 { SigningAlgorithm::AesCmac } else { SigningAlgorithm::HmacSha256 };
        let default = Dial::default();
        let mut guid = default.guid;
        if dialect != default.dialect {
            guid.0[..2].copy_from_slice(&dialect.get().to_le_bytes());
        }
        Dial { dialect, signing, cipher: smb3.then_some(Cipher::Aes128Ccm), guid, ..default }
    }

    /// The identity for the log-on. An empty user name is anonymous.
    pub fn identity(&self) -> ClientIdentity {
        match self.user.as_str() {
            "" => ClientIdentity::anonymous(&self.target),
            user => ClientIdentity::new(user, "", NtHash::from_password(&self.password), &self.target),
        }
    }

    /// The security mode.
    pub fn security_mode(&self) -> SecurityMode {
        match self.requires_signing {
            true => SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
            false => SecurityMode::SIGNING_ENABLED,
        }
    }

    /// The protection of the session's messages.
    pub fn protection(&self) -> Protection {
        Protection { dialect: self.dialect, signing: self.signing, cipher: self.cipher }
    }

    /// The announced capabilities.
    pub fn capabilities(&self) -> Capabilities {
        if self.everything {
            return Capabilities::all();
        }
        let is_smb3 = self.dialect.is_smb3();
        let mut capabilities = Capabilities::LARGE_MTU | Capabilities::LEASING;
        for (flag, is_set) in [
            (Capabilities::MULTI_CHANNEL, self.announces_multichannel && is_smb3),
            (Capabilities::PERSISTENT_HANDLES, self.knows_persistent && is_smb3),
            (Capabilities::ENCRYPTION, self.cipher.is_some()),
        ] {
            capabilities.set(flag, is_set);
        }
        capabilities
    }

    /// Writes the body of NEGOTIATE.
    pub fn write_negotiate(&self, out: &mut Vec<u8>) {
        let hashes = [HashAlgorithm::Sha512];
        let signing = [context::SigningAlgorithm::new(self.signing as u16)];
        let ciphers: Vec<_> = self.cipher.iter().map(|&it| context::Cipher::new(it as u16)).collect();
        let mut contexts = vec![
            Context::PreauthIntegrity { hash_algorithms: WireList::Values(&hashes), salt: &[7; 32] },
            Context::Signing(WireList::Values(&signing)),
        ];
        if !ciphers.is_empty() {
            contexts.push(Context::Encryption(WireList::Values(&ciphers)));
        }
        if self.posix {
            contexts.push(Context::Posix(&context::POSIX_GUID));
        }
        let further = self
            .contexts
            .iter()
            .map(|(context_type, data)| Context::Unknown { context_type: *context_type, data });
        contexts.extend(further);
        let name = self.server_name.as_deref().map(utf16::encode);
        contexts.extend(name.as_deref().and_then(Utf16::new).map(Context::Netname));
        negotiate::Request {
            security_mode: self.security_mode(),
            capabilities: self.capabilities(),
            client_guid: self.guid,
            dialects: WireList::Values(&[self.dialect]),
            contexts: Contexts::Values(&contexts),
        }
        .write(out);
    }
}

/// The preauthentication hash of 3.1.1 over the messages of a log-on.
pub struct Transcript(pub [u8; 64]);

impl Transcript {
    /// Adds a message.
    pub fn add(&mut self, message: &[u8]) {
        self.0 = preauth_hash(&self.0, message);
    }
}

impl Peer {
    /// Sends NEGOTIATE.
    pub fn negotiate(&mut self, dial: &Dial) -> ReceivedMessage {
        self.call(SmbCommand::Negotiate, |out| dial.write_negotiate(out))
    }

    /// Negotiates and logs on. It must succeed.
    pub fn log_on(&mut self, dial: &Dial) {
        let preauth = self.negotiate_hashed(dial);
        assert_eq!(self.set_up_session(dial, preauth), NtStatus::SUCCESS);
    }

    /// Negotiates, which must succeed, and returns the hash over it.
    pub fn negotiate_hashed(&mut self, dial: &Dial) -> [u8; 64] {
        let request = self.message(SmbCommand::Negotiate, |out| dial.write_negotiate(out));
        self.send(request.clone());
        let answer = self.next().expect("an answer to NEGOTIATE");
        assert_eq!(answer.status(), NtStatus::SUCCESS);
        let chosen = negotiate::Response::parse(&answer.message).expect("a NEGOTIATE response");
        assert_eq!(chosen.dialect_revision, dial.dialect);
        let mut transcript = Transcript([0; 64]);
        transcript.add(&request);
        transcript.add(&answer.message);
        self.preauth = transcript.0;
        self.preauth
    }

    /// Sets up a further session on a connection that was negotiated as `dial` says. `preauth` is the hash
    /// over NEGOTIATE. Returns the final status.
    pub fn set_up_session(&mut self, dial: &Dial, preauth: [u8; 64]) -> NtStatus {
        self.try_password(dial, preauth).expect("an answer to SESSION_SETUP")
    }

    /// Like [`Peer::set_up_session`], for a log-on that may have to wait. The error is the id of the message
    /// without an answer.
    ///
    /// # Errors
    /// The log-on waits.
    pub fn try_password(&mut self, dial: &Dial, preauth: [u8; 64]) -> Result<NtStatus, u64> {
        let mut transcript = Transcript(preauth);
        let mut initiator = Initiator::new(dial.identity(), Wrap::Spnego);
        (self.session_id, self.tree_id) = (0, 0);
        let mut token = initiator.first();
        loop {
            let request = self.message(SmbCommand::SessionSetup, |out| {
                session_setup::Request {
                    flags: RequestFlags::empty(),
                    security_mode: dial.security_mode(),
                    capabilities: Capabilities::empty(),
                    previous_session_id: dial.previous_session_id,
                    security_buffer: &token,
                }
                .write(out);
            });
            transcript.add(&request);
            let id = Header::parse(&request).expect("a header").message_id();
            // The keys are known before the last answer, which must be signed with them.
            if let Some(key) = initiator.session_key() {
                let signer = Rc::new(keys::signer(dial.protection(), key, &transcript.0));
                let seal = keys::server_seal(dial.protection(), key, key, &transcript.0);
                let seal = seal.map(|server| Rc::new(Seal { out: server.into, into: server.out }));
                let session = Rc::clone(&signer);
                let keys = Keys { signer, session, seal, signs: dial.requires_signing, seals: dial.seals };
                self.keys.insert(self.session_id, keys);
            }
            self.deliver(request);
            let answer = self.answer(id).ok_or(id)?;
            self.session_id = answer.header.session_id();
            if answer.status() != NtStatus::MORE_PROCESSING_REQUIRED {
                let has_key = answer.status() == NtStatus::SUCCESS && !dial.user.is_empty();
                assert_eq!(answer.is_signed, has_key);
                return Ok(answer.status());
            }
            transcript.add(&answer.message);
            let response = session_setup::Response::parse(&answer.message).expect("a response");
            token = match initiator.step(response.security_buffer, self.now()) {
                InitiatorStep::Continue(token) => token,
                other => panic!("the client does not go on: {other:?}"),
            };
        }
    }

    /// Connects to a share, and uses its tree from now on.
    pub fn connect_tree(&mut self, share: &str) {
        let answer = self.try_tree(share);
        assert_eq!(answer.status(), NtStatus::SUCCESS);
        self.tree_id = answer.header.tree_id();
    }

    /// Sends TREE_CONNECT and waits for its answer.
    pub fn try_tree(&mut self, share: &str) -> ReceivedMessage {
        let id = self.start_tree(share);
        self.answer(id).expect("an answer to TREE_CONNECT")
    }

    /// Sends TREE_CONNECT, and returns its message id. A 3.1.1 client always signs it (MS-SMB2 3.2.4.2.4).
    pub fn start_tree(&mut self, share: &str) -> u64 {
        let path = utf16::encode(&format!("\\\\server\\{share}"));
        let mut message = self.message(SmbCommand::TreeConnect, |out| {
            tree_connect::Request::new(Utf16::new(&path).expect("whole units")).write(out);
        });
        let id = Header::parse(&message).expect("a header").message_id();
        match self.keys.get(&self.session_id).map(|keys| keys.seals) {
            Some(true) => message = self.seal(&message, self.session_id),
            Some(false) => self.sign(&mut message),
            None => {}
        }
        self.deliver(message);
        id
    }

    /// Sends the CREATE `open`.
    pub fn create(&mut self, open: &OpenFile<'_>) -> ReceivedMessage {
        self.call(SmbCommand::Create, |out| open.write(out))
    }

    /// Opens or creates a file with all access. It must succeed.
    pub fn open(&mut self, name: &str) -> FileId {
        self.create(&OpenFile::named(name)).file_id()
    }

    /// Creates a file with this content and closes it.
    pub fn make(&mut self, name: &str, content: &[u8]) {
        let id = self.open(name);
        assert_eq!(self.write(id, 0, content), NtStatus::SUCCESS);
        assert_eq!(self.close(id), NtStatus::SUCCESS);
    }

    /// Sends WRITE.
    pub fn write(&mut self, id: FileId, offset: u64, data: &[u8]) -> NtStatus {
        let header = self.header_for(SmbCommand::Write, data.len());
        let message = whole(&header, |out| smb_wire::write::Request::new(id, offset, data).write(out));
        let id = self.send(message);
        self.answer(id).expect("an answer to WRITE").status()
    }

    /// Sends READ.
    pub fn read(&mut self, id: FileId, offset: u64, length: u32) -> ReceivedMessage {
        let header = self.header_for(SmbCommand::Read, length as usize);
        let message = whole(&header, |out| smb_wire::read::Request::new(id, offset, length).write(out));
        let id = self.send(message);
        self.answer(id).expect("an answer to READ")
    }

    /// Queries an information class, or with `which` parts of a descriptor.
    pub fn query_info(
        &mut self,
        file_id: FileId,
        info_type: InfoType,
        class: u8,
        which: u32,
    ) -> ReceivedMessage {
        self.call(SmbCommand::QueryInfo, |out| {
            query_info::Request {
                info_type,
                file_info_class: class,
                output_buffer_length: 4096,
                additional_information: which,
                flags: query_info::QueryInfoFlags::empty(),
                file_id,
                input_buffer: &[],
            }
            .write(out);
        })
    }

    /// Sets an information class, or with `which` parts of a descriptor.
    pub fn set_info(
        &mut self,
        file_id: FileId,
        info_type: InfoType,
        class: u8,
        which: u32,
        buffer: &[u8],
    ) -> NtStatus {
        self.status(SmbCommand::SetInfo, |out| {
            let (file_info_class, additional_information) = (class, which);
            set_info::Request { info_type, file_info_class, additional_information, file_id, buffer }
                .write(out);
        })
    }

    /// Sends CLOSE.
    pub fn close(&mut self, file_id: FileId) -> NtStatus {
        let flags = smb_wire::close::CloseFlags::empty();
        self.status(SmbCommand::Close, |out| smb_wire::close::Request { flags, file_id }.write(out))
    }

    /// Whether the server still serves this client.
    pub fn is_served(&mut self) -> bool {
        let id = self.open("a sign of life");
        self.write(id, 0, b"alive") == NtStatus::SUCCESS
            && self.read(id, 0, 5).data() == b"alive"
            && self.close(id) == NtStatus::SUCCESS
    }
}

/// The fields of a CREATE.
#[derive(Debug, Clone, Copy)]
pub struct OpenFile<'a> {
    /// The path.
    pub name: &'a str,
    /// The desired access.
    pub access: Access,
    /// The share access.
    pub share: ShareAccess,
    /// The disposition.
    pub disposition: Disposition,
    /// The create options.
    pub options: CreateOptions,
    /// The requested oplock level.
    pub oplock: OplockLevel,
    /// The attributes of a new file.
    pub attributes: u32,
    /// The create contexts.
    pub contexts: CreateContexts<'a>,
}

impl<'a> OpenFile<'a> {
    /// Opens or creates a file with all access, and denies nothing to others.
    pub fn named(name: &'a str) -> OpenFile<'a> {
        OpenFile {
            name,
            access: Access::FILE_ALL,
            share: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            disposition: Disposition::OpenIf,
            options: CreateOptions::empty(),
            oplock: OplockLevel::None,
            attributes: 0,
            contexts: CreateContexts::EMPTY,
        }
    }

    /// Opens or creates a directory.
    pub fn directory(name: &'a str) -> OpenFile<'a> {
        OpenFile { options: CreateOptions::DIRECTORY_FILE, ..OpenFile::named(name) }
    }

    /// Writes the body of the request.
    pub fn write(&self, out: &mut Vec<u8>) {
        let name = utf16::encode(self.name);
        Create {
            requested_oplock_level: self.oplock,
            impersonation_level: ImpersonationLevel::Impersonation,
            desired_access: self.access,
            file_attributes: self.attributes,
            share_access: self.share,
            create_disposition: self.disposition,
            create_options: self.options,
            name: Utf16::new(&name).expect("whole units"),
            contexts: self.contexts,
        }
        .write(out);
    }
}

/// The body of the first SESSION_SETUP of a log-on.
pub fn write_first_setup(out: &mut Vec<u8>) {
    let identity = ClientIdentity::new(USER, "", NtHash::from_password(""), "cifs/server");
    session_setup::Request {
        flags: RequestFlags::empty(),
        security_mode: SecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities::empty(),
        previous_session_id: 0,
        security_buffer: &Initiator::new(identity, Wrap::Spnego).first(),
    }
    .write(out);
}
