//! The names of accounts: `CORP\bob`, `bob@corp.example`, `bob`, and the domains they belong to.
//!
//! [`Domains::keys`] gives the accounts that a text may mean, in order.

use std::sync::Arc;

use volume::security::Sid;

/// The most bytes of a name with its domain. sAMAccountName has at most 256 characters (MS-ADA3), a DNS name
/// 255. Clients send names, and those without an account are remembered for a while too.
const MAX_NAME: usize = 512;

/// A way to name a user or a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AccountKey {
    /// By its SID.
    Sid(Sid),
    /// By uid or gid.
    Id(u32),
    /// By the account name in a domain, or on this server and its host.
    Name {
        /// The realm of the domain in upper case; none: this server and its host.
        realm: Option<Arc<str>>,
        /// The name. In a domain it is in lower case, since directories ignore case. The host does not.
        name: Arc<str>,
    },
    /// By the user principal name, in lower case (MS-ADTS 5.1.1.1.1).
    Principal(Arc<str>),
}

impl AccountKey {
    /// The key of an account of this server or its host.
    #[must_use]
    pub fn local(name: &str) -> AccountKey {
        AccountKey::Name { realm: None, name: name.into() }
    }

    /// The key of an account of a domain.
    #[must_use]
    pub fn in_realm(realm: &Arc<str>, name: &str) -> AccountKey {
        AccountKey::Name { realm: Some(Arc::clone(realm)), name: name.to_lowercase().into() }
    }
}

impl std::fmt::Display for AccountKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AccountKey::Sid(sid) => sid.fmt(f),
            AccountKey::Id(id) => write!(f, "id {id}"),
            AccountKey::Name { realm: None, name } => f.write_str(name),
            AccountKey::Name { realm: Some(realm), name } => write!(f, "{name}@{realm}"),
            AccountKey::Principal(principal) => f.write_str(principal),
        }
    }
}

/// A domain or a realm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The Kerberos realm in upper case. In lower case it is the domain's DNS name.
    pub realm: Arc<str>,
    /// The NetBIOS name; none: a realm without Active Directory.
    pub netbios: Option<Arc<str>>,
    /// Further suffixes of user principal names, in lower case.
    pub suffixes: Vec<String>,
    /// The domain's SID, if it is known.
    pub sid: Option<Sid>,
}

impl Domain {
    /// A domain with these names.
    #[must_use]
    pub fn new(realm: &str, netbios: Option<&str>) -> Domain {
        let netbios = netbios.map(|name| name.to_uppercase().into());
        Domain { realm: realm.to_uppercase().into(), netbios, suffixes: Vec::new(), sid: None }
    }

    /// Whether this is the domain's NetBIOS or DNS name.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        let is_netbios = self.netbios.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name));
        is_netbios || self.realm.eq_ignore_ascii_case(name)
    }

    fn has_suffix(&self, suffix: &str) -> bool {
        self.suffixes.iter().any(|own| own.eq_ignore_ascii_case(suffix))
    }
}

/// The domain of this server and those that it trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Domains {
    /// This server's domain or realm.
    pub own: Option<Domain>,
    /// Trusted domains.
    pub trusted: Vec<Domain>,
    /// A name without a domain means this server's domain if this server and its host have no such account,
    /// and the host writes names of that domain without it. Samba calls it `winbind use default domain`.
    pub default_domain: bool,
    /// The names of this server itself, for `SERVER\bob`.
    pub server_names: Vec<String>,
}

impl Domains {
    /// The own domain and the trusted ones.
    pub fn all(&self) -> impl Iterator<Item = &Domain> {
        self.own.iter().chain(&self.trusted)
    }

    /// The domain of a realm.
    #[must_use]
    pub fn of_realm(&self, realm: &str) -> Option<&Domain> {
        self.all().find(|domain| domain.realm.eq_ignore_ascii_case(realm))
    }

    /// The domain that an account with this SID belongs to.
    #[must_use]
    pub fn of_sid(&self, sid: &Sid) -> Option<&Domain> {
        self.all().find(|domain| domain.sid.is_some_and(|own| sid.rid_in(&own).is_some()))
    }

    /// The domain with this NetBIOS or DNS name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Domain> {
        self.all().find(|domain| domain.is_named(name))
    }

    /// Whether this server's domain is a realm without Active Directory. Its tickets have no PAC, and its
    /// principals are users of this server or its host.
    #[must_use]
    pub fn is_plain_realm(&self, realm: &str) -> bool {
        let own = self.own.as_ref().filter(|own| own.realm.eq_ignore_ascii_case(realm));
        own.is_some_and(|own| own.netbios.is_none())
    }

    /// The accounts that a text may mean, the likeliest first. None of an unknown domain is among them, and
    /// none for a text that no account can have.
    #[must_use]
    pub fn keys(&self, text: &str) -> Vec<AccountKey> {
        if !is_account_name(text) {
            return Vec::new();
        }
        if let Ok(sid) = text.parse() {
            return vec![AccountKey::Sid(sid)];
        }
        if let Some((domain, name)) = text.split_once('\\') {
            return self.keys_in(domain, name).into_iter().collect();
        }
        let Some((name, suffix)) = text.rsplit_once('@') else { return self.plain(text) };
        if name.is_empty() {
            return Vec::new();
        }
        // Active Directory looks for an explicit user principal name before the implicit one of the account.
        let has_suffix = self.all().any(|domain| domain.has_suffix(suffix) || domain.is_named(suffix));
        let explicit = has_suffix.then(|| AccountKey::Principal(text.to_lowercase().into()));
        explicit.into_iter().chain(self.keys_in(suffix, name)).collect()
    }

    /// The suffix of a text that may be a user principal name with a suffix that these settings do not have.
    #[must_use]
    pub fn unknown_suffix<'t>(&self, text: &'t str) -> Option<&'t str> {
        let (name, suffix) = text.rsplit_once('@').filter(|_| is_account_name(text))?;
        let is_name = !name.is_empty() && !suffix.is_empty() && !text.contains('\\');
        let is_known = self.all().any(|domain| domain.has_suffix(suffix) || domain.is_named(suffix));
        Some(suffix).filter(|_| is_name && !is_known)
    }

    fn keys_in(&self, domain: &str, name: &str) -> Option<AccountKey> {
        if name.is_empty() {
            return None;
        }
        match self.all().find(|one| one.is_named(domain)) {
            Some(domain) if self.is_plain_realm(&domain.realm) => Some(AccountKey::local(name)),
            Some(domain) => Some(AccountKey::in_realm(&domain.realm, name)),
            None => {
                let is_ours = self.server_names.iter().any(|own| own.eq_ignore_ascii_case(domain));
                is_ours.then(|| AccountKey::local(name))
            }
        }
    }

    fn plain(&self, name: &str) -> Vec<AccountKey> {
        if name.is_empty() {
            return Vec::new();
        }
        let own = self.own.as_ref().filter(|own| self.default_domain && own.netbios.is_some());
        let in_domain = own.map(|own| AccountKey::in_realm(&own.realm, name));
        std::iter::once(AccountKey::local(name)).chain(in_domain).collect()
    }

    /// The forms in which the host may know an account of a domain: those of winbind and of sssd.
    #[must_use]
    pub fn host_forms(&self, realm: &str, name: &str) -> Vec<String> {
        let Some(domain) = self.of_realm(realm) else { return Vec::new() };
        let mut forms = Vec::new();
        forms.extend(domain.netbios.as_ref().map(|netbios| format!("{netbios}\\{name}")));
        forms.push(format!("{name}@{}", domain.realm.to_lowercase()));
        if self.default_domain && self.own.as_ref() == Some(domain) {
            forms.push(name.to_owned());
        }
        forms
    }
}

/// Whether some account may have this text as its name.
fn is_account_name(text: &str) -> bool {
    text.len() <= MAX_NAME && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domains(default_domain: bool) -> Domains {
        let mut own = Domain::new("corp.example", Some("corp"));
        own.suffixes.push("mail.example".to_owned());
        let trusted = vec![Domain::new("LAB.EXAMPLE", Some("LAB"))];
        Domains { own: Some(own), trusted, default_domain, server_names: vec!["nas1".to_owned()] }
    }

    #[test]
    fn a_text_means_accounts_of_known_domains() {
        let corp: Arc<str> = "CORP.EXAMPLE".into();
        let bob = || AccountKey::in_realm(&corp, "bob");
        let principal = |text: &str| AccountKey::Principal(text.into());
        let keys = |text: &str| domains(false).keys(text);
        assert_eq!(keys("CORP\\Bob"), [bob()]);
        assert_eq!(keys("corp.example\\BOB"), [bob()]);
        assert_eq!(keys("Bob@Corp.Example"), [principal("bob@corp.example"), bob()]);
        assert_eq!(keys("b.smith@mail.example"), [principal("b.smith@mail.example")]);
        assert_eq!(keys("LAB\\bob"), [AccountKey::in_realm(&"LAB.EXAMPLE".into(), "bob")]);
        assert_eq!(keys("NAS1\\Bob"), [AccountKey::local("Bob")]);
        assert_eq!(keys("bob"), [AccountKey::local("bob")]);
        assert_eq!(domains(true).keys("bob"), [AccountKey::local("bob"), bob()]);
        assert_eq!(keys("S-1-5-18"), [AccountKey::Sid(Sid::new(5, &[18]))]);
        let long = format!("CORP\\{}", "x".repeat(600));
        for unknown in
            [long.as_str(), "CORP\\b\0b", "OTHER\\bob", "bob@other.example", "", "@corp.example", "CORP\\"]
        {
            assert_eq!(keys(unknown), [], "{unknown}");
        }
    }

    #[test]
    fn a_suffix_that_the_settings_lack_is_told() {
        let suffix = |text| domains(false).unknown_suffix(text);
        assert_eq!(suffix("bob@other.example"), Some("other.example"));
        for known in ["bob@Corp.Example", "b.smith@mail.example", "bob@lab", "bob", "@x", "bob@", "CORP\\b@x"]
        {
            assert_eq!(suffix(known), None, "{known}");
        }
    }

    #[test]
    fn principals_of_a_plain_realm_are_users_of_the_host() {
        let own = Some(Domain::new("REALM.TEST", None));
        let domains = Domains { own, ..Domains::default() };
        let keys = [AccountKey::Principal("ann@realm.test".into()), AccountKey::local("ann")];
        assert_eq!(domains.keys("ann@REALM.TEST"), keys);
    }

    #[test]
    fn the_host_knows_the_forms_of_winbind_and_sssd() {
        assert_eq!(domains(false).host_forms("CORP.EXAMPLE", "bob"), ["CORP\\bob", "bob@corp.example"]);
        assert_eq!(domains(true).host_forms("corp.example", "bob")[2], "bob");
        assert_eq!(domains(true).host_forms("LAB.EXAMPLE", "bob").len(), 2);
    }
}
