//! The Privilege Attribute Certificate of a ticket (MS-PAC): the user's and groups' SIDs.
//!
//! [`Pac::parse`] reads the buffers that say who the user is. Claims and the device's own groups are ignored.
//! The signatures are the business of the Kerberos library, which checks them before anyone sees the bytes.
//! Then [`Pac::filtered`] drops the SIDs that the user's domain has no right to give (MS-PAC 4.1.2.2), and
//! [`Pac::check_logon`] says whether the account may log on.

mod buffers;
pub mod filter;
mod ndr;
#[cfg(test)]
mod tests;
mod validation;

use volume::security::Sid;

use buffers::{Buffers, PacType};
pub use filter::LocalDomains;
use validation::ValidationInfo;

/// The most bytes of a PAC. A token of SESSION_SETUP has less than 64 KiB (MS-SMB2 2.2.5).
pub const MAX_PAC: usize = 128 << 10;
/// The most SIDs of groups in a PAC. An eight-byte entry for each would fill 64 KiB.
pub const MAX_GROUPS: usize = 8192;
/// The most characters of a name.
pub const MAX_NAME: usize = 1024;

/// The reason why bytes are no PAC of a user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PacError {
    /// A structure does not follow the specification.
    #[error("malformed {structure}")]
    Malformed {
        /// The name of the structure.
        structure: &'static str,
    },
    /// There is more than this program reads.
    #[error("the PAC has more than {limit} {of}")]
    TooLarge {
        /// The limit.
        limit: usize,
        /// The unit of the limit.
        of: &'static str,
    },
    /// A buffer that every PAC has is missing.
    #[error("the PAC has no {structure}")]
    Missing {
        /// The name of the structure.
        structure: &'static str,
    },
    /// Two buffers name different users. A ticket of another user may stand behind this (CVE-2021-42287).
    #[error("{structure} is of {found}, but the user of the ticket is {user}")]
    AnotherUser {
        /// The name of the structure that differs.
        structure: &'static str,
        /// Its user.
        found: String,
        /// The user of KERB_VALIDATION_INFO.
        user: String,
    },
    /// The user's SID is one that the user's domain has no right to give.
    #[error("the user has the SID {0}, which its domain may not give (MS-PAC 4.1.2.2)")]
    FilteredUser(Sid),
}

/// The reason why an account may not log on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoLogon {
    /// The account is disabled (USER_ACCOUNT_DISABLED).
    #[error("the account is disabled")]
    Disabled,
    /// The account is locked after too many wrong passwords (USER_ACCOUNT_AUTO_LOCKED).
    #[error("the account is locked out")]
    Locked,
    /// The account is that of a trust between domains, not of a user or a machine.
    #[error("the account is that of a trust between domains")]
    Trust,
    /// The time at which the user is to be disconnected has passed (KickOffTime).
    #[error("the account's log-on hours have ended")]
    Hours,
}

/// The attributes of a group membership (MS-PAC 2.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupAttributes(pub u32);

impl GroupAttributes {
    /// SE_GROUP_ENABLED
    const ENABLED: u32 = 0x0000_0004;
    /// SE_GROUP_USE_FOR_DENY_ONLY (MS-DTYP has no name for it; winnt.h has)
    const DENY_ONLY: u32 = 0x0000_0010;
    /// SE_GROUP_RESOURCE
    const RESOURCE: u32 = 0x2000_0000;

    /// Whether the membership gives rights.
    #[must_use]
    pub fn is_enabled(self) -> bool {
        self.0 & Self::ENABLED != 0 && self.0 & Self::DENY_ONLY == 0
    }

    /// Whether the group is local to a domain.
    #[must_use]
    pub fn is_resource(self) -> bool {
        self.0 & Self::RESOURCE != 0
    }
}

/// The part of a PAC that names a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupSource {
    /// GroupIds: a group of the user's own domain.
    Account,
    /// ExtraSids: a group of any domain.
    Extra,
    /// ResourceGroupIds: a local group of the server's domain.
    Resource,
}

/// A group of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacGroup {
    /// Its SID.
    pub sid: Sid,
    /// The attributes of the membership.
    pub attributes: GroupAttributes,
    /// The part that names it.
    pub source: GroupSource,
}

/// The user of a ticket, and the user's groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pac {
    /// The user's SID.
    pub user: Sid,
    /// The user's primary group.
    pub primary_group: Sid,
    /// The user's groups, with the primary group if it is listed.
    pub groups: Vec<PacGroup>,
    /// The SID of the user's domain (LogonDomainId).
    pub domain: Sid,
    /// The NetBIOS name of the user's domain.
    pub domain_name: String,
    /// The user's name in the domain (sAMAccountName).
    pub name: String,
    /// The user's full name, if the domain controller sent it.
    pub full_name: String,
    /// The user's principal name, as in `bob@corp.example`.
    pub upn: Option<String>,
    /// The DNS name of the user's domain, in upper case from Windows.
    pub dns_domain: Option<String>,
    /// The name of the client in the ticket (PAC_CLIENT_INFO).
    pub client_name: String,
    /// The time of the initial authentication, as a FILETIME.
    pub authenticated: u64,
    /// The time at which the user is to be disconnected, as a FILETIME. None: never.
    pub kick_off: Option<u64>,
    /// The account's flags (MS-SAMR 2.2.1.12).
    pub user_account_control: u32,
    /// The SID of the requester (PAC_REQUESTOR_SID), which is the user's. Domain controllers put it into
    /// tickets for themselves, and leave it out of those for servers.
    pub requester: Option<Sid>,
    /// The flags of PAC_ATTRIBUTES_INFO.
    pub attributes: Option<u32>,
}

/// USER_ACCOUNT_DISABLED (MS-SAMR 2.2.1.12)
const DISABLED: u32 = 0x0000_0001;
/// USER_INTERDOMAIN_TRUST_ACCOUNT
const INTERDOMAIN_TRUST: u32 = 0x0000_0040;
/// USER_ACCOUNT_AUTO_LOCKED
const AUTO_LOCKED: u32 = 0x0000_0400;

impl Pac {
    /// Reads a PAC whose signatures have been checked.
    ///
    /// # Errors
    /// [`PacError`].
    pub fn parse(bytes: &[u8]) -> Result<Pac, PacError> {
        let pac = PacType::parse(bytes)?;
        let missing = |structure| PacError::Missing { structure };
        let info = pac.find(Buffers::LOGON_INFO).ok_or(missing("KERB_VALIDATION_INFO"))?;
        let info = ValidationInfo::parse(info)?;
        let client = pac.find(Buffers::CLIENT_INFO).ok_or(missing("PAC_CLIENT_INFO"))?;
        let (authenticated, client_name) = buffers::client_info(client)?;
        let upn_dns = pac.find(Buffers::UPN_DNS_INFO).map(buffers::upn_dns_info).transpose()?;
        let requester = pac.find(Buffers::REQUESTOR_SID).map(buffers::requestor_sid).transpose()?;
        let attributes = pac.find(Buffers::ATTRIBUTES).map(buffers::attributes).transpose()?;
        let (user, primary_group, groups) = info.sids()?;
        let same_user = |structure, found: Option<Sid>| match found {
            Some(found) if found != user => {
                Err(PacError::AnotherUser { structure, found: found.to_string(), user: user.to_string() })
            }
            _ => Ok(()),
        };
        same_user("PAC_REQUESTOR_SID", requester)?;
        let extended = upn_dns.as_ref().and_then(|known| known.sam.as_ref());
        same_user("UPN_DNS_INFO", extended.map(|(_, sid)| *sid))?;
        if let Some((name, _)) = extended.filter(|(name, _)| !same_name(name, &info.effective_name)) {
            let (found, user) = (name.clone(), info.effective_name);
            return Err(PacError::AnotherUser { structure: "UPN_DNS_INFO", found, user });
        }
        let (upn, dns_domain) = upn_dns.map_or((None, None), |known| (known.upn, known.dns_domain));
        Ok(Pac {
            user,
            primary_group,
            groups,
            domain: info.domain,
            domain_name: info.domain_name,
            name: info.effective_name,
            full_name: info.full_name,
            upn,
            dns_domain,
            client_name,
            authenticated,
            kick_off: (info.kick_off < NEVER && info.kick_off != 0).then_some(info.kick_off),
            user_account_control: info.user_account_control,
            requester,
            attributes,
        })
    }

    /// The PAC that a user would have whom a domain controller has accepted with NTLM: MS-PAC 2.5 and
    /// NETLOGON_VALIDATION_SAM_INFO4 of MS-NRPC 2.2.1.4.13 have the same fields. `groups` have the attributes
    /// of the memberships. `None` if the user's SID is that of no account.
    #[must_use]
    pub fn of_account(user: Sid, primary_group: Sid, groups: &[(Sid, u32)]) -> Option<Pac> {
        let (_, domain) = user.subs().split_last()?;
        let domain = Sid::new(user.authority(), domain);
        let source = |sid: &Sid, attributes: GroupAttributes| match sid.rid_in(&domain) {
            Some(_) if !attributes.is_resource() => GroupSource::Account,
            _ if attributes.is_resource() => GroupSource::Resource,
            _ => GroupSource::Extra,
        };
        let groups = groups.iter().map(|&(sid, attributes)| {
            let attributes = GroupAttributes(attributes);
            PacGroup { sid, attributes, source: source(&sid, attributes) }
        });
        Some(Pac {
            user,
            primary_group,
            groups: groups.collect(),
            domain,
            domain_name: String::new(),
            name: String::new(),
            full_name: String::new(),
            upn: None,
            dns_domain: None,
            client_name: String::new(),
            authenticated: 0,
            kick_off: None,
            user_account_control: 0,
            requester: None,
            attributes: None,
        })
    }

    /// Whether the account may log on at this time, in nanoseconds since 1970.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_logon(&self, wall_ns: i64) -> Result<(), NoLogon> {
        let has = |flag| self.user_account_control & flag != 0;
        let now = (wall_ns.max(0) as u64 / 100).saturating_add(UNIX_EPOCH);
        match () {
            () if has(DISABLED) => Err(NoLogon::Disabled),
            () if has(AUTO_LOCKED) => Err(NoLogon::Locked),
            () if has(INTERDOMAIN_TRUST) => Err(NoLogon::Trust),
            () if self.kick_off.is_some_and(|end| end <= now) => Err(NoLogon::Hours),
            () => Ok(()),
        }
    }

    /// The groups that give rights: the primary group, then the enabled ones in their order, each once.
    #[must_use]
    pub fn enabled_groups(&self) -> Vec<Sid> {
        let mut seen = std::collections::HashSet::with_capacity(self.groups.len() + 2);
        seen.insert(self.user);
        let enabled = self.groups.iter().filter(|group| group.attributes.is_enabled());
        let all = std::iter::once(self.primary_group).chain(enabled.map(|group| group.sid));
        all.filter(|sid| seen.insert(*sid)).collect()
    }
}

/// The FILETIME that stands for never (MS-PAC 2.5).
const NEVER: u64 = 0x7fff_ffff_ffff_ffff;
/// 1970-01-01 as a FILETIME (MS-DTYP 2.3.3).
const UNIX_EPOCH: u64 = 116_444_736_000_000_000;

fn same_name(one: &str, other: &str) -> bool {
    one == other || one.to_lowercase() == other.to_lowercase()
}
