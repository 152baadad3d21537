//! The log-ons of the domain that do not work by the configuration, and why: for the log, for the answer to a
//! reload and for `trunkline config check`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ::identity::winbind::Winbind;
use share::engine::AccountKind;
use smb::config::grantee::parts;

use super::domain_users::DomainIds;
use super::kerberos;
use super::locks::held;
use crate::config::values::Ntlm;
use crate::config::{Config, Domain};
use crate::domain::keytab::Keytab;
use crate::host;
use crate::principals::LogonPrincipal;

/// The faults by a configuration that no server has applied. Asks the directory for the names in `users`.
pub fn of_config(config: &Config, local: &[LogonPrincipal]) -> Vec<String> {
    let ids = DomainIds::of(&config.domain, local, &host::listed_names(), None);
    if let Ok(ids) = &ids {
        ids.look_up(named(config).map(|(_, name)| name));
    }
    let tickets = config.domain.realm.as_ref().map(|_| kerberos::credentials(config).map(drop));
    of(config, &ids, tickets.and_then(Result::err).as_deref())
}

/// The faults, one line each. `tickets_off` is the reason why there are no log-ons with tickets.
pub fn of(config: &Config, ids: &Result<DomainIds, String>, tickets_off: Option<&str>) -> Vec<String> {
    let domain = &config.domain;
    let Some(realm) = domain.realm.as_ref().map(|realm| &realm.value) else { return Vec::new() };
    let mut faults = Vec::new();
    match tickets_off {
        Some(why) => faults.push(format!("no log-ons with tickets: {why}")),
        None => faults.extend(foreign_keys(&domain.keytab.value, realm)),
    }
    match ids {
        Err(mend) if is_directory(domain) => {
            faults.push(format!("no log-ons of users of {realm} who are no users of this server: {mend}"))
        }
        Err(_) => {}
        Ok(ids) => {
            faults.extend(no_passwords(domain));
            faults.extend(unmarked_groups(config, ids));
        }
    }
    faults
}

/// Whether the settings are those of a domain of Active Directory.
fn is_directory(domain: &Domain) -> bool {
    domain.netbios_name.is_some() || domain.domain_sid.is_some() || domain.id_mapping.is_some()
}

/// A keytab with keys of other realms alone opens no ticket.
fn foreign_keys(keytab: &Path, realm: &str) -> Option<String> {
    let keys = Keytab::read(keytab).ok()?;
    keys.of_realm(realm).entries.is_empty().then(|| {
        format!(
            "no log-ons with tickets: the keytab {} has no key of the realm {realm}; add one, or correct \
             `realm` or `keytab` in `[domain]`",
            keytab.display()
        )
    })
}

/// Passwords of the domain need winbindd.
fn no_passwords(domain: &Domain) -> Option<String> {
    let is_wanted = domain.ntlm.value == Ntlm::On && domain.netbios_name.is_some();
    let why = Winbind::load().err().filter(|_| is_wanted)?;
    Some(format!(
        "no log-ons of users of the domain with passwords (NTLM), only with tickets: {why}; if this is \
         wanted, set `ntlm = \"local\"` in `[domain]`"
    ))
}

/// The names in `users`, each with the table that names it.
fn named(config: &Config) -> impl Iterator<Item = (String, &str)> {
    let shares = config.shares.values().flat_map(|share| {
        share.users.keys().map(|name| (format!("share `{}`", share.name.value), name.as_str()))
    });
    let accounts = config.accounts.values().flat_map(|account| {
        account.users.keys().map(|name| (format!("account `{}`", account.name.value), name.as_str()))
    });
    shares.chain(accounts)
}

/// A group without an `@` in front gives nobody access.
fn unmarked_groups<'a>(config: &'a Config, ids: &'a DomainIds) -> impl Iterator<Item = String> + 'a {
    named(config).filter_map(|(table, name)| {
        let (false, Some(domain), account) = parts(name) else { return None };
        let (sid, kind) = ids.account_named(domain, account)?;
        let shown = ids.account_name(&sid).map(|group| format!("{}\\{}", group.domain, group.name));
        let shown = shown.unwrap_or_else(|| name.to_owned());
        (kind == AccountKind::Group)
            .then(|| format!("`users` of {table}: {shown} is a group: write @{shown} to give it access"))
    })
}

/// The domain by the settings that a server has applied.
#[derive(Default)]
pub struct AppliedDomain {
    /// Its users and groups.
    pub ids: Mutex<Option<DomainIds>>,
    /// The log-ons that do not work.
    pub faults: Mutex<Vec<String>>,
    /// The keytab.
    pub keytab: Mutex<KeytabWatch>,
}

impl AppliedDomain {
    /// Keeps the faults, and logs those that there were not before.
    pub fn set_faults(&self, faults: Vec<String>) {
        let mut before = held(&self.faults);
        new_faults(&before, &faults).for_each(|fault| tracing::warn!("{fault}"));
        *before = faults;
    }
}

/// The faults that are not among those of before.
fn new_faults<'f>(before: &'f [String], now: &'f [String]) -> impl Iterator<Item = &'f String> {
    now.iter().filter(|fault| !before.contains(fault))
}

/// The principals in the keytab when the configuration was applied.
#[derive(Debug, Default)]
pub struct KeytabWatch {
    keytab: Option<(PathBuf, String)>,
    stamp: Option<FileStamp>,
    /// The server's names and its machine account; none as long as there was no keytab.
    principals: Option<(Vec<String>, Option<String>)>,
}

/// Device, inode, size and the time of the last change.
type FileStamp = (u64, u64, u64, i64, i64);

impl KeytabWatch {
    /// The keytab of a configuration as it is now.
    pub fn of(domain: &Domain) -> KeytabWatch {
        let realm = domain.realm.as_ref().map(|realm| realm.value.clone());
        let mut watch = KeytabWatch {
            keytab: realm.map(|realm| (domain.keytab.value.clone(), realm)),
            ..KeytabWatch::default()
        };
        watch.has_new_principals();
        watch
    }

    /// Whether the keytab has other principals than at the last look, such as when it has appeared. A keytab
    /// that is gone or damaged changes nothing: it may be written just now.
    pub fn has_new_principals(&mut self) -> bool {
        let Some((path, realm)) = &self.keytab else { return false };
        let stamp = path
            .metadata()
            .ok()
            .map(|found| (found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec()));
        if stamp == self.stamp {
            return false;
        }
        self.stamp = stamp;
        let keys = Keytab::read(path).ok().map(|keys| keys.of_realm(realm));
        let now = keys.map(|keys| (keys.server_names(), keys.machine_account().map(str::to_owned)));
        let is_new = now.is_some() && now != self.principals;
        if is_new {
            self.principals = now;
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    fn faults(text: &str) -> Vec<String> {
        of_config(&read::parse("t", text, Path::new("/")).unwrap(), &[])
    }

    #[test]
    fn each_log_on_that_is_off_is_named_with_the_reason() {
        let missing = "[domain]\nrealm = \"CORP.EXAMPLE\"\nkeytab = \"/no/such/keytab\"\n";
        let plain = faults(missing);
        assert_eq!(plain.len(), 1, "{plain:?}");
        assert!(plain[0].starts_with("no log-ons with tickets: "), "{plain:?}");
        // Without the library this is the reason.
        let is_keytab = plain[0].contains("the keytab /no/such/keytab cannot be read: no such file");
        assert!(is_keytab || plain[0].contains("libgssapi-krb5-2"), "{plain:?}");
        let domain = faults(&format!("{missing}netbios_name = \"CORP\"\ndomain_sid = \"S-1-5-21-1-2-3\"\n"));
        assert!(domain[1].contains("no users of this server: set `id_mapping = \"rid\"`"), "{domain:?}");
        assert_eq!(faults("[domain]\nid_mapping = \"rid\"\n"), Vec::<String>::new(), "in no domain");
    }

    #[test]
    fn a_fault_is_told_when_it_is_new() {
        let all = ["a", "b"].map(str::to_owned);
        assert_eq!(new_faults(&all[..1], &all).collect::<Vec<_>>(), ["b"]);
        assert_eq!(new_faults(&all, &all).count(), 0);
        assert_eq!(new_faults(&[], &all).count(), 2);
    }

    /// A keytab of the realm R.EXAMPLE with a key of a principal.
    fn keytab(principal: &[&str]) -> Vec<u8> {
        let text =
            |text: &str| [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
        let mut body = u16::try_from(principal.len()).unwrap().to_be_bytes().to_vec();
        body.extend(text("R.EXAMPLE"));
        principal.iter().for_each(|part| body.extend(text(part)));
        body.extend([0, 0, 0, 1, 0, 0, 0, 9, 3, 0, 18, 0, 4, 1, 2, 3, 4]);
        [&[5, 2][..], &u32::try_from(body.len()).unwrap().to_be_bytes(), &body].concat()
    }

    #[test]
    fn a_keytab_that_appears_or_names_others_is_noticed_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keytab");
        let text = format!("[domain]\nrealm = \"R.EXAMPLE\"\nkeytab = \"{}\"\n", path.display());
        let domain = read::parse("t", &text, Path::new("/")).unwrap().domain;
        let mut watch = KeytabWatch::of(&domain);
        assert!(!watch.has_new_principals(), "it is missing");
        let put = |bytes: &[u8]| {
            let new = directory.path().join("new");
            std::fs::write(&new, bytes).unwrap();
            std::fs::rename(&new, &path).unwrap();
        };
        put(&keytab(&["cifs", "a"])[..9]);
        assert!(!watch.has_new_principals(), "it is not whole");
        put(&keytab(&["cifs", "a"]));
        assert!(watch.has_new_principals() && !watch.has_new_principals());
        put(&keytab(&["cifs", "a"]));
        assert!(!watch.has_new_principals(), "the log-ons read new keys by themselves");
        std::fs::remove_file(&path).unwrap();
        assert!(!watch.has_new_principals());
        put(&keytab(&["FILES$"]));
        assert!(watch.has_new_principals());
        assert!(!KeytabWatch::of(&domain).has_new_principals());
    }

    #[test]
    fn a_keytab_of_another_realm_is_a_fault() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), keytab(&["cifs", "a"])).unwrap();
        assert_eq!(foreign_keys(file.path(), "R.EXAMPLE"), None);
        let why = foreign_keys(file.path(), "OTHER.EXAMPLE").unwrap();
        assert!(why.contains("has no key of the realm OTHER.EXAMPLE"), "{why}");
    }
}
