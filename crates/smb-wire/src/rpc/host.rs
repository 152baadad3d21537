//! What the interfaces say about this server: a trait that the server implements.

/// The server as its clients see it, and the caller of one open pipe.
///
/// Nothing here may block: it is asked while a request is being answered.
pub trait Host {
    /// What the server is.
    fn facts(&self) -> ServerFacts;

    /// The wall clock, in nanoseconds since 1970-01-01 UTC.
    fn wall_ns(&self) -> i64;

    /// The shares that the caller may know of, IPC$ among them.
    fn shares(&self) -> Vec<Share>;

    /// Whether the caller may see what only administrators see: paths and security descriptors of shares.
    fn caller_is_admin(&self) -> bool;

    /// The caller.
    fn caller(&self) -> Account;

    /// The account with this SID, which is none of the well-known ones.
    fn account_of_sid(&self, sid: &[u8]) -> Option<Account>;

    /// The SID of this account, which is none of the well-known ones. Without a domain, that of this server is
    /// meant. Names are compared without regard to case.
    fn sid_of_account(&self, domain: Option<&str>, name: &str) -> Option<Resolved>;
}

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its name, as in `\\NAME`.
    pub name: String,
    /// What it is for.
    pub comment: String,
    /// Its workgroup or domain.
    pub domain: String,
    /// The SID of the domain of its accounts: its machine SID.
    pub account_domain_sid: Vec<u8>,
    /// The version of Windows that it stands for, major part.
    pub version_major: u32,
    /// The version of Windows that it stands for, minor part.
    pub version_minor: u32,
    /// Who is logged on now.
    pub users: u32,
}

/// A share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub remark: String,
    /// What it shares.
    pub kind: ShareType,
    /// The most that may use it; `u32::MAX` for any number.
    pub max_uses: u32,
    /// How many do.
    pub current_uses: u32,
    /// Where it is; only told to administrators.
    pub path: String,
    /// How clients may cache and what they must do: SHI1005 flags, as in MS-SRVS 2.2.4.29.
    pub flags: u32,
    /// Its security descriptor, self-relative; only told to administrators.
    pub security_descriptor: Option<Vec<u8>>,
}

/// MS-SRVS 2.2.2.4: what a share is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShareType(pub u32);

impl ShareType {
    /// A directory.
    pub const DISK: ShareType = ShareType(0x0000_0000);
    /// IPC$, as it is always marked: special.
    pub const IPC: ShareType = ShareType(0x8000_0003);
    /// A directory that is not shown to people.
    pub const DISK_SPECIAL: ShareType = ShareType(0x8000_0000);

    /// The number without the mark that hides the share from people.
    #[must_use]
    pub const fn without_special(self) -> u32 {
        self.0 & 0x7FFF_FFFF
    }
}

/// MS-LSAT 2.2.13: what a name is the name of.
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
    /// An account that is gone.
    DeletedAccount = 6,
    /// Nothing.
    Invalid = 7,
    /// Nobody knows.
    Unknown = 8,
    /// A machine.
    Computer = 9,
    /// An integrity label.
    Label = 10,
}

/// An account, by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its domain; empty for names that have none, such as Everyone.
    pub domain: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: NameUse,
}

/// An account, by its SID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Its SID.
    pub sid: Vec<u8>,
    /// Its domain.
    pub domain: String,
    /// What it is.
    pub kind: NameUse,
}
