//! The mapping between security identifiers, the host's users and groups, and their names.
//!
//! [`AccountMapping`] is the engine's view of the accounts of the server, of its host and of its domain. None
//! of its functions blocks, since workers call them, except [`AccountMapping::look_up`]. An implementation
//! that has to ask a directory says "unknown" first, starts the lookup elsewhere, and knows the answer at a
//! later call.

use volume::security::Sid;

/// The type of an account (MS-LSAT 2.2.13 SID_NAME_USE).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccountKind {
    /// A user.
    User,
    /// A group of a domain or of the host.
    Group,
    /// A group that is local to one machine or domain.
    Alias,
    /// A machine.
    Computer,
}

/// The names of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountName {
    /// Its type.
    pub kind: AccountKind,
    /// The NetBIOS name of its domain, as in `CORP\bob`.
    pub domain: String,
    /// The DNS name of its domain, as in `bob@corp.example`. None for an account that no other machine knows.
    pub dns_domain: Option<String>,
    /// Its name in the domain (sAMAccountName).
    pub name: String,
}

impl AccountName {
    /// The form `DOMAIN\name` of NT.
    #[must_use]
    pub fn nt_form(&self) -> String {
        format!("{}\\{}", self.domain, self.name)
    }

    /// The form `name@dns-domain` of user principal names and of RFC 8881 5.9, for an account that other
    /// machines know.
    #[must_use]
    pub fn principal_form(&self) -> Option<String> {
        self.dns_domain.as_ref().map(|domain| format!("{}@{domain}", self.name))
    }
}

/// A domain whose accounts the server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountDomain {
    /// Its NetBIOS name.
    pub name: String,
    /// Its DNS name.
    pub dns_name: String,
    /// Its SID. The SIDs of its accounts are below it.
    pub sid: Sid,
}

/// An account to look up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountQuery<'a> {
    /// The account with this identifier.
    Sid(Sid),
    /// The account of this domain, or of any, with this name.
    Name(Option<&'a str>, &'a str),
}

/// The mapping between security identifiers and the host's users and groups.
pub trait AccountMapping: Send + Sync {
    /// The identifier of a host user.
    fn user_sid(&self, uid: u32) -> Sid {
        Sid::unix_user(uid)
    }
    /// The identifier of a host group.
    fn group_sid(&self, gid: u32) -> Sid {
        Sid::unix_group(gid)
    }
    /// The host user of an identifier.
    fn uid(&self, sid: &Sid) -> Option<u32> {
        sid.as_unix_user()
    }
    /// The host group of an identifier.
    fn gid(&self, sid: &Sid) -> Option<u32> {
        sid.as_unix_group()
    }
    /// The name of a user, for a folder of that user's own.
    fn user_name(&self, _sid: &Sid) -> Option<String> {
        None
    }
    /// The host user of this name in a domain, if the server acts for that domain.
    fn uid_named(&self, _name: &str, _domain: &str) -> Option<u32> {
        None
    }
    /// The host group of this name in a domain.
    fn gid_named(&self, _name: &str, _domain: &str) -> Option<u32> {
        None
    }
    /// The names of the user or group with an identifier. Well-known identifiers have none here.
    fn account_name(&self, _sid: &Sid) -> Option<AccountName> {
        None
    }
    /// The user or group with a name. The domain is a NetBIOS or a DNS name; none stands for the accounts of
    /// this server, then those of its domain. Names are compared without regard to case.
    fn account_named(&self, _domain: Option<&str>, _name: &str) -> Option<(Sid, AccountKind)> {
        None
    }
    /// The group with a name. The domain is a NetBIOS or a DNS name; none stands for the groups of the host,
    /// then those of the server's domain. Names are compared without regard to case.
    fn group_named(&self, domain: Option<&str>, name: &str) -> Option<Sid> {
        let (sid, kind) = self.account_named(domain, name)?;
        matches!(kind, AccountKind::Group | AccountKind::Alias).then_some(sid)
    }
    /// Asks the directory for accounts, so that the other functions know them afterwards. May block for 5 s
    /// if the directory does not answer, and for 10 s if it is slow. Accounts that were not reached stay
    /// unknown.
    fn look_up(&self, _queries: &[AccountQuery<'_>]) {}
    /// The domains of other machines whose accounts the server knows: its own domain first, then trusted
    /// ones.
    fn domains(&self) -> Vec<AccountDomain> {
        Vec::new()
    }
}

/// The mapping that knows only the host's own numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAccounts;

impl AccountMapping for NoAccounts {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_a_form_with_each_name_of_its_domain() {
        let staff = AccountName {
            kind: AccountKind::Group,
            domain: "CORP".to_owned(),
            dns_domain: Some("corp.example".to_owned()),
            name: "staff".to_owned(),
        };
        assert_eq!(staff.nt_form(), "CORP\\staff");
        assert_eq!(staff.principal_form().as_deref(), Some("staff@corp.example"));
        assert_eq!(AccountName { dns_domain: None, ..staff }.principal_form(), None);
    }
}
