//! The settings of the server, as plain values. The command line reads the files and reports where each
//! value came from.

pub mod access;
pub mod account;
pub mod grantee;
pub mod kerberos;
pub mod target;

use std::sync::Arc;

use share::{ClientMemory, Identity, Share};
use smb_wire::Guid;
use smb_wire::negotiate::Dialect;
use volume::Name;
use volume::security::{Sid, well_known};

use account::{AccountConfig, ShareEndpoint};
use grantee::Grantee;
use kerberos::{DomainMember, KerberosConfig, PrincipalResolver};
use target::TargetRule;

pub use access::Access;
pub(crate) use access::same_name;

/// The rule for signed messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signing {
    /// Messages are signed if the client asks for it.
    #[default]
    Offered,
    /// Messages are always signed.
    Required,
}

/// The rule for sealed messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encryption {
    /// Messages are never sealed, even if the client asks for it.
    Off,
    /// Messages are sealed if the client asks for it.
    #[default]
    Enabled,
    /// Messages are always sealed. Clients that cannot do so are refused.
    Required,
}

/// The rule for log-ons with NTLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ntlm {
    /// Allowed.
    #[default]
    On,
    /// Allowed for local users only.
    Local,
    /// Refused.
    Off,
}

/// The server as a whole.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The id of this server. It lasts as long as the state directory (MS-SMB2 3.3.1.5 ServerGuid).
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
    /// The most connections.
    pub max_connections: usize,
    /// Whether an anonymous log-on is allowed (for IPC$ only).
    pub anonymous: bool,
    /// Whether the server obeys smbtorture's own control codes. With them a test can make connections fail,
    /// pad replies and slow requests down. Do not set this on a server with real clients: any client may
    /// send them.
    pub smbtorture_controls: bool,
    /// The most credits of a connection, from 1 to [`MAX_CREDITS`](crate::limits::MAX_CREDITS). Only a test
    /// of clients has a reason to grant few.
    pub max_credits: u16,
    /// Whether a session may have several connections (MS-SMB2 3.3.1.5 IsMultiChannelCapable).
    pub multichannel: bool,
    /// The most channels of a session, from 1 to [`MAX_CHANNELS`](crate::limits::MAX_CHANNELS).
    pub max_channels: usize,
    /// Groups of users and shares with their own limits and demands on sessions.
    pub accounts: Vec<AccountConfig>,
    /// The users of shares without an account. `*` stands for every user that can log on.
    pub free_users: Vec<Grantee>,
    /// Shares with addresses of their own.
    pub share_endpoints: Vec<ShareEndpoint>,
    /// The rule that checks a log-on against the names of this server.
    pub target: TargetRule,
    /// Log-ons with Kerberos tickets. `None` if the server is in no realm.
    pub kerberos: Option<KerberosConfig>,
    /// The reason why there are no log-ons with tickets, if there are none.
    pub kerberos_off: Option<Arc<str>>,
    /// NTLM for users of the domain, if they may log on with it.
    pub domain_member: Option<DomainMember>,
    /// Whether log-ons with NTLM are allowed.
    pub ntlm: bool,
    /// The delay after a wrong password, in nanoseconds. It applies to the next attempt for the same user
    /// from the same address.
    pub guess_delay_ns: u64,
    /// Memory for sessions and their trees. It is separate from that of the shares' engines. So a client
    /// that may open no more files can still log on, and reconnect to or close its Opens.
    pub session_memory: Arc<ClientMemory>,
}

/// One user that may log on.
#[derive(Debug, Clone)]
pub struct UserConfig {
    /// The user's identity for the engine.
    pub identity: Arc<Identity>,
    /// MD4 of the password (MS-NLMP 3.3.1 NTOWFv1). NTLMv2 responses are checked with it.
    pub nt_hash: [u8; 16],
    /// The hash of a second valid password.
    pub second_hash: Option<[u8; 16]>,
    /// The account whose keys these passwords are. The user has full access to its shares, and none to
    /// others.
    pub key_of: Option<String>,
    /// The reason why the user may not log on, for the log. `None` if the user may.
    pub restriction: Option<Arc<str>>,
}

/// The host's users and groups. Descriptors use them for ids that the server does not know.
#[derive(Debug, Clone, Default)]
pub struct HostNames {
    /// Users and their numbers.
    pub users: Vec<(String, u32)>,
    /// Groups and their numbers.
    pub groups: Vec<(String, u32)>,
}

/// The name of a share that each user finds under the own name.
pub const NAMED_BY_USER: &str = "{user}";

/// The homes on a share that gives each user their own directory.
pub trait Homes: Send + Sync {
    /// The user's directory in the root of the share. It exists, or has just been created.
    ///
    /// # Errors
    /// The reason why the user has none, for the log.
    fn home(&self, user: &Identity) -> Result<Name, String>;
}

/// One share.
#[derive(Clone)]
pub struct ShareConfig {
    /// Its name. [`NAMED_BY_USER`] stands for the name of each user.
    pub name: String,
    /// The users' homes, if each user sees only their own directory of the share.
    pub homes: Option<Arc<dyn Homes>>,
    /// A description for users.
    pub comment: String,
    /// The account that it belongs to, if any.
    pub account: Option<String>,
    /// The engine of the share.
    pub engine: Arc<Share>,
    /// Whether all access to it is read-only.
    pub read_only: bool,
    /// The access of users and groups. `None` gives write access to every user.
    pub users: Option<Vec<(Grantee, Access)>>,
    /// The rule for sealed messages on this share.
    pub encryption: Encryption,
    /// The rule comes from the server or the account, not from the share itself (MS-SMB2 3.3.1.6
    /// EncryptData).
    pub inherits_encryption: bool,
    /// The rule for signed messages on this share.
    pub signing: Signing,
    /// Lowest dialect on this share.
    pub min_dialect: Dialect,
    /// Whether names that differ only in case are different names.
    pub case_sensitive: bool,
    /// Whether clients see only the entries that they may read.
    pub hide_unreadable: bool,
    /// Whether the share is listed.
    pub hidden: bool,
    /// Whether Opens can outlive the server (MS-SMB2 3.3.1.6 IsCA). Its engine then records them.
    pub continuously_available: bool,
}

impl ServerConfig {
    /// The source of identities for users of the realm or domain.
    pub(crate) fn principal_resolver(&self) -> Option<Arc<dyn PrincipalResolver>> {
        let by_ticket = self.kerberos.as_ref().map(|kerberos| &kerberos.resolver);
        by_ticket.or_else(|| self.domain_member.as_ref().map(|member| &member.resolver)).cloned()
    }

    /// The mechanisms and names for log-ons.
    #[must_use]
    pub fn log_on(&self) -> auth::Config {
        let config = match &self.domain_member {
            Some(member) => {
                auth::Config::new(member.names.clone()).with_pass_through(Arc::clone(&member.pass_through))
            }
            None => auth::Config::new(auth::Names {
                netbios_computer: self.name.clone(),
                netbios_domain: self.name.clone(),
                dns_computer: self.dns_name.clone(),
                dns_domain: String::new(),
            }),
        };
        let config = if self.ntlm { config } else { config.without_ntlm() };
        match &self.kerberos {
            Some(kerberos) => config.with_kerberos(Arc::clone(&kerberos.mechanism)),
            None => match &self.kerberos_off {
                Some(why) => config.without_kerberos(Arc::clone(why)),
                None => config,
            },
        }
    }
}

impl ShareConfig {
    /// The access of `user` to this share: the most that the user, the user's groups and everyone have.
    #[must_use]
    pub fn access(&self, user: &Identity) -> Access {
        let given = match &self.users {
            None => Access::Full,
            Some(users) => grantee::access_of(users, user),
        };
        given.min(self.full_access())
    }

    /// The name under which a user finds the share.
    #[must_use]
    pub fn name_for<'n>(&'n self, user: &'n str) -> &'n str {
        if self.name == NAMED_BY_USER { user } else { &self.name }
    }

    /// The most access that any user has to this share.
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

/// The identity of an anonymous log-on. It has no access to any share.
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
        home: None,
    }
}
