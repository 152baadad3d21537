//! The names of the domain's users and groups for the engine, as far as the resolver knows them. The engine's
//! functions never wait: what is not known yet is looked up beside, and is there at a later call.

use std::sync::Arc;
use std::time::Instant;

use ::identity::{AccountKey, Domain, Found, Group, User};
use share::engine::{AccountDomain, AccountKind, AccountName, AccountQuery};
use smb::config::grantee::parts;
use volume::security::Sid;

use super::domain_users::DomainIds;

impl DomainIds {
    /// The joined domain.
    pub fn account_domain(&self) -> Option<AccountDomain> {
        self.resolver().settings().domains.own.as_ref().and_then(shown)
    }

    /// The joined domain and those that it trusts.
    pub fn account_domains(&self) -> Vec<AccountDomain> {
        self.resolver().settings().domains.all().filter_map(shown).collect()
    }

    /// The names of the user or group of the domain with a SID.
    pub fn account_name(&self, sid: &Sid) -> Option<AccountName> {
        let domain = shown(self.resolver().settings().domains.of_sid(sid)?)?;
        let key = AccountKey::Sid(*sid);
        let user = self.resolver().known_user(&key).map(|user| (user_kind(&user), user.account.to_string()));
        let group = || {
            let group = self.resolver().known_group(&key)?;
            Some((AccountKind::Group, group.name.to_string()))
        };
        let (kind, name) = user.or_else(group)?;
        Some(AccountName { kind, domain: domain.name, dns_domain: Some(domain.dns_name), name })
    }

    /// The user or group of a domain with a name. The domain is a NetBIOS or a DNS name.
    pub fn account_named(&self, domain: &str, name: &str) -> Option<(Sid, AccountKind)> {
        let user = self.user_named(domain, name).map(|user| (user.sid, user_kind(&user)));
        user.or_else(|| self.group_named(domain, name).map(|group| (group.sid, AccountKind::Group)))
    }

    /// Looks up the accounts of domains that `users` of shares names, so that those who log on first have
    /// their rights. Waits for a directory, but only once for one that is silent.
    pub fn look_up<'a>(&self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            let (is_group, Some(domain), account) = parts(name) else { continue };
            self.look_up_name(domain, account, is_group, None);
        }
    }

    /// Asks for accounts, so that the other functions know them. The results are remembered, refusals too.
    /// Waits for the directory, for all of them not much longer than for one.
    pub fn look_up_accounts(&self, queries: &[AccountQuery<'_>]) {
        let until = Instant::now() + self.resolver().settings().answer_limit;
        let own = self.account_domain().map(|own| own.name);
        for query in queries {
            if Instant::now() >= until {
                return;
            }
            match *query {
                AccountQuery::Sid(sid) => {
                    let key = AccountKey::Sid(sid);
                    let is_ours = self.resolver().settings().domains.of_sid(&sid).is_some();
                    if is_ours && !is_there(&self.resolver().user(&key)) && Instant::now() < until {
                        let _ = self.resolver().group(&key);
                    }
                }
                AccountQuery::Name(domain, name) => {
                    if let Some(domain) = domain.or(own.as_deref()) {
                        self.look_up_name(domain, name, false, Some(until));
                    }
                }
            }
        }
    }

    /// Asks for a user or a group with a name, for the group not after `until`.
    fn look_up_name(&self, domain: &str, account: &str, is_group: bool, until: Option<Instant>) {
        let Some(text) = self.text(domain, account) else { return };
        let has_time = || until.is_none_or(|until| Instant::now() < until);
        if is_group || !is_there(&self.resolver().user_named(&text)) && has_time() {
            let _ = self.resolver().group_named(&text);
        }
    }

    /// The user of a domain with a name.
    pub fn user_named(&self, domain: &str, name: &str) -> Option<Arc<User>> {
        let user = self.resolver().known_user_named(&self.text(domain, name)?);
        user.filter(|user| user.realm.is_some())
    }

    /// The group of a domain with a name.
    pub fn group_named(&self, domain: &str, name: &str) -> Option<Arc<Group>> {
        let group = self.resolver().known_group_named(&self.text(domain, name)?);
        group.filter(|group| group.realm.is_some())
    }

    /// `DOMAIN\name` in the joined domain or a trusted one. In another domain it is `name@domain`: the domain
    /// may be a further suffix of user principal names.
    fn text(&self, domain: &str, name: &str) -> Option<String> {
        let domains = &self.resolver().settings().domains;
        let own = domains.own.as_ref().filter(|own| own.sid.is_some() && !name.is_empty())?;
        own.netbios.as_ref()?;
        match domains.named(domain) {
            Some(domain) => Some(format!("{}\\{name}", domain.netbios.as_ref()?)),
            None => Some(format!("{name}@{domain}")),
        }
    }
}

/// A domain as the engine shows it.
fn shown(domain: &Domain) -> Option<AccountDomain> {
    let (name, dns_name) = (domain.netbios.as_ref()?.to_string(), domain.realm.to_lowercase());
    Some(AccountDomain { name, dns_name, sid: domain.sid? })
}

/// Whether an account was found.
fn is_there<T>(found: &Found<T>) -> bool {
    matches!(found, Ok(Some(_)))
}

/// The type of a user. Names of machines end with a dollar sign (MS-SAMR 3.1.1.6).
fn user_kind(user: &User) -> AccountKind {
    if user.account.ends_with('$') { AccountKind::Computer } else { AccountKind::User }
}
