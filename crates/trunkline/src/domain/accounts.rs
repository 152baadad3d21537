//! The resolver of the domain's users and groups by the configuration: [`resolver`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use identity::host::HostSource;
use identity::ldap::{LdapDirectory, LdapDomains, LdapSettings, LdapTls};
use identity::mapping::{Autorid, IdKind, IdMapping, IdTable, RidRange};
use identity::{AccountSource, Clock, Domain as AccountDomain, Domains, HostClock, Resolver, Settings};
use volume::security::Sid;

use super::directory::MachineAccount;
use super::keytab::Keytab;
use crate::config::values::IdmapBackend;
use crate::config::{Domain, file_error};
use crate::host;

/// The time after which the thread that looks up names sees that nobody needs it any more.
const REFRESH_WAIT: Duration = Duration::from_secs(1);

/// The SID of the domain.
///
/// # Errors
/// The setting to make, as the end of a sentence.
pub fn domain_sid(domain: &Domain) -> Result<Sid, String> {
    let sid = domain.domain_sid.as_ref().ok_or("set `domain_sid` in `[domain]`")?;
    sid.value.parse().map_err(|why| format!("mend `domain_sid` in `[domain]`: {why}"))
}

/// The way from SIDs to uids and gids.
///
/// # Errors
/// The settings to make, as the end of a sentence.
pub fn id_mapping(domain: &Domain) -> Result<IdMapping, String> {
    let backend = domain.id_mapping.as_ref().map(|backend| backend.value);
    let needs_range = matches!(backend, None | Some(IdmapBackend::Rid | IdmapBackend::Rfc2307));
    let settings = [
        (backend.is_none(), "`id_mapping = \"rid\"`"),
        (needs_range && domain.id_range.is_none(), "`id_range = \"100000-199999\"`"),
        (!needs_range && domain.id_file.is_none(), "`id_file`"),
        (domain.domain_sid.is_none(), "`domain_sid`"),
    ];
    let missing: Vec<&str> = settings.iter().filter(|(lacks, _)| *lacks).map(|(_, key)| *key).collect();
    if !missing.is_empty() {
        return Err(format!("set {} in `[domain]`", missing.join(" and ")));
    }
    let sid = domain_sid(domain)?;
    match (backend, &domain.id_range, &domain.id_file) {
        (Some(IdmapBackend::Rid), Some(range), _) => {
            let own = RidRange { domain: sid, range: range.value, base_rid: 0 };
            let trusted = domain.trusted.value.iter();
            let trusted = trusted.map(|one| RidRange { domain: one.sid, range: one.range, base_rid: 0 });
            let ranges = std::iter::once(own).chain(trusted).collect();
            IdMapping::rid(ranges)
                .map_err(|why| format!("mend `id_range` and `trusted` in `[domain]`: {why}"))
        }
        _ if !domain.trusted.value.is_empty() => {
            Err("set `id_mapping = \"rid\"`, which alone has ids for domains of `trusted`, in `[domain]`"
                .to_owned())
        }
        (Some(IdmapBackend::Rfc2307), Some(range), _) => Ok(IdMapping::Attributes(range.value)),
        (Some(IdmapBackend::Table), _, Some(file)) => {
            let text = String::from_utf8(read(&file.value)?).map_err(|_| {
                format!("mend `id_file` in `[domain]`: {}: it is no text", file.value.display())
            })?;
            Ok(IdMapping::Table(IdTable::parse(&text).map_err(|why| mend(&file.value, &why))?))
        }
        (_, _, Some(file)) => {
            Ok(IdMapping::Autorid(Autorid::read(&read(&file.value)?).map_err(|why| mend(&file.value, &why))?))
        }
        // The list above names what is missing.
        _ => Err("set `id_mapping` in `[domain]`".to_owned()),
    }
}

fn mend(file: &Path, why: &dyn std::fmt::Display) -> String {
    mend_key("id_file", file, why)
}

fn mend_key(key: &str, file: &Path, why: &dyn std::fmt::Display) -> String {
    format!("mend `{key}` in `[domain]`: {}: {why}", file.display())
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|why| mend(file, &file_error(file, &why)))
}

/// The way in which the resolver asks the directory. Another way needs another resolver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryAccess {
    keytab: PathBuf,
    /// The machine account of the keytab; none: the directory is not asked.
    machine_account: Option<String>,
    /// The content of `ldap_ca`.
    authorities: Option<(PathBuf, Vec<u8>)>,
}

impl DirectoryAccess {
    /// The access by the configuration, its keytab and its authorities.
    ///
    /// # Errors
    /// The settings to make, as the end of a sentence.
    pub fn of(domain: &Domain) -> Result<DirectoryAccess, String> {
        let realm = domain.realm.as_ref().map(|realm| realm.value.as_str()).unwrap_or_default();
        let keytab = Keytab::read(&domain.keytab.value).unwrap_or_default().of_realm(realm);
        let machine_account = keytab.machine_account().map(str::to_owned);
        let authorities = match &domain.ldap_ca {
            Some(file) => {
                let pem = std::fs::read(&file.value);
                let pem =
                    pem.map_err(|why| mend_key("ldap_ca", &file.value, &file_error(&file.value, &why)))?;
                Some((file.value.clone(), pem))
            }
            None => None,
        };
        Ok(DirectoryAccess { keytab: domain.keytab.value.clone(), machine_account, authorities })
    }

    /// TLS to the directory; none: Kerberos protects the messages.
    ///
    /// # Errors
    /// The setting to mend, as the end of a sentence.
    pub fn tls(&self) -> Result<Option<LdapTls>, String> {
        let Some((file, pem)) = &self.authorities else { return Ok(None) };
        LdapTls::trusting(pem).map(Some).map_err(|why| mend_key("ldap_ca", file, &why))
    }

    fn directory(
        &self,
        settings: &Settings,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Arc<dyn AccountSource>>, String> {
        let tls = self.tls()?;
        let (Some(account), Some(own)) = (&self.machine_account, &settings.domains.own) else {
            return Ok(None);
        };
        let principal = format!("{account}@{}", own.realm);
        let of = |domain: &AccountDomain| {
            let account = MachineAccount::new(&domain.realm, &principal, self.keytab.clone());
            let ldap = LdapSettings::of_realm(&domain.realm, domain.sid);
            LdapDirectory::new(ldap, Arc::new(account), Arc::clone(clock)).within(tls.clone())
        };
        let trusted = settings.domains.trusted.iter().map(of).collect();
        Ok(Some(Arc::new(LdapDomains::new(of(own), trusted, clock, settings.caches.miss))))
    }
}

/// Whether the mapping may give an id to an account of the domain.
pub fn covers(mapping: &IdMapping, id: u32) -> bool {
    match mapping {
        IdMapping::Attributes(range) => range.contains(id),
        IdMapping::Rid(ranges) => ranges.iter().any(|one| one.range.contains(id)),
        mapping => [IdKind::User, IdKind::Group].iter().any(|kind| mapping.sid(id, *kind).is_some()),
    }
}

/// The settings of the resolver.
///
/// # Errors
/// The settings to make, as the end of a sentence.
pub fn settings(domain: &Domain, mapping: IdMapping) -> Result<Settings, String> {
    let realm = domain.realm.as_ref().ok_or("set `realm` in `[domain]`")?;
    let sid = domain_sid(domain)?;
    // Without the setting the first part of the realm is the likeliest name.
    let first = || realm.value.split('.').next().unwrap_or_default().to_owned();
    let netbios = domain.netbios_name.as_ref().map_or_else(first, |name| name.value.clone());
    let own = AccountDomain { sid: Some(sid), ..AccountDomain::new(&realm.value, Some(&netbios)) };
    let trusted = domain.trusted.value.iter().map(|one| AccountDomain {
        sid: Some(one.sid),
        ..AccountDomain::new(&one.realm, Some(&one.netbios))
    });
    let domains = Domains { own: Some(own), trusted: trusted.collect(), ..Domains::default() };
    Ok(Settings::new(domains, mapping))
}

/// A resolver over the directory, if the keytab has a machine account, and the host's user database.
///
/// # Errors
/// The settings to make, as the end of a sentence.
pub fn resolver(access: &DirectoryAccess, settings: Settings) -> Result<Arc<Resolver>, String> {
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    let directory = access.directory(&settings, &clock)?;
    if directory.is_none() && settings.mapping.is_by_attributes() {
        let keytab = access.keytab.display();
        return Err(format!(
            "join with `trunkline domain join`, since `rfc2307` asks the directory as the machine account, \
             which {keytab} lacks"
        ));
    }
    let accounts = host::accounts().map_err(|why| format!("free memory for threads: {why}"))?;
    let source = HostSource { accounts, domains: Arc::clone(&settings.domains) };
    let host: Arc<dyn AccountSource> = Arc::new(source);
    let resolver = Arc::new(Resolver::new(settings, directory, Some(host), clock));
    let (weak, thread) = (Arc::downgrade(&resolver), std::thread::Builder::new());
    // Looks up what the engine missed, until the last user of the resolver is gone.
    let refresh = move || {
        while let Some(resolver) = weak.upgrade() {
            resolver.refresh(REFRESH_WAIT);
        }
    };
    thread
        .name("trunkline-names".to_owned())
        .spawn(refresh)
        .map_err(|why| format!("free memory for threads: {why}"))?;
    Ok(resolver)
}
