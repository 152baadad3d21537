//! The values that the interfaces return: a trait that the server implements.

/// The server as its clients see it, and the caller of one open pipe.
///
/// The functions must not block, since they run while a request is being answered.
pub trait Host {
    /// The values of the server.
    fn facts(&self) -> ServerFacts;

    /// The wall clock, in nanoseconds since 1970-01-01 UTC.
    fn wall_ns(&self) -> i64;

    /// The shares that the caller may see, including IPC$.
    fn shares(&self) -> Vec<Share>;

    /// Whether the caller may see the values for administrators: paths and security descriptors of shares.
    fn caller_is_admin(&self) -> bool;

    /// The caller.
    fn caller(&self) -> Account;

    /// The account with this SID. The SID is not a well-known one.
    fn account_of_sid(&self, sid: &[u8]) -> Option<Account>;

    /// The SID of this account, which is not a well-known one. No domain means that of this server. Names
    /// are compared without regard to case.
    fn sid_of_account(&self, domain: Option<&str>, name: &str) -> Option<Resolved>;
}

/// The values of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its name, as in `\\NAME`.
    pub name: String,
    /// Its description.
    pub comment: String,
    /// Its workgroup or domain.
    pub domain: String,
    /// The SID of the domain of its accounts: its machine SID.
    pub account_domain_sid: Vec<u8>,
    /// Major part of the Windows version that it reports.
    pub version_major: u32,
    /// Minor part of the Windows version that it reports.
    pub version_minor: u32,
    /// The number of users that are logged on.
    pub users: u32,
}

/// A share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Its description.
    pub remark: String,
    /// Its type.
    pub kind: ShareType,
    /// The most users, or `u32::MAX` for no limit.
    pub max_uses: u32,
    /// The current number of users.
    pub current_uses: u32,
    /// Its path. Only administrators get it.
    pub path: String,
    /// Flags about caching and other duties of clients: SHI1005 flags, as in MS-SRVS 2.2.4.29.
    pub flags: u32,
    /// Its security descriptor, self-relative. Only administrators get it.
    pub security_descriptor: Option<Vec<u8>>,
}

/// MS-SRVS 2.2.2.4: the type of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShareType(pub u32);

impl ShareType {
    /// A directory.
    pub const DISK: ShareType = ShareType(0x0000_0000);
    /// IPC$, which always has the mark of a special share.
    pub const IPC: ShareType = ShareType(0x8000_0003);
    /// A directory that is hidden from users.
    pub const DISK_SPECIAL: ShareType = ShareType(0x8000_0000);

    /// The number without the mark that hides the share from users.
    #[must_use]
    pub const fn without_special(self) -> u32 {
        self.0 & 0x7FFF_FFFF
    }
}

/// MS-LSAT 2.2.13: the type of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum NameUse {
    /// A user.
    User = 1,
    /// A group.
    Group = 2,
    /// A domain.
    Domain = 3,
    /// A group of this machine.
    Alias = 4,
    /// One of the well-known groups.
    WellKnownGroup = 5,
    /// A deleted account.
    DeletedAccount = 6,
    /// An invalid account.
    Invalid = 7,
    /// An unknown account.
    Unknown = 8,
    /// A machine.
    Computer = 9,
    /// An integrity label.
    Label = 10,
}

/// An account with its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its domain. It is empty for names without one, such as Everyone.
    pub domain: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: NameUse,
}

/// An account with its SID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Its SID.
    pub sid: Vec<u8>,
    /// Its domain.
    pub domain: String,
    /// Its type.
    pub kind: NameUse,
}
