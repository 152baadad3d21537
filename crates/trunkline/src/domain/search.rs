//! Asks the directory of a domain the few questions that a membership has: whether an account is there, who
//! has a service principal, and what the domain is called.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use identity::ldap::connection::{LdapConnection, LdapError, SaslContext};
use identity::ldap::message::{Filter, LdapEntry, LdapSearch, Scope};
use identity::ldap::{DomainController, LdapSettings, LdapTls, Locator};
use kerberos::TicketSource;
use volume::security::Sid;
use wire::Cursor;

use super::directory;

/// The longest wait for the directory.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time that one controller has if there is another one.
const FIRST_TRY: Duration = Duration::from_secs(2);
/// The attributes of an account that count for a membership.
const ACCOUNT: &[&str] =
    &["sAMAccountName", "userAccountControl", "primaryGroupID", "dNSHostName", "servicePrincipalName"];

/// The log-on to one controller by the tickets of a credential cache.
#[derive(Debug, Clone)]
pub struct CachedTickets {
    /// The realm.
    pub realm: String,
    /// The name of the cache, such as `FILE:/tmp/cache`.
    pub cache: String,
    /// The controller.
    pub controller: DomainController,
}

impl Locator for CachedTickets {
    fn controllers(&self, _: Instant) -> Result<Vec<DomainController>, String> {
        Ok(vec![self.controller.clone()])
    }

    fn log_on(
        &self,
        host: &str,
        channel: Option<Vec<u8>>,
        _: Instant,
    ) -> Result<Box<dyn SaslContext>, String> {
        let source = TicketSource::Cache(self.cache.clone());
        directory::begin(&source, &format!("ldap/{host}@{}", self.realm), channel)
    }
}

/// The name and the SID of a domain, as its directory says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DomainIdentity {
    /// The short name, such as `CORP`.
    pub netbios_name: Option<String>,
    /// The SID.
    pub sid: Option<String>,
}

/// A connection to the directory of a domain.
pub struct DirectorySearch {
    connection: LdapConnection,
    /// The host name of the controller.
    pub controller: String,
    base: String,
    deadline: Instant,
}

impl DirectorySearch {
    /// Logs on to the first controller that answers. Those of `silent` are left out.
    ///
    /// # Errors
    /// The reason, with the controller.
    pub fn begin(
        locator: &dyn Locator,
        realm: &str,
        tls: Option<&LdapTls>,
        silent: &[&str],
    ) -> Result<DirectorySearch, String> {
        let deadline = Instant::now() + PATIENCE;
        let mut controllers = locator.controllers(deadline)?;
        controllers.retain(|one| !silent.contains(&one.host.as_str()));
        let mut reason = "the domain has no controller that answers".to_owned();
        for (at, controller) in controllers.iter().enumerate() {
            let is_last = at + 1 == controllers.len();
            let until = if is_last { deadline } else { deadline.min(Instant::now() + FIRST_TRY) };
            match log_on(locator, controller, tls, until) {
                Ok(connection) => {
                    let base = LdapSettings::of_realm(realm, None).base;
                    let controller = controller.host.clone();
                    return Ok(DirectorySearch { connection, controller, base, deadline });
                }
                Err(why) => reason = format!("{}: {why}", controller.host),
            }
        }
        Err(reason)
    }

    fn search(&mut self, filter: &Filter, attributes: &[&str]) -> Result<Vec<LdapEntry>, String> {
        let base = self.base.clone();
        self.search_at(&base, Scope::Subtree, filter, attributes)
    }

    fn search_at(
        &mut self,
        base: &str,
        scope: Scope,
        filter: &Filter,
        attributes: &[&str],
    ) -> Result<Vec<LdapEntry>, String> {
        let search = LdapSearch { base, scope, filter, attributes };
        let found = self.connection.search(&search, self.deadline);
        found.map_err(|why| format!("{}: {why}", self.controller))
    }

    /// The account with this name, such as `FILES$`.
    ///
    /// # Errors
    /// The reason, with the controller.
    pub fn account(&mut self, name: &str) -> Result<Option<LdapEntry>, String> {
        let filter = Filter::Equal("sAMAccountName", name.as_bytes().to_vec());
        Ok(self.search(&filter, ACCOUNT)?.into_iter().next())
    }

    /// The accounts that have one of these service principals.
    ///
    /// # Errors
    /// The reason, with the controller.
    pub fn owners(&mut self, principals: &[String]) -> Result<Vec<LdapEntry>, String> {
        let one = |principal: &String| Filter::Equal("servicePrincipalName", principal.as_bytes().to_vec());
        let mut found = Vec::new();
        // Active Directory limits the size of a filter.
        for some in principals.chunks(100) {
            found.extend(self.search(&Filter::Or(some.iter().map(one).collect()), ACCOUNT)?);
        }
        Ok(found)
    }

    /// The domain's own name and SID.
    ///
    /// # Errors
    /// The reason, with the controller.
    pub fn domain(&mut self) -> Result<DomainIdentity, String> {
        let (any, base) = (Filter::Present("objectClass"), self.base.clone());
        let own = self.search_at(&base, Scope::Base, &any, &["objectSid"])?;
        let sid = own.first().and_then(|entry| sid_of(entry.values("objectSid").first()?));
        let root = self.search_at("", Scope::Base, &any, &["configurationNamingContext"])?;
        let root = root.first().and_then(|root| root.text("configurationNamingContext"));
        let Some(configuration) = root else { return Ok(DomainIdentity { netbios_name: None, sid }) };
        let partitions = format!("CN=Partitions,{configuration}");
        let of_domain = Filter::Equal("nCName", base.into_bytes());
        let found = self.search_at(&partitions, Scope::Subtree, &of_domain, &["nETBIOSName"])?;
        let name = found.first().and_then(|entry| entry.text("nETBIOSName"));
        Ok(DomainIdentity { netbios_name: name.map(str::to_uppercase), sid })
    }
}

fn log_on(
    locator: &dyn Locator,
    controller: &DomainController,
    tls: Option<&LdapTls>,
    until: Instant,
) -> Result<LdapConnection, LdapError> {
    let mut connection = LdapConnection::connect(controller, tls, until)?;
    let layer = locator.log_on(&controller.host, connection.channel(), until);
    connection.bind(layer.map_err(LdapError::Sasl)?, until)?;
    Ok(connection)
}

fn sid_of(bytes: &[u8]) -> Option<String> {
    let mut cursor = Cursor::new(bytes);
    let sid = Sid::parse(&mut cursor).ok().filter(|_| cursor.remaining() == 0)?;
    Some(sid.to_string())
}

/// The LDAP service of a host.
pub fn service_of(host: &str, address: SocketAddr) -> DomainController {
    /// The port of LDAP.
    const PORT: u16 = 389;
    DomainController { host: host.to_owned(), address: SocketAddr::new(address.ip(), PORT) }
}
