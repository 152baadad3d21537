//! What the server is told to be. Plain values: reading files and telling people where a value came from
//! is the command line's work.

pub mod account;
pub mod target;

use std::sync::Arc;

use share::{ClientMemory, Identity, Share};
use smb_wire::Guid;
use smb_wire::negotiate::Dialect;
use volume::security::{Sid, well_known};

use account::{AccountConfig, ShareEndpoint};
use target::TargetRule;

/// Whether messages are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signing {
    /// When the client asks for it.
    #[default]
    Offered,
    /// Always.
    Required,
}

/// Whether messages are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encryption {
    /// Not even when the client wants it.
    Off,
    /// When the client wants it.
    #[default]
    Enabled,
    /// Always; clients that cannot are refused.
    Required,
}

/// What a user may do on a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing.
    None,
    /// Read and execute.
    Read,
    /// Also write and delete.
    Write,
    /// Also change descriptors and owners.
    Full,
}

/// The server as a whole.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Identifies this server for as long as its state directory lives (MS-SMB2 3.3.1.5 ServerGuid).
    pub guid: Guid,
    /// NetBIOS-style name, up to 15 letters, upper case.
    pub name: String,
    /// DNS name of the host.
    pub dns_name: String,
    /// SID of this machine; local users' SIDs are below it.
    pub machine_sid: Sid,
    /// Lowest dialect.
    pub min_dialect: Dialect,
    /// Highest dialect.
    pub max_dialect: Dialect,
    /// Signing for every session.
    pub signing: Signing,
    /// Sealing for every session.
    pub encryption: Encryption,
    /// Connections at one time.
    pub max_connections: usize,
    /// Whether a log-on without a name is let in as nobody (only to IPC$).
    pub anonymous: bool,
    /// Whether smbtorture's own control codes are answered, by which a test makes connections fail, answers have
    /// padding and requests take long. Never for
    /// a server that serves anybody: whoever reaches it may send them.
    pub smbtorture_controls: bool,
    /// Credits that a connection may hold, from 1 to [`MAX_CREDITS`](crate::limits::MAX_CREDITS). Only a test of clients has
    /// reason to grant few.
    pub max_credits: u16,
    /// Whether a session may have more than one connection (MS-SMB2 3.3.1.5 IsMultiChannelCapable).
    pub multichannel: bool,
    /// Channels that one session may have, from 1 to [`MAX_CHANNELS`](crate::limits::MAX_CHANNELS).
    pub max_channels: usize,
    /// Groups of users and shares, for whose sessions other numbers and demands count.
    pub accounts: Vec<AccountConfig>,
    /// The users of shares that are of no account; `*` is everyone who can log on.
    pub free_users: Vec<String>,
    /// Shares that have addresses of this server for themselves.
    pub share_endpoints: Vec<ShareEndpoint>,
    /// How a log-on is held against the names of this server.
    pub target: TargetRule,
    /// How long after a wrong password the next try for the same user from the same address is judged, in nanoseconds.
    pub guess_delay_ns: u64,
    /// Memory for sessions and their trees. It is not that of the shares' engines, so that a client that may open nothing more
    /// can still log on, and take up or close what it has.
    pub session_memory: Arc<ClientMemory>,
}

/// One user that may log on.
#[derive(Debug, Clone)]
pub struct UserConfig {
    /// Who they are for the engine.
    pub identity: Arc<Identity>,
    /// MD4 of the password (MS-NLMP 3.3.1 NTOWFv1), from which NTLMv2 responses are checked.
    pub nt_hash: [u8; 16],
    /// The same of another password that is as good.
    pub second_hash: Option<[u8; 16]>,
    /// The account whose keys these passwords are: its shares are the user's in full, and no others.
    pub key_of: Option<String>,
    /// Whether they may log on.
    pub enabled: bool,
}

/// Users and groups of the host, by which descriptors name whom the server does not know.
#[derive(Debug, Clone, Default)]
pub struct HostNames {
    /// Users and their numbers.
    pub users: Vec<(String, u32)>,
    /// Groups and their numbers.
    pub groups: Vec<(String, u32)>,
}

/// One share.
#[derive(Clone)]
pub struct ShareConfig {
    /// Its name, as shown.
    pub name: String,
    /// For people.
    pub comment: String,
    /// The account that it belongs to.
    pub account: Option<String>,
    /// The engine behind it.
    pub engine: Arc<Share>,
    /// The lower bound for everybody and everything on it.
    pub read_only: bool,
    /// Who may do what; none: every user may write.
    pub users: Option<Vec<(String, Access)>>,
    /// Sealing on this share.
    pub encryption: Encryption,
    /// The server or the account said that for it, and not the share itself (MS-SMB2 3.3.1.6 EncryptData).
    pub inherits_encryption: bool,
    /// Signing on this share.
    pub signing: Signing,
    /// Lowest dialect on this share.
    pub min_dialect: Dialect,
    /// Whether names that differ only in case are different names.
    pub case_sensitive: bool,
    /// Whether clients see only what they may read.
    pub hide_unreadable: bool,
    /// Whether the share is listed.
    pub hidden: bool,
    /// Whether Opens can outlive the server (MS-SMB2 3.3.1.6 IsCA); its engine keeps opens then.
    pub continuously_available: bool,
}

impl ShareConfig {
    /// What `user` may do here.
    #[must_use]
    pub fn access(&self, user: &str) -> Access {
        let given = match &self.users {
            None => Access::Full,
            Some(users) => {
                let found = users.iter().filter(|(name, _)| same_name(name, user) || name == "*");
                found.map(|&(_, access)| access).max().unwrap_or(Access::None)
            }
        };
        given.min(self.full_access())
    }

    /// The most that anybody may do here.
    #[must_use]
    pub fn full_access(&self) -> Access {
        if self.read_only { Access::Read } else { Access::Full }
    }
}

impl std::fmt::Debug for ShareConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShareConfig").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whether two names are the same: case is not minded, as in the tables of users and shares.
pub(crate) fn same_name(one: &str, other: &str) -> bool {
    let is_ascii = one.is_ascii() && other.is_ascii();
    one.eq_ignore_ascii_case(other) || !is_ascii && one.to_lowercase() == other.to_lowercase()
}

/// Who an anonymous log-on is: nobody, who may do nothing.
#[must_use]
pub fn nobody() -> Identity {
    Identity {
        name: String::new(),
        sid: well_known::ANONYMOUS,
        groups: Vec::new(),
        uid: u32::MAX - 1,
        gid: u32::MAX - 1,
        host_groups: Vec::new(),
        actor: None,
        administrator: false,
        unbound: false,
        limit: volume::security::Rights::empty(),
    }
}
