//! The resolver of the domain's users and groups by the configuration: [`resolver`].

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use identity::host::HostSource;
use identity::ldap::{LdapDirectory, LdapSettings};
use identity::mapping::{Autorid, IdKind, IdMapping, IdTable, RidRange};
use identity::{AccountSource, Clock, Domain as AccountDomain, Domains, HostClock, Resolver, Settings};
use volume::security::Sid;

use super::directory::MachineAccount;
use super::keytab::Keytab;
use crate::config::values::IdmapBackend;
use crate::config::{Domain, os_error};
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
            let range = RidRange { domain: sid, range: range.value, base_rid: 0 };
            IdMapping::rid(vec![range]).map_err(|why| why.to_string())
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
    format!("mend `id_file` in `[domain]`: {}: {why}", file.display())
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|why| mend(file, &os_error(&why)))
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
    Ok(Settings::new(Domains { own: Some(own), ..Domains::default() }, mapping))
}

/// A resolver over the directory, if the keytab has a machine account, and the host's user database.
///
/// # Errors
/// The settings to make, as the end of a sentence.
pub fn resolver(domain: &Domain, settings: Settings) -> Result<Arc<Resolver>, String> {
    let clock: Arc<dyn Clock> = Arc::new(HostClock::default());
    let directory = directory(domain, &settings, &clock);
    if directory.is_none() && settings.mapping.is_by_attributes() {
        let keytab = domain.keytab.value.display();
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

fn directory(domain: &Domain, settings: &Settings, clock: &Arc<dyn Clock>) -> Option<Arc<dyn AccountSource>> {
    let realm = &domain.realm.as_ref()?.value;
    let keytab = Keytab::read(&domain.keytab.value).unwrap_or_default().of_realm(realm);
    let account = MachineAccount::new(realm, keytab.machine_account()?, domain.keytab.value.clone());
    let sid = settings.domains.own.as_ref().and_then(|own| own.sid);
    let ldap = LdapDirectory::new(LdapSettings::of_realm(realm, sid), Arc::new(account), Arc::clone(clock));
    Some(Arc::new(ldap))
}
