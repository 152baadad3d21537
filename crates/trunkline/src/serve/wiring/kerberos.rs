//! Joins MIT's GSSAPI with the log-on: the mechanism for [`auth`], and the users of the realm as principals.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use ::kerberos::pac::{NoLogon, Pac, PacError};
use ::kerberos::{Accepted, AcceptorContext, AcceptorCredentials, Cause, GssError, Library, PacData};
use auth::{
    ContextStep, DomainAccount, KerberosTicket, Mechanism, SecurityContext, TicketRefusal, TicketRefusalKind,
};
use share::Identity;
use smb::{KerberosConfig, PrincipalRefusal, PrincipalResolver, UserConfig};

use super::domain_users::DomainUsers;
use crate::config::{Config, Domain, file_error};

/// The file of the state directory that remembers the tokens of the last minutes.
const REPLAY_CACHE: &str = "kerberos.rcache";

/// The source of identities for users of the realm, or `None` if the configuration names no realm.
pub fn resolver(
    domain: &Domain,
    users: &[UserConfig],
    domain_users: DomainUsers,
) -> Option<Arc<dyn PrincipalResolver>> {
    let realm = &domain.realm.as_ref()?.value;
    Some(Arc::new(RealmUsers::new(domain, realm, users, domain_users)))
}

/// The settings of log-ons with tickets.
///
/// # Errors
/// The library or the keytab is missing. The server runs without Kerberos then.
pub fn configure(config: &Config, resolver: &Arc<dyn PrincipalResolver>) -> Result<KerberosConfig, String> {
    let (credentials, keytab) = (Arc::new(credentials(config)?), &config.domain.keytab.value);
    if is_for_everyone(keytab) {
        tracing::warn!(
            keytab = %keytab.display(),
            "every user of this host can read the server's keys and log on as anybody: `chmod 600` the \
             keytab and make new keys (`trunkline domain renew`, or `ktadd` in a plain realm)"
        );
    }
    let resolver = Arc::clone(resolver);
    Ok(KerberosConfig { mechanism: Arc::new(GssMechanism { credentials }), resolver })
}

/// The server's keys by the configuration.
///
/// # Errors
/// The missing part, and what to do.
pub fn credentials(config: &Config) -> Result<AcceptorCredentials, String> {
    let library = Library::load().map_err(|why| why.to_string())?;
    let replay_cache = config.server.state_dir.value.join(REPLAY_CACHE);
    let (keytab, allowed) = (&config.domain.keytab.value, &config.domain.encryption_types.value);
    AcceptorCredentials::new(&library, keytab, &replay_cache, allowed).map_err(|why| {
        let shown = keytab.display();
        match std::fs::File::open(keytab) {
            Err(error) => format!(
                "the keytab {shown} cannot be read: {}; bring it there (`trunkline domain join`, or `ktadd` \
                 on the KDC), and it counts within seconds",
                file_error(keytab, &error)
            ),
            Ok(_) => format!("the keytab {shown}: {why}"),
        }
    })
}

/// Whether every user of the host can read a file.
fn is_for_everyone(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}

/// MIT's mechanism with the server's keys.
struct GssMechanism {
    credentials: Arc<AcceptorCredentials>,
}

impl Mechanism for GssMechanism {
    fn context(&self) -> Box<dyn SecurityContext> {
        Box::new(GssContext(AcceptorContext::new(&self.credentials)))
    }
}

struct GssContext(AcceptorContext);

impl SecurityContext for GssContext {
    fn step(&mut self, token: &[u8]) -> Result<ContextStep, TicketRefusal> {
        let (reply, client) = match self.0.step(token).map_err(refusal)? {
            Accepted::Continue(reply) => return Ok(ContextStep::Continue(reply)),
            Accepted::Done { reply, client } => (reply, client),
        };
        let pac = match client.pac {
            PacData::Missing => None,
            PacData::Verified(pac) => Some(pac),
        };
        let ticket = KerberosTicket {
            principal: client.principal,
            service: client.service,
            session_key: client.session_key,
            encryption_type: client.encryption_type.to_string(),
            lifetime: client.lifetime,
            pac,
        };
        Ok(ContextStep::Done(reply, ticket))
    }

    fn get_mic(&mut self, message: &[u8]) -> Result<Vec<u8>, TicketRefusal> {
        self.0.get_mic(message).map_err(refusal)
    }

    fn verify_mic(&mut self, message: &[u8], mic: &[u8]) -> bool {
        self.0.verify_mic(message, mic).is_ok()
    }
}

fn refusal(why: GssError) -> TicketRefusal {
    let kind = match why.cause() {
        // A ticket is only then not valid yet when this server's clock is behind the KDC's.
        Cause::Skew | Cause::NotYetValid => TicketRefusalKind::ClockSkew,
        Cause::BadToken => TicketRefusalKind::BadToken,
        _ => TicketRefusalKind::Invalid,
    };
    TicketRefusal { kind, why: why.to_string() }
}

/// The principals of the realm: `ann@REALM` is the local user `ann` if there is one, else a user of the
/// domain.
struct RealmUsers {
    /// Whether the realm is a domain of Active Directory, whose tickets name their accounts in a PAC.
    is_directory: bool,
    realm: String,
    /// The realms of trusted domains, which have no local users.
    trusted: Vec<String>,
    users: HashMap<String, UserConfig>,
    domain_users: DomainUsers,
}

impl RealmUsers {
    fn new(domain: &Domain, realm: &str, users: &[UserConfig], domain_users: DomainUsers) -> RealmUsers {
        // An account that logs on with its keys is no person.
        let people = users.iter().filter(|user| user.key_of.is_none());
        let users = people.map(|user| (user.identity.name.to_lowercase(), user.clone())).collect();
        let is_directory = domain.netbios_name.is_some() || domain.domain_sid.is_some();
        let trusted = domain.trusted.value.iter().map(|one| one.realm.to_uppercase()).collect();
        RealmUsers { is_directory, realm: realm.to_owned(), trusted, users, domain_users }
    }
}

impl PrincipalResolver for RealmUsers {
    fn resolve(&self, ticket: &KerberosTicket) -> Result<Arc<Identity>, PrincipalRefusal> {
        let principal = &ticket.principal;
        let unknown = |why: &str| PrincipalRefusal::Unknown(format!("`{principal}` {why}"));
        let (name, realm) = principal.rsplit_once('@').ok_or_else(|| unknown("has no realm"))?;
        let is_trusted = realm != self.realm && self.trusted.iter().any(|one| one == realm);
        if realm != self.realm && !is_trusted {
            let own = &self.realm;
            return Err(unknown(&format!(
                "is of another realm than {own} and those of `trusted` in `[domain]`"
            )));
        }
        // A principal of several parts, or with an escaped letter, is no user's (MIT's krb5_unparse_name).
        if name.is_empty() || name.contains(['/', '\\']) {
            return Err(unknown("is no user's principal"));
        }
        let wall_ns = net::now().wall_ns;
        let Some(user) = self.users.get(&name.to_lowercase()).filter(|_| !is_trusted) else {
            return self.domain_users.resolve(name, ticket, wall_ns);
        };
        let is_directory = self.check_account(name, ticket, wall_ns)?;
        // RFC 4120 6.2: a realm may have both `ann` and `Ann`. Active Directory cannot (MS-KILE 3.3.5.6).
        if !is_directory && user.identity.name != name {
            let local = &user.identity.name;
            return Err(unknown(&format!(
                "is not the local user `{local}`: in a realm that is no Active Directory the case counts"
            )));
        }
        match &user.restriction {
            None => Ok(Arc::clone(&user.identity)),
            Some(why) => Err(PrincipalRefusal::Restricted(Arc::clone(why))),
        }
    }

    fn resolve_account(&self, account: &DomainAccount) -> Result<Arc<Identity>, PrincipalRefusal> {
        // A local user has a password here, and no domain controller is asked about that name.
        if self.users.contains_key(&account.name.to_lowercase()) {
            let why = format!("`{}\\{}` is a local user of this server", account.domain, account.name);
            return Err(PrincipalRefusal::Unknown(why));
        }
        self.domain_users.resolve_account(account, net::now().wall_ns)
    }
}

impl RealmUsers {
    /// Checks that the account behind a ticket has the name of its principal. A KDC of Active Directory finds
    /// accounts by other names too (MS-KILE 3.3.5.6.1): a principal `backup` may be the machine account
    /// `backup$`, or an account that gave itself this UPN, and any user may create such an account.
    ///
    /// Returns whether the ticket is one of Active Directory.
    fn check_account(
        &self,
        name: &str,
        ticket: &KerberosTicket,
        wall_ns: i64,
    ) -> Result<bool, PrincipalRefusal> {
        let refused = |why: String| PrincipalRefusal::Unknown(format!("`{}` {why}", ticket.principal));
        let is_by_machine_account = ticket.service.split('@').next().is_some_and(|name| name.ends_with('$'));
        match ticket.pac.as_deref().map(Pac::parse) {
            Some(Ok(pac)) if pac.name.to_lowercase() != name.to_lowercase() => {
                Err(refused(format!("is the account `{}` of its domain", pac.name)))
            }
            Some(Ok(pac)) => pac.check_logon(wall_ns).map(|()| true).map_err(|why| match why {
                NoLogon::Disabled => PrincipalRefusal::Disabled,
                other => refused(format!("may not log on: {other}")),
            }),
            None | Some(Err(PacError::Missing { .. })) if !self.is_directory && !is_by_machine_account => {
                Ok(false)
            }
            None => Err(refused("has a ticket without a PAC that this server's key has signed".to_owned())),
            Some(Err(why)) => Err(refused(format!("has a PAC that cannot be used: {why}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::time::Duration;

    use super::super::domain_users::DomainIds;
    use super::*;
    use crate::config::read;

    fn user(name: &str, key_of: Option<&str>, restriction: Option<&str>) -> UserConfig {
        let identity = Arc::new(Identity { name: name.to_owned(), ..smb::nobody() });
        let (key_of, restriction) = (key_of.map(str::to_owned), restriction.map(Arc::from));
        UserConfig { identity, nt_hash: [0; 16], second_hash: None, key_of, restriction }
    }

    fn resolve(principal: &str) -> Result<String, PrincipalRefusal> {
        resolve_in("", principal, "cifs/files.example.net@EXAMPLE.NET", None)
    }

    fn resolve_in(
        settings: &str,
        principal: &str,
        service: &str,
        pac: Option<Vec<u8>>,
    ) -> Result<String, PrincipalRefusal> {
        let users =
            [user("Ann", None, None), user("lab", Some("lab"), None), user("eve", None, Some("no uid"))];
        let ticket = KerberosTicket {
            principal: principal.to_owned(),
            service: service.to_owned(),
            session_key: Default::default(),
            encryption_type: String::new(),
            lifetime: Duration::ZERO,
            pac,
        };
        let domain = read::parse("t", settings, Path::new("/")).unwrap().domain;
        let ids = DomainIds::of(&domain, &[], &smb::HostNames::default(), None);
        let domain_users = DomainUsers::new(&domain, ids, smb::nobody().sid, &users);
        RealmUsers::new(&domain, "EXAMPLE.NET", &users, domain_users)
            .resolve(&ticket)
            .map(|identity| identity.name.clone())
    }

    #[test]
    fn principals_of_the_realm_are_local_users_and_no_others_are() {
        assert_eq!(resolve("Ann@EXAMPLE.NET").as_deref(), Ok("Ann"));
        // MIT's KDC may have `ann` too, and that is somebody else.
        let why = resolve("ann@EXAMPLE.NET").unwrap_err().to_string();
        assert!(why.starts_with("`ann@EXAMPLE.NET` is not the local user `Ann`: "), "{why}");
        assert_eq!(resolve("eve@EXAMPLE.NET"), Err(PrincipalRefusal::Restricted("no uid".into())));
        for other in [
            "ann@OTHER.NET",
            "ann@example.net",
            "ann",
            "ann/admin@EXAMPLE.NET",
            "lab@EXAMPLE.NET",
            "bob@EXAMPLE.NET",
            "ann\\@EXAMPLE.NET@OTHER.NET",
            "@EXAMPLE.NET",
        ] {
            assert!(matches!(resolve(other), Err(PrincipalRefusal::Unknown(_))), "{other}");
        }
    }

    #[test]
    fn a_keytab_that_all_can_read_is_told_from_one_for_a_group() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, is_open) in [(0o600, false), (0o640, false), (0o644, true), (0o604, true)] {
            std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_for_everyone(file.path()), is_open, "{mode:o}");
        }
        assert!(!is_for_everyone(Path::new("/no/such/keytab")));
    }

    #[test]
    fn a_directory_must_say_that_the_account_has_the_name_of_a_local_user() {
        let (service, machine) = ("cifs/files.example.net@EXAMPLE.NET", "FILES$@EXAMPLE.NET");
        let directory = "[domain]\nnetbios_name = \"CORP\"\n";
        let refused = |settings, service, pac| {
            resolve_in(settings, "ann@EXAMPLE.NET", service, pac).unwrap_err().to_string()
        };
        // The KDC may have found the machine account `ann$`: only the PAC tells.
        assert!(refused(directory, service, None).contains("without a PAC"));
        assert!(refused("", machine, None).contains("without a PAC"));
        assert!(refused("", service, Some(vec![1, 2, 3])).contains("cannot be used"));
        // MS-PAC 3: the account of the example is `lzhu`.
        let example = || Some(include_bytes!("../../../../../fuzz/corpus/pac/ms-pac_3").to_vec());
        assert!(refused("", service, example()).contains("is the account `"));
        assert!(refused(directory, machine, example()).contains("is the account `"));
    }
}
