//! Active Directory as a source: the searches for users and groups, and the choice of a domain controller.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use volume::security::Sid;
use wire::{Cursor, Writer};

use super::connection::{LdapConnection, LdapError, SaslContext};
use super::message::{Filter, LdapEntry, LdapSearch, Scope};
use super::transport::LdapTls;
use crate::clock::Clock;
use crate::names::AccountKey;
use crate::source::{AccountSource, SilenceScope, Silent, SourceGroup, SourceUser};
use crate::sync::lock;

/// The time for which a domain controller is not asked after it failed.
const REST: Duration = Duration::from_secs(60);
/// The time that one domain controller has to answer if there is another one, or an idle connection to it.
const FIRST_TRY: Duration = Duration::from_secs(2);
/// The number of idle connections.
const MOST_IDLE: usize = 8;
/// The groups of one search. Active Directory limits the size of a filter.
const GROUPS_AT_ONCE: usize = 200;
/// ACCOUNTDISABLE and the types of accounts that log on (MS-SAMR 2.2.1.12).
const ACCOUNT_DISABLE: u32 = 2;

const USER_ATTRIBUTES: &[&str] = &[
    "sAMAccountName",
    "userPrincipalName",
    "objectSid",
    "uidNumber",
    "gidNumber",
    "primaryGroupID",
    "userAccountControl",
];
const GROUP_ATTRIBUTES: &[&str] = &["sAMAccountName", "objectSid", "gidNumber"];

/// A domain controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DomainController {
    /// The host name, which the service principal name has.
    pub host: String,
    /// The address of LDAP.
    pub address: SocketAddr,
}

/// The way to the domain controllers.
pub trait Locator: Send + Sync {
    /// The domain controllers, the best first.
    ///
    /// # Errors
    /// The reason, for the log.
    fn controllers(&self, deadline: Instant) -> Result<Vec<DomainController>, String>;

    /// A new log-on to the LDAP service of this host. Getting a ticket may block, until the deadline.
    /// `channel` are the bindings to the channel that protects the messages; none: the mechanism protects
    /// them.
    ///
    /// # Errors
    /// The reason, for the log.
    fn log_on(
        &self,
        host: &str,
        channel: Option<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Box<dyn SaslContext>, String>;
}

/// The settings of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LdapSettings {
    /// The realm in upper case.
    pub realm: Arc<str>,
    /// The distinguished name of the base, such as `DC=corp,DC=example`.
    pub base: String,
    /// The domain's SID. Only groups of the domain count: a directory may name groups of this machine too.
    pub domain: Option<Sid>,
}

impl LdapSettings {
    /// The settings of a domain of Active Directory, whose base follows from its name.
    #[must_use]
    pub fn of_realm(realm: &str, domain: Option<Sid>) -> LdapSettings {
        let parts: Vec<String> = realm.split('.').map(|part| format!("DC={}", part.to_lowercase())).collect();
        LdapSettings { realm: realm.to_uppercase().into(), base: parts.join(","), domain }
    }

    /// Whether a directory may say that a user has this group.
    fn may_grant(&self, group: &Sid) -> bool {
        match &self.domain {
            Some(domain) => group.rid_in(domain).is_some(),
            // Groups of a controller itself, such as its administrators (S-1-5-32-544), are none of this
            // server.
            None => group.authority() == 5 && group.subs().first() == Some(&21),
        }
    }
}

/// Active Directory by LDAP.
pub struct LdapDirectory {
    settings: LdapSettings,
    tls: Option<LdapTls>,
    locator: Arc<dyn Locator>,
    clock: Arc<dyn Clock>,
    pub(super) idle: Mutex<Vec<(String, LdapConnection)>>,
    /// The hosts that failed, until when they rest.
    resting: Mutex<HashMap<String, Duration>>,
    /// The host that answered last. It is asked first, so that a dead one costs time once.
    preferred: Mutex<Option<String>>,
}

type LdapJob<'a, T> = &'a dyn Fn(&mut LdapConnection, Instant) -> Result<T, LdapError>;

impl LdapDirectory {
    /// The directory behind these domain controllers.
    #[must_use]
    pub fn new(settings: LdapSettings, locator: Arc<dyn Locator>, clock: Arc<dyn Clock>) -> LdapDirectory {
        LdapDirectory {
            settings,
            tls: None,
            locator,
            clock,
            idle: Mutex::default(),
            resting: Mutex::default(),
            preferred: Mutex::default(),
        }
    }

    pub(super) fn settings(&self) -> &LdapSettings {
        &self.settings
    }

    /// The same directory, asked within TLS.
    #[must_use]
    pub fn within(self, tls: Option<LdapTls>) -> LdapDirectory {
        LdapDirectory { tls, ..self }
    }

    /// Runs a job on an idle connection, or on a new one to the first domain controller that answers.
    fn with_connection<T>(&self, deadline: Instant, job: LdapJob<'_, T>) -> Result<T, Silent> {
        if let Some(value) = self.on_idle(deadline, job) {
            return Ok(value);
        }
        let silent = |scope: SilenceScope, reason: String| Silent {
            source_name: format!("the directory of {}", self.settings.realm),
            reason,
            scope,
        };
        let controllers = self.locator.controllers(deadline);
        let all = self.in_order(controllers.map_err(|reason| silent(SilenceScope::Source, reason))?);
        let mut scope = SilenceScope::Source;
        let mut reason = "the domain has no domain controller; check its DNS".to_owned();
        for (at, controller) in all.iter().enumerate() {
            let is_last = at + 1 == all.len();
            let until = if is_last { deadline } else { deadline.min(Instant::now() + FIRST_TRY) };
            match self.ask(controller, until, job) {
                Ok(value) => return Ok(value),
                Err((failed, why)) => {
                    reason = format!("{}: {why}", controller.host);
                    if failed == SilenceScope::Account {
                        scope = failed;
                    }
                }
            }
            self.rest(&controller.host);
        }
        Err(silent(scope, reason))
    }

    /// The result on an idle connection. The server may have closed it, or may be gone. Then a new one is
    /// made.
    fn on_idle<T>(&self, deadline: Instant, job: LdapJob<'_, T>) -> Option<T> {
        let (host, mut connection) = lock(&self.idle).pop()?;
        let begun = Instant::now();
        match job(&mut connection, deadline.min(begun + FIRST_TRY)) {
            Ok(value) => {
                self.keep(host, connection);
                Some(value)
            }
            Err(_) => {
                if begun.elapsed() >= FIRST_TRY {
                    self.rest(&host);
                }
                None
            }
        }
    }

    /// The controllers in the order in which they are asked.
    fn in_order(&self, mut controllers: Vec<DomainController>) -> Vec<DomainController> {
        let (now, preferred) = (self.clock.now(), lock(&self.preferred).clone());
        let resting = lock(&self.resting);
        controllers.sort_by_key(|one| {
            let rests = resting.get(&one.host).is_some_and(|until| now < *until);
            (rests, preferred.as_ref() != Some(&one.host))
        });
        controllers
    }

    fn rest(&self, host: &str) {
        lock(&self.resting).insert(host.to_owned(), self.clock.now() + REST);
        lock(&self.idle).retain(|(idle, _)| idle != host);
    }

    fn keep(&self, host: String, connection: LdapConnection) {
        let mut idle = lock(&self.idle);
        if idle.len() < MOST_IDLE {
            idle.push((host, connection));
        }
    }

    /// The result of a job on a new connection. A controller that takes the log-on is there, and fails for
    /// this account alone.
    fn ask<T>(
        &self,
        controller: &DomainController,
        deadline: Instant,
        job: LdapJob<'_, T>,
    ) -> Result<T, (SilenceScope, LdapError)> {
        let log_on = || {
            let mut connection = LdapConnection::connect(controller, self.tls.as_ref(), deadline)?;
            let layer = self.locator.log_on(&controller.host, connection.channel(), deadline);
            connection.bind(layer.map_err(LdapError::Sasl)?, deadline)?;
            Ok(connection)
        };
        let mut connection = log_on().map_err(|why| (SilenceScope::Source, why))?;
        let value = job(&mut connection, deadline).map_err(|why| (SilenceScope::Account, why))?;
        lock(&self.resting).remove(&controller.host);
        *lock(&self.preferred) = Some(controller.host.clone());
        self.keep(controller.host.clone(), connection);
        Ok(value)
    }

    fn subtree<'a>(&'a self, filter: &'a Filter, attributes: &'a [&'a str]) -> LdapSearch<'a> {
        LdapSearch { base: &self.settings.base, scope: Scope::Subtree, filter, attributes }
    }

    /// The user of an entry, with all groups (`tokenGroups`, MS-ADTS 3.1.1.4.5.19).
    fn user_of(
        &self,
        entry: &LdapEntry,
        connection: &mut LdapConnection,
        deadline: Instant,
    ) -> Result<Option<SourceUser>, LdapError> {
        let Some(account) = entry.text("sAMAccountName") else { return Ok(None) };
        let sid = sid_of(entry);
        // A directory speaks for the accounts of its own domain alone.
        if sid.is_none_or(|sid| !self.settings.may_grant(&sid)) {
            return Ok(None);
        }
        let groups = connection.all_values(&entry.name, "tokenGroups", deadline)?;
        let groups = groups.iter().filter_map(|bytes| parse_sid(bytes));
        let domain = sid.and_then(|sid| parent(&sid));
        let primary = domain.zip(entry.number("primaryGroupID")).and_then(|(domain, rid)| domain.child(rid));
        Ok(Some(SourceUser {
            account: account.to_owned(),
            realm: Some(Arc::clone(&self.settings.realm)),
            principal: entry.text("userPrincipalName").map(str::to_owned),
            sid,
            uid: entry.number("uidNumber"),
            gid: entry.number("gidNumber"),
            primary_group: primary,
            groups: groups.filter(|group| self.settings.may_grant(group)).collect(),
            nested_included: true,
            gids: Vec::new(),
            disabled: entry.number("userAccountControl").is_some_and(|bits| bits & ACCOUNT_DISABLE != 0),
        }))
    }

    fn group_of(&self, entry: &LdapEntry) -> Option<SourceGroup> {
        Some(SourceGroup {
            name: entry.text("sAMAccountName")?.to_owned(),
            realm: Some(Arc::clone(&self.settings.realm)),
            sid: Some(sid_of(entry).filter(|sid| self.settings.may_grant(sid))?),
            gid: entry.number("gidNumber"),
            groups: Vec::new(),
        })
    }

    /// The condition for a key; none: no account of this directory has it.
    fn condition(&self, key: &AccountKey, id_attribute: &'static str) -> Option<Filter> {
        let equal = |attribute, value: &[u8]| Filter::Equal(attribute, value.to_vec());
        match key {
            AccountKey::Sid(sid) => {
                let mut bytes = Vec::new();
                sid.encode(&mut Writer::new(&mut bytes));
                Some(equal("objectSid", &bytes))
            }
            AccountKey::Id(id) => Some(equal(id_attribute, id.to_string().as_bytes())),
            AccountKey::Name { realm: Some(realm), name } if *realm == self.settings.realm => {
                Some(equal("sAMAccountName", name.as_bytes()))
            }
            AccountKey::Name { .. } => None,
            AccountKey::Principal(text) => Some(equal("userPrincipalName", text.as_bytes())),
        }
    }
}

impl AccountSource for LdapDirectory {
    fn users(&self, key: &AccountKey, deadline: Instant) -> Result<Vec<SourceUser>, Silent> {
        let Some(condition) = self.condition(key, "uidNumber") else { return Ok(Vec::new()) };
        // Machines are users too (`objectClass` user), but not contacts and groups.
        let filter = Filter::And(vec![Filter::Equal("objectClass", b"user".to_vec()), condition]);
        self.with_connection(deadline, &|connection, deadline| {
            let entries = connection.search(&self.subtree(&filter, USER_ATTRIBUTES), deadline)?;
            let mut users = Vec::new();
            for entry in &entries {
                users.extend(self.user_of(entry, connection, deadline)?);
            }
            Ok(users)
        })
    }

    fn groups(&self, keys: &[AccountKey], deadline: Instant) -> Result<Vec<SourceGroup>, Silent> {
        let mut groups = Vec::new();
        for keys in keys.chunks(GROUPS_AT_ONCE) {
            let conditions: Vec<Filter> =
                keys.iter().filter_map(|key| self.condition(key, "gidNumber")).collect();
            if conditions.is_empty() {
                continue;
            }
            let class = Filter::Equal("objectClass", b"group".to_vec());
            let filter = Filter::And(vec![class, Filter::Or(conditions)]);
            let entries = self.with_connection(deadline, &|connection, deadline| {
                connection.search(&self.subtree(&filter, GROUP_ATTRIBUTES), deadline)
            })?;
            groups.extend(entries.iter().filter_map(|entry| self.group_of(entry)));
        }
        Ok(groups)
    }

    fn upn_suffixes(&self, deadline: Instant) -> Result<Vec<String>, Silent> {
        let any = Filter::Present("objectClass");
        self.with_connection(deadline, &|connection, deadline| {
            // The configuration is that of the forest, whose root may be another domain.
            let attributes = &["configurationNamingContext"];
            let search = LdapSearch { base: "", scope: Scope::Base, filter: &any, attributes };
            let root = connection.search(&search, deadline)?;
            let configuration = root.first().and_then(|root| root.text("configurationNamingContext"));
            let Some(configuration) = configuration else { return Ok(Vec::new()) };
            let partitions = format!("CN=Partitions,{configuration}");
            let search = LdapSearch { base: &partitions, attributes: &["uPNSuffixes"], ..search };
            let found = connection.search(&search, deadline)?;
            let values = found.iter().flat_map(|entry| entry.values("uPNSuffixes"));
            Ok(values.map(|suffix| String::from_utf8_lossy(suffix).to_lowercase()).collect())
        })
    }
}

fn sid_of(entry: &LdapEntry) -> Option<Sid> {
    entry.values("objectSid").first().and_then(|bytes| parse_sid(bytes))
}

fn parse_sid(bytes: &[u8]) -> Option<Sid> {
    let mut cursor = Cursor::new(bytes);
    Sid::parse(&mut cursor).ok().filter(|_| cursor.remaining() == 0)
}

/// The SID of an account's domain.
fn parent(sid: &Sid) -> Option<Sid> {
    let (_, front) = sid.subs().split_last()?;
    Some(Sid::new(sid.authority(), front))
}
