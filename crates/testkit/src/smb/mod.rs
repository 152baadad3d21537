//! An SMB server in this process, and clients that speak to it without sockets and with a simulated clock.
//!
//! Start with [`SmbTestServer`], the server with its share and its clock. [`Peer`] is a client. It passes
//! frames to its own [`smb::Connection`], runs the jobs and events that result, and reads the answers.
//! [`client`] implements the log-on and the protection of messages.

pub mod bind;
pub mod client;
pub mod domain;
pub mod peer;
pub mod ticket;

pub use client::{Dial, USER};
pub use peer::Peer;

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use auth::NtHash;
use share::{Identity, OpenRestorer, Restored, Share, UserFailure};
use smb::{Access, Encryption, Server, ServerConfig, ShareConfig, Signing, TargetRule, UserConfig};
use smb_wire::Guid;
use smb_wire::negotiate::Dialect;
use volume::faulty::{FaultPlan, FaultyVolume, VolumeCall};
use volume::journal::{Journal, MemoryJournal};
use volume::memory::MemoryVolume;
use volume::security::{Rights, Sid, well_known};
use volume::{Failure, Volume};
use volume_posix::PosixVolume;
use wire::Now;

/// The share's name.
pub const SHARE: &str = "files";

/// The clock of the server and all its peers. Each reading advances it by a microsecond, since the server
/// reads it once for each batch.
#[derive(Clone)]
pub struct Clock(Rc<Cell<Now>>);

impl Clock {
    /// Reads the clock, which advances it.
    pub fn read(&self) -> Now {
        self.advance(Duration::from_micros(1));
        self.0.get()
    }

    /// The time, without a reading.
    pub fn time(&self) -> Now {
        self.0.get()
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        self.0.set(self.0.get().plus(by));
    }
}

/// A server with one share and its users.
pub struct SmbTestServer {
    /// The server.
    pub server: Arc<Server>,
    /// The engine of the share.
    pub engine: Arc<Share>,
    /// The clock.
    pub clock: Clock,
    directory: Option<tempfile::TempDir>,
}

/// The volume and the journal of a share, which survive the server.
pub struct Store {
    /// The volume of the share.
    pub memory: MemoryVolume,
    /// The journal of persistent opens.
    pub journal: Arc<MemoryJournal>,
}

impl Store {
    /// An empty volume and journal.
    pub fn new() -> Store {
        Store { memory: MemoryVolume::new(1), journal: Arc::default() }
    }

    /// Starts a server on it. Later writes of an earlier server have no effect.
    pub fn serve(&mut self) -> SmbTestServer {
        self.serve_faulty().0
    }

    /// Like [`Store::serve`], with a plan that makes calls on the volume fail.
    pub fn serve_faulty(&mut self) -> (SmbTestServer, Arc<FaultPlan>) {
        let journal = Arc::new(MemoryJournal::default());
        journal.replace(&mut self.journal.records().into_iter()).expect("room for the records");
        self.journal = journal;
        let volume = FaultyVolume::new(Arc::new(self.memory.clone()));
        let plan = Arc::clone(volume.plan());
        let world =
            SmbTestServer::persistent_over(Arc::new(volume), self.journal.clone(), &self.journal.records());
        (world, plan)
    }
}

impl SmbTestServer {
    /// A server on a directory of the host.
    pub fn on_disk() -> SmbTestServer {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (root, beside) = (directory.path().join("share"), directory.path().join("beside"));
        std::fs::create_dir(&root).expect("the share's root");
        let volume = PosixVolume::open(&root, &beside).expect("the directory can be served");
        SmbTestServer { directory: Some(directory), ..SmbTestServer::over(Arc::new(volume)) }
    }

    /// A server in memory, for tests that do not depend on the host.
    pub fn in_memory() -> SmbTestServer {
        SmbTestServer::over(Arc::new(MemoryVolume::new(1)))
    }

    /// A server in memory with a maximum file size.
    pub fn with_largest(bytes: u64) -> SmbTestServer {
        let volume = volume::MeteredVolume::asleep(Arc::new(MemoryVolume::new(1)));
        let world = SmbTestServer::over(Arc::new(volume));
        world.engine.set_largest_file(Some(bytes));
        world
    }

    /// A server in memory without cached data: every READ must leave the connection's thread.
    pub fn cold() -> SmbTestServer {
        let (world, plan) = SmbTestServer::faulty();
        plan.always(VolumeCall::ReadCached, Some(Failure::WouldBlock));
        world
    }

    /// A server in memory with a plan that makes calls on the volume fail or wait.
    pub fn faulty() -> (SmbTestServer, Arc<FaultPlan>) {
        let volume = FaultyVolume::new(Arc::new(MemoryVolume::new(1)));
        let plan = Arc::clone(volume.plan());
        (SmbTestServer::over(Arc::new(volume)), plan)
    }

    /// A server whose share is continuously available and records its opens in `journal`. A second one with
    /// the same volume and journal is the server after a restart.
    pub fn persistent(memory: &MemoryVolume, journal: &Arc<MemoryJournal>) -> SmbTestServer {
        SmbTestServer::persistent_in(memory, journal.clone(), &journal.records())
    }

    /// Like [`SmbTestServer::persistent`], with a journal of another kind that has these records.
    pub fn persistent_in(
        memory: &MemoryVolume,
        journal: Arc<dyn Journal>,
        records: &[Vec<u8>],
    ) -> SmbTestServer {
        SmbTestServer::persistent_over(Arc::new(memory.clone()), journal, records)
    }

    /// Like [`SmbTestServer::persistent_in`], on a volume of another kind.
    pub fn persistent_over(
        volume: Arc<dyn Volume>,
        journal: Arc<dyn Journal>,
        records: &[Vec<u8>],
    ) -> SmbTestServer {
        let world = SmbTestServer::over(volume);
        let now = world.clock.read();
        let unrestored = world.engine.begin_restoring(journal, records, now).expect("records");
        let mut config = share_config(&world.engine);
        config.continuously_available = true;
        world.server.expect(&config, &unrestored);
        let (server, config) = (Arc::clone(&world.server), Arc::new(config));
        world.engine.restore_for(Arc::new(TestRestorer { server, config: Arc::clone(&config), now }));
        world.server.set_shares([ShareConfig::clone(&config)]);
        world
    }

    fn over(volume: Arc<dyn Volume>) -> SmbTestServer {
        let config = share::Config { name: SHARE.into(), enforce: false, ..share::Config::default() };
        let engine = Share::open(volume, config).expect("the share opens");
        let now = Now { mono_ns: 1_000_000_000, wall_ns: 1_700_000_000_000_000_000 };
        let server = Server::new(server_config(), now);
        server.set_users([user(USER, "s3cret", 1001), user("bert", "s3cret", 1002)]);
        server.set_shares([share_config(&engine)]);
        SmbTestServer { server, engine, clock: Clock(Rc::new(Cell::new(now))), directory: None }
    }

    /// The share's root on the host.
    pub fn root(&self) -> PathBuf {
        self.directory.as_ref().expect("a share on disk").path().join("share")
    }

    /// A directory outside of the share's root, which no client may reach.
    pub fn outside(&self) -> PathBuf {
        let outside = self.directory.as_ref().expect("a share on disk").path().join("outside");
        std::fs::create_dir_all(&outside).expect("a directory");
        outside
    }

    /// Changes the share's settings, for tree connects from now on.
    pub fn configure(&self, change: impl FnOnce(&mut ShareConfig)) {
        let mut config = share_config(&self.engine);
        change(&mut config);
        self.server.set_shares([config]);
    }

    /// Changes the server's settings, for connections from now on.
    pub fn configure_server(&self, change: impl FnOnce(&mut ServerConfig)) {
        let mut config = server_config();
        change(&mut config);
        self.server.set_config(config);
    }

    /// Advances the clock, and runs the timers of the engine. Within a second the background restores all
    /// opens from before a restart whose files the host can open.
    pub fn advance(&self, by: Duration) {
        if by >= Duration::from_secs(1) {
            let _left = self.engine.restore_all();
        }
        self.clock.advance(by);
        self.engine.tick(self.clock.read());
    }

    /// A new connection, before its first message.
    pub fn peer(&self) -> Peer {
        Peer::connect(self)
    }

    /// Whether the server would accept a further connection.
    pub fn takes_connection(&self) -> bool {
        Peer::try_connect(self).is_some()
    }

    /// A client that has logged on and connected to the share, and that signs its requests.
    pub fn client(&self) -> Peer {
        self.dial(&Dial::default())
    }

    /// A client that has logged on with the settings `dial` and connected to the share.
    pub fn dial(&self, dial: &Dial) -> Peer {
        let mut peer = self.peer();
        peer.log_on(dial);
        peer.connect_tree(SHARE);
        peer
    }
}

/// Takes restored opens over for a server. No thread restores them in the background, so requests do.
struct TestRestorer {
    server: Arc<Server>,
    config: Arc<ShareConfig>,
    now: Now,
}

impl OpenRestorer for TestRestorer {
    fn user(&self, sid: &Sid) -> Result<Arc<Identity>, UserFailure> {
        let users = self.server.users();
        let user = users.iter().find(|user| user.identity.sid == *sid);
        user.map(|user| Arc::clone(&user.identity)).ok_or(UserFailure::Gone)
    }

    fn take(&self, restored: Restored) {
        self.server.restore_open(&self.config, restored, self.now, self.now);
    }

    fn lose(&self, _client: share::ClientKey, _note: &[u8]) {}
}

/// A server configuration that accepts every dialect and requires nothing.
pub fn server_config() -> ServerConfig {
    ServerConfig {
        guid: Guid(*b"server under tes"),
        name: "SERVER".into(),
        dns_name: "server.example.net".into(),
        machine_sid: Sid::new(5, &[21, 1, 2, 3]),
        min_dialect: Dialect::Smb202,
        max_dialect: Dialect::Smb311,
        signing: Signing::Offered,
        encryption: Encryption::Enabled,
        max_connections: 1000,
        anonymous: false,
        smbtorture_controls: false,
        max_credits: smb::limits::MAX_CREDITS,
        multichannel: true,
        max_channels: smb::limits::DEFAULT_CHANNELS,
        accounts: Vec::new(),
        free_users: Vec::new(),
        share_endpoints: Vec::new(),
        target: TargetRule::default(),
        kerberos: None,
        kerberos_off: None,
        domain_member: None,
        ntlm: true,
        // Tests of this delay set it themselves.
        guess_delay_ns: 0,
        session_memory: share::ClientMemory::bounded(usize::MAX),
    }
}

/// The configuration of the share [`SHARE`] on `engine`, open to every user.
pub fn share_config(engine: &Arc<Share>) -> ShareConfig {
    ShareConfig {
        name: SHARE.into(),
        homes: None,
        account: None,
        comment: String::new(),
        engine: Arc::clone(engine),
        read_only: false,
        users: Some(vec![("*".into(), Access::Full)]),
        encryption: Encryption::Enabled,
        inherits_encryption: false,
        signing: Signing::Offered,
        min_dialect: Dialect::Smb202,
        case_sensitive: false,
        hide_unreadable: false,
        hidden: false,
        continuously_available: false,
    }
}

/// A user with this uid on the host.
pub fn user(name: &str, password: &str, uid: u32) -> UserConfig {
    let identity = Identity {
        name: name.into(),
        sid: Sid::new(5, &[21, 1, 2, 3, uid]),
        groups: vec![well_known::EVERYONE, well_known::AUTHENTICATED_USERS],
        uid,
        gid: uid,
        host_groups: Vec::new(),
        actor: None,
        administrator: false,
        unbound: false,
        limit: Rights::ALL,
        home: None,
    };
    let nt_hash = *NtHash::from_password(password).as_bytes();
    UserConfig { identity: Arc::new(identity), nt_hash, second_hash: None, key_of: None, restriction: None }
}
