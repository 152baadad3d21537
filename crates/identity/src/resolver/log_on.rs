//! The log-on with a ticket: the PAC has the SIDs, and the other sources have the ids.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use volume::security::Sid;

use super::Resolver;
use crate::account::{GroupIds, User};
use crate::error::IdentityError;
use crate::mapping::IdMapping;
use crate::names::{AccountKey, Domain};
use crate::source::SourceUser;

/// The content of a verified PAC about a user (MS-PAC 2.5, KERB_VALIDATION_INFO), after the filter of SIDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacLogon {
    /// The account name (`EffectiveName`).
    pub account: String,
    /// The NetBIOS name of the user's domain (`LogonDomainName`).
    pub netbios: String,
    /// The user's SID.
    pub sid: Sid,
    /// The primary group.
    pub primary_group: Sid,
    /// All groups: those of the domain, further SIDs, and those of the server's domain.
    pub groups: Vec<Sid>,
    /// The user principal name (UPN_DNS_INFO).
    pub principal: Option<String>,
}

/// The log-on of a user by a ticket that is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketLogon {
    /// The client's principal without its realm, components parted by `/`.
    pub name: String,
    /// The client's realm.
    pub realm: String,
    /// The PAC; none: the ticket has no verified one.
    pub pac: Option<PacLogon>,
}

impl Resolver {
    /// The user of a ticket. Groups are those of the PAC and those that the host adds.
    ///
    /// # Errors
    /// [`IdentityError`]: the user may not log on.
    pub fn log_on(&self, logon: &TicketLogon) -> Result<Arc<User>, IdentityError> {
        let principal = format!("{}@{}", logon.name, logon.realm);
        let domains = &self.settings.domains;
        let Some(domain) = domains.of_realm(&logon.realm) else {
            return Err(IdentityError::UnknownRealm(principal));
        };
        let user = match &logon.pac {
            Some(pac) => {
                check_domain(domain, pac)?;
                self.log_on_with_pac(&domain.realm, pac)?
            }
            None if domains.is_plain_realm(&logon.realm) => {
                // The rule of MIT's default auth_to_local: a principal of one component is the user of that
                // name.
                let plain = (!logon.name.contains('/')).then(|| AccountKey::local(&logon.name));
                let user = plain.map(|key| self.user(&key)).transpose()?.flatten();
                user.ok_or(IdentityError::UnknownUser(principal))?
            }
            None => return Err(IdentityError::NoPac(principal)),
        };
        if user.enabled { Ok(user) } else { Err(IdentityError::Disabled(user.nt_name())) }
    }

    fn log_on_with_pac(&self, realm: &Arc<str>, pac: &PacLogon) -> Result<Arc<User>, IdentityError> {
        let known = match self.user(&AccountKey::Sid(pac.sid)) {
            Ok(known) => known,
            // The PAC has all that the formulas need.
            Err(IdentityError::Unavailable(_)) if self.is_by_formula() || self.directory.is_none() => None,
            Err(refusal) => return Err(refusal),
        };
        // A directory that hangs has taken its time. The host must not look silent because of that.
        let deadline = Instant::now() + self.settings.answer_limit;
        let base = match known {
            Some(user) => user,
            None => {
                self.check_name(realm, pac, deadline)?;
                let user = Arc::new(self.checked(source_user(realm, pac), deadline)?);
                let mut cache = crate::sync::lock(&self.users.cache);
                cache.insert(&AccountKey::Sid(pac.sid), Arc::clone(&user), self.clock.now());
                user
            }
        };
        let groups = self.groups_of(pac, &base, deadline)?;
        Ok(Arc::new(User { groups: self.interner.list(groups), ..User::clone(&base) }))
    }

    /// The groups of the PAC, and the host's groups of the record. Groups of the directory do not count: the
    /// ticket is what the domain says now.
    fn groups_of(
        &self,
        pac: &PacLogon,
        base: &User,
        deadline: Instant,
    ) -> Result<Vec<GroupIds>, IdentityError> {
        let mut seen = HashSet::new();
        let sids = std::iter::once(&pac.primary_group).chain(&pac.groups);
        let sids: Vec<Sid> = sids.filter(|sid| seen.insert(**sid)).copied().collect();
        let mut groups = self.group_ids(&sids, deadline)?;
        let host = base.groups.iter().filter(|group| group.sid.as_unix_group().is_some());
        groups.extend(host.map(|group| GroupIds::clone(group)));
        Ok(groups)
    }

    /// Refuses a ticket whose account name has another SID in the directory.
    fn check_name(&self, realm: &Arc<str>, pac: &PacLogon, deadline: Instant) -> Result<(), IdentityError> {
        let key = AccountKey::in_realm(realm, &pac.account);
        let found = match self.directory_user(&key, deadline) {
            Err(IdentityError::Unavailable(_)) if self.is_by_formula() => return Ok(()),
            found => found?,
        };
        match found.and_then(|user| user.sid) {
            Some(other) if other != pac.sid => Err(IdentityError::Disagreement {
                account: pac.account.clone(),
                subject: "SID",
                first: format!("the ticket ({})", pac.sid),
                second: format!("the directory ({other})"),
            }),
            _ => Ok(()),
        }
    }

    /// Whether ids follow from SIDs alone.
    fn is_by_formula(&self) -> bool {
        !matches!(self.settings.mapping, IdMapping::Attributes(_) | IdMapping::Host)
    }
}

/// Refuses a SID of another domain than the ticket's.
fn check_domain(domain: &Domain, pac: &PacLogon) -> Result<(), IdentityError> {
    match domain.sid {
        Some(own) if pac.sid.rid_in(&own).is_none() => Err(IdentityError::Disagreement {
            account: pac.account.clone(),
            subject: "SID",
            first: format!("the ticket ({})", pac.sid),
            second: format!("the settings of its domain {} ({own})", domain.realm),
        }),
        _ => Ok(()),
    }
}

fn source_user(realm: &Arc<str>, pac: &PacLogon) -> SourceUser {
    SourceUser {
        account: pac.account.clone(),
        realm: Some(Arc::clone(realm)),
        principal: pac.principal.clone(),
        sid: Some(pac.sid),
        primary_group: Some(pac.primary_group),
        groups: pac.groups.clone(),
        nested_included: true,
        ..SourceUser::default()
    }
}
