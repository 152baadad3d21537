//! The configuration as it was read: the server, its users, accounts and shares.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use share::engine::Symlinks;
use wire::SendFile;

use super::setting::Setting;
use super::values::{
    Access, Advertised, Authentication, Cipher, Dialect, Encryption, LogFormat, LogLevel, Rss, Signing, Spn,
};
use super::{admin, endpoints, limits, nfs};

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The file it was read from, as the user named it.
    pub file: Option<PathBuf>,
    /// `[server]`
    pub server: Server,
    /// `[admin]`
    pub admin: admin::Admin,
    /// Each `[[user]]`, by its name in lower case.
    pub users: BTreeMap<String, User>,
    /// Each `[account.NAME]`, by its name in lower case.
    pub accounts: BTreeMap<String, Account>,
    /// Each `[share.NAME]`, by its name in lower case.
    pub shares: BTreeMap<String, Share>,
}

/// `[server]`: the process as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Addresses to listen on.
    pub listen: Setting<Vec<IpAddr>>,
    /// TCP port for SMB; none means 445 where allowed, else 4450.
    pub smb_port: Setting<Option<u16>>,
    /// TCP port for NFS, where a share is offered to its clients; none means 2049 where allowed, else 24490.
    pub nfs_port: Setting<Option<u16>>,
    /// How long an NFS client keeps what it has without being heard, in seconds.
    pub nfs_lease_time_s: Setting<u64>,
    /// Requests that an NFS session may have under way at one time.
    pub nfs_slots: Setting<u64>,
    /// Connections that an NFS client may have at one time.
    pub nfs_max_connections: Setting<u64>,
    /// Where users, identity and the control socket live.
    pub state_dir: Setting<PathBuf>,
    /// The server's name, as clients see it.
    pub name: Setting<String>,
    /// The same in at most 15 characters, for NTLM.
    pub netbios_name: Setting<String>,
    /// The workgroup that clients are told.
    pub workgroup: Setting<String>,
    /// Transport connections at one time.
    pub max_connections: Setting<u64>,
    /// Of these, connections of one address; none means a quarter of them.
    pub max_connections_per_address: Setting<Option<u64>>,
    /// Worker threads; 0 is one for each core.
    pub workers: Setting<u64>,
    /// Form of the log.
    pub log_format: Setting<LogFormat>,
    /// What is logged.
    pub log_level: Setting<LogLevel>,
    /// Whether mDNS and WS-Discovery announce the server.
    pub discovery: Setting<bool>,
    /// Whether a log-on without a name is let in, as nobody, to IPC$ alone.
    pub anonymous: Setting<bool>,
    /// Whether unsigned sessions are refused.
    pub signing: Setting<Signing>,
    /// Whether a log-on must be meant for this server.
    pub spn: Setting<Spn>,
    /// Names of the server that it cannot know of itself; none: there may be some that it is not told.
    pub spn_names: Option<Setting<Vec<String>>>,
    /// How long after a wrong password the next try for the same user from the same address waits, in seconds.
    pub guess_delay_s: Setting<u64>,
    /// What shares say about encryption unless they say it themselves.
    pub encryption: Setting<Encryption>,
    /// Oldest dialect a connection may speak.
    pub min_dialect: Setting<Dialect>,
    /// Whether a session may have several connections, unless its account says otherwise.
    pub multichannel: Setting<bool>,
    /// How many connections it may have then.
    pub max_channels: Setting<u64>,
    /// Addresses at which clients find the server besides those of the host's interfaces.
    pub advertise: Setting<Vec<Advertised>>,
    /// Whether clients are told that the interfaces can spread their work over processors.
    pub rss: Setting<Rss>,
    /// How long a holder of a caching right may take to give it up, in milliseconds. Stands in
    /// `[server.testing]`: only a foreign test suite has reason to change it.
    pub break_timeout_ms: Setting<u64>,
    /// `[server.testing]`: whether smbtorture's control codes are answered, by which it makes connections fail and requests take long.
    pub smbtorture_controls: Setting<bool>,
    /// `[server.testing]`: how much longer each call on a share's directory takes that is about names or attributes, in
    /// microseconds, as if it were a store far away. For measurements.
    pub metadata_delay_us: Setting<u64>,
    /// `[server.testing]`: the credits that a connection may hold over SMB. For tests of clients, which get few from some servers.
    pub max_credits: Setting<u64>,
}

/// The least that one address may have of all connections, where that is not set: a client with as many channels as there
/// can be.
pub const LEAST_PER_ADDRESS: u64 = 32;

impl Server {
    /// Connections that one address may have.
    pub fn connections_per_address(&self) -> u64 {
        let all = self.max_connections.value;
        let most = self.max_connections_per_address.value;
        most.unwrap_or_else(|| (all / 4).max(LEAST_PER_ADDRESS)).min(all)
    }
}

/// `[[user]]`: who may log on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name as it is written.
    pub name: Setting<String>,
    /// File whose first line is the password; none when the password is in the state directory.
    pub password_file: Option<Setting<PathBuf>>,
    /// Security identifier; none means one made from the server's own.
    pub sid: Option<Setting<String>>,
    /// User id on the host; none means the host's account of that name, else the server's own.
    pub uid: Option<Setting<u64>>,
    /// Group id on the host, found in the same way.
    pub gid: Option<Setting<u64>>,
    /// Further group ids on the host.
    pub groups: Option<Setting<Vec<u32>>>,
    /// Whether the user is one of the server's administrators.
    pub admin: Setting<bool>,
}

/// `[account.NAME]`: what a group of shares has in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The name as it is written.
    pub name: Setting<String>,
    /// Whether and how its shares are provisioned.
    pub kind: Setting<limits::Kind>,
    /// How sizes are turned into limits; none: as they are now.
    pub formula: Option<Setting<share::limits::Formula>>,
    /// Who may use the shares of the account.
    pub users: BTreeMap<String, Setting<Access>>,
    /// For its shares.
    pub encryption: Option<Setting<Encryption>>,
    /// For its shares.
    pub signing: Option<Setting<Signing>>,
    /// For its shares.
    pub min_dialect: Option<Setting<Dialect>>,
    /// Ciphers by which sessions that reach its shares may be sealed; none: all.
    pub ciphers: Option<Setting<Vec<Cipher>>>,
    /// How whoever reaches its shares has logged on; none: in any way.
    pub authentication: Option<Setting<Vec<Authentication>>>,
    /// Addresses of the server at which SMB connections are the account's; none: it has none of its own.
    pub smb_listen: Option<Setting<Vec<IpAddr>>>,
    /// For its shares.
    pub metadata_caching: Option<Setting<bool>>,
    /// For the sessions of its users.
    pub multichannel: Setting<bool>,
    /// For the sessions of its users.
    pub max_channels: Setting<u64>,
    /// Where NFS clients find its shares.
    pub nfs: endpoints::OwnEndpoint,
}

/// What streams and large notes may take where nothing is said, in GiB.
const DEFAULT_STREAMS_GIB: u64 = 16;

/// `[share.NAME]`: a directory on offer. What it takes over from its account or the server is filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The name as it is written.
    pub name: Setting<String>,
    /// The directory.
    pub path: Setting<PathBuf>,
    /// The account it belongs to.
    pub account: Option<Setting<String>>,
    /// What clients show beside the name.
    pub comment: Setting<String>,
    /// Nothing can be changed through it.
    pub read_only: Setting<bool>,
    /// Who may use it, by name in lower case; `*` is everyone who can log on.
    pub users: BTreeMap<String, Setting<Access>>,
    /// Sealing on the wire.
    pub encryption: Setting<Encryption>,
    /// Signing on the wire.
    pub signing: Setting<Signing>,
    /// Oldest dialect that reaches the share.
    pub min_dialect: Setting<Dialect>,
    /// Names that differ only in case are different files.
    pub case_sensitive: Setting<bool>,
    /// Listings leave out what the user cannot read.
    pub hide_unreadable: Setting<bool>,
    /// Files whose names match one of these patterns are shown with the hidden attribute.
    pub hide_files: Setting<Vec<String>>,
    /// Which symbolic links clients may make.
    pub symlinks: Setting<Symlinks>,
    /// Symbolic links are followed for SMB clients, and listed as what they lead to.
    pub follow_symlinks: Setting<bool>,
    /// What stands behind a symbolic link can be removed by a path through it.
    pub delete_through_symlinks: Setting<bool>,
    /// Named streams are offered.
    pub streams: Setting<bool>,
    /// How much streams and large notes may take of the state directory's file system, where the share has no size.
    pub streams_max_gib: Setting<u64>,
    /// Clients may watch directories for changes.
    pub change_notify: Setting<bool>,
    /// Whether large reads are sent from the host's page cache without being copied.
    pub send_file: Setting<SendFile>,
    /// Names, attributes and descriptors are remembered where the host tells of changes.
    pub metadata_caching: Setting<bool>,
    /// What clients have open can outlive the server.
    pub continuously_available: Setting<bool>,
    /// Addresses of the server at which SMB clients find this share alone; none: it has none of its own.
    pub smb_listen: Option<Setting<Vec<IpAddr>>>,
    /// What is bought for it, in an account that is limited.
    pub provisioned: limits::Provisioned,
    /// For NFS clients.
    pub nfs: nfs::ShareNfs,
}

impl Share {
    /// A share with the server's settings and the defaults, which nobody may use yet.
    pub fn new(name: Setting<String>, path: Setting<PathBuf>, server: &Server) -> Share {
        Share {
            name,
            path,
            account: None,
            comment: Setting::default_of(String::new()),
            read_only: Setting::default_of(false),
            users: BTreeMap::new(),
            encryption: server.encryption.inherited("[server]"),
            signing: server.signing.inherited("[server]"),
            min_dialect: server.min_dialect.inherited("[server]"),
            case_sensitive: Setting::default_of(false),
            hide_unreadable: Setting::default_of(false),
            hide_files: Setting::default_of(vec![".*".to_owned()]),
            symlinks: Setting::default_of(Symlinks::All),
            follow_symlinks: Setting::default_of(true),
            delete_through_symlinks: Setting::default_of(false),
            streams: Setting::default_of(true),
            streams_max_gib: Setting::default_of(DEFAULT_STREAMS_GIB),
            change_notify: Setting::default_of(true),
            send_file: Setting::default_of(SendFile::Auto),
            metadata_caching: Setting::default_of(true),
            continuously_available: Setting::default_of(false),
            smb_listen: None,
            provisioned: limits::Provisioned::default(),
            nfs: nfs::ShareNfs::default(),
        }
    }
}
