//! The log-ons of the domain that do not work by the configuration, and why: for the log, for the answer to a
//! reload and for `trunkline config check`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

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

/// The time after which a file is tried again.
const AGAIN: Duration = Duration::from_secs(60);

/// Tells when the configuration is to be applied again because of the keytab. Each applied configuration has
/// its own watch, so principals that could not be applied stay new.
#[derive(Debug, Default)]
pub struct KeytabWatch {
    keytab: Option<(PathBuf, String)>,
    /// The file at the last look.
    seen: Option<FileStamp>,
    /// The file of the last try, and its time.
    tried: Option<(FileStamp, Instant)>,
    /// The principals that the configuration was applied with.
    applied: KeytabPrincipals,
}

/// Device, inode, size and the time of the last change.
type FileStamp = (u64, u64, u64, i64, i64);

/// The principals of a keytab on which settings of the server depend.
#[derive(Debug, Default)]
struct KeytabPrincipals {
    names: Vec<String>,
    account: Option<String>,
}

impl KeytabPrincipals {
    fn of(keys: &Keytab) -> KeytabPrincipals {
        let account = keys.machine_account().map(str::to_owned);
        KeytabPrincipals { names: keys.server_names(), account }
    }

    /// Whether there are other principals than in `before`, apart from those that are gone.
    fn has_more_than(&self, before: &KeytabPrincipals) -> bool {
        let is_other = self.account.is_some() && self.account != before.account;
        is_other || self.names.iter().any(|name| !before.names.contains(name))
    }
}

impl KeytabWatch {
    /// The keytab of a configuration as it is now.
    pub fn of(domain: &Domain) -> KeytabWatch {
        let Some(realm) = domain.realm.as_ref().map(|realm| &realm.value) else {
            return KeytabWatch::default();
        };
        let path = &domain.keytab.value;
        let seen = stamp(path);
        let keys = Keytab::read(path).map(|keys| keys.of_realm(realm)).unwrap_or_default();
        KeytabWatch {
            keytab: Some((path.clone(), realm.clone())),
            seen,
            tried: seen.map(|file| (file, Instant::now())),
            applied: KeytabPrincipals::of(&keys),
        }
    }

    /// Whether to apply the configuration again now: the keytab has new principals, or `can_begin` says that
    /// tickets, which are off, would work.
    ///
    /// A program may write the file just now, key by key. So the file must be the same as at the last look,
    /// and a keytab that has lost the machine account is left alone. The same file counts again after
    /// [`AGAIN`], since the cause of a failure may lie elsewhere.
    pub fn is_due(&mut self, now: Instant, can_begin: impl FnOnce() -> bool) -> bool {
        let Some((path, realm)) = &self.keytab else { return false };
        let before = std::mem::replace(&mut self.seen, stamp(path));
        let Some(file) = self.seen.filter(|file| Some(*file) == before) else { return false };
        if self.tried.is_some_and(|(tried, at)| tried == file && now.saturating_duration_since(at) < AGAIN) {
            return false;
        }
        self.tried = Some((file, now));
        let Ok(keys) = Keytab::read(path) else { return false };
        let principals = KeytabPrincipals::of(&keys.of_realm(realm));
        if self.applied.account.is_some() && principals.account.is_none() {
            return false;
        }
        principals.has_more_than(&self.applied) || can_begin()
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
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

    /// A keytab of the realm R.EXAMPLE with a key of each principal.
    fn keytab(principals: &[&[&str]]) -> Vec<u8> {
        let text =
            |text: &str| [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
        let mut file = vec![5, 2];
        for principal in principals {
            let mut body = u16::try_from(principal.len()).unwrap().to_be_bytes().to_vec();
            body.extend(text("R.EXAMPLE"));
            principal.iter().for_each(|part| body.extend(text(part)));
            body.extend([0, 0, 0, 1, 0, 0, 0, 9, 3, 0, 18, 0, 4, 1, 2, 3, 4]);
            file.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
            file.extend(body);
        }
        file
    }

    const NAME: &[&str] = &["cifs", "a"];
    const OTHER_NAME: &[&str] = &["cifs", "other"];
    const ACCOUNT: &[&str] = &["FILES$"];

    /// A keytab file that is watched.
    struct Watched {
        directory: tempfile::TempDir,
        domain: Domain,
        watch: KeytabWatch,
        now: Instant,
    }

    impl Watched {
        fn new(principals: &[&[&str]]) -> Watched {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("keytab");
            if !principals.is_empty() {
                std::fs::write(&path, keytab(principals)).unwrap();
            }
            let text = format!("[domain]\nrealm = \"R.EXAMPLE\"\nkeytab = \"{}\"\n", path.display());
            let domain = read::parse("t", &text, Path::new("/")).unwrap().domain;
            let watch = KeytabWatch::of(&domain);
            Watched { directory, domain, watch, now: Instant::now() }
        }

        /// Writes the file in place.
        fn put(&self, bytes: &[u8]) {
            std::fs::write(self.directory.path().join("keytab"), bytes).unwrap();
        }

        /// The results of two looks.
        fn looks(&mut self, can_begin: bool) -> [bool; 2] {
            [(); 2].map(|()| self.watch.is_due(self.now, || can_begin))
        }

        /// The same, a minute later.
        fn looks_later(&mut self, can_begin: bool) -> [bool; 2] {
            self.now += AGAIN;
            self.looks(can_begin)
        }
    }

    #[test]
    fn a_keytab_that_appears_counts_at_the_second_look_and_again_until_it_is_applied() {
        let mut file = Watched::new(&[]);
        assert_eq!(file.looks(false), [false, false], "it is missing");
        file.put(&keytab(&[NAME])[..9]);
        assert_eq!(file.looks(false), [false, false], "it is not whole");
        file.put(&keytab(&[NAME]));
        assert_eq!(file.looks(false), [false, true]);
        assert_eq!(file.looks(false), [false, false]);
        assert_eq!(file.looks_later(false), [true, false], "it was not applied");
        file.put(&keytab(&[NAME, OTHER_NAME]));
        assert_eq!(file.looks(false), [false, true], "another file is tried at once");
        file.watch = KeytabWatch::of(&file.domain);
        assert_eq!(file.looks(false), [false, false]);
        assert_eq!(file.looks_later(false), [false, false]);
    }

    #[test]
    fn a_keytab_without_the_machine_account_is_left_alone() {
        let mut file = Watched::new(&[NAME, ACCOUNT]);
        file.put(&keytab(&[ACCOUNT]));
        assert_eq!(file.looks(false), [false, false], "a lost name");
        file.put(&keytab(&[NAME]));
        assert_eq!(file.looks(true), [false, false], "the lost account");
        file.put(&keytab(&[NAME, OTHER_NAME]));
        assert_eq!(file.looks(true), [false, false], "the account is still to come");
        assert_eq!(file.looks_later(true), [false, false]);
        file.put(&keytab(&[NAME, OTHER_NAME, ACCOUNT]));
        assert_eq!(file.looks(false), [false, true]);
        file.put(&keytab(&[NAME, &["NEW$"]]));
        assert_eq!(file.looks(false), [false, true], "another account");
    }

    #[test]
    fn tickets_that_are_off_are_tried_with_each_file_and_each_minute() {
        let mut file = Watched::new(&[NAME]);
        assert_eq!(file.looks(true), [false, false], "the applied file");
        assert_eq!(file.looks_later(true), [true, false]);
        assert_eq!(file.looks_later(false), [false, false], "they would not work");
        file.put(&keytab(&[NAME, NAME]));
        assert_eq!(file.looks(true), [false, true], "new keys of the same principals");
    }

    #[test]
    fn a_keytab_of_another_realm_is_a_fault() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), keytab(&[NAME])).unwrap();
        assert_eq!(foreign_keys(file.path(), "R.EXAMPLE"), None);
        let why = foreign_keys(file.path(), "OTHER.EXAMPLE").unwrap();
        assert!(why.contains("has no key of the realm OTHER.EXAMPLE"), "{why}");
    }
}
