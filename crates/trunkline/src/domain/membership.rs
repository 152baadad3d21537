//! Joins a realm, leaves it and renews the keys. With Active Directory `adcli` does the work; a keytab that
//! an administrator brings is only examined.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use identity::ldap::LdapTls;

use super::SET_CLOCK;
use super::controllers;
use super::directory::MachineAccount;
use super::keytab::{Keytab, KeytabError};
use super::logon::{self, Logon};
use super::permission::{self, EarlierJoin, KeyVerdict};
use super::program::{ADCLI, Program, ProgramEnd, ProgramError};
use super::search::{DirectorySearch, DomainIdentity};
use super::work::{Leftover, Work};

/// The name of the server's own keytab in the state directory.
pub const OWN_KEYTAB: &str = "krb5.keytab";
/// The longest run of `adcli`. A run that is cut short may already have changed the password.
const ADCLI_LIMIT: Duration = Duration::from_secs(120);
/// The services of the server, each of which gets service principals.
const SERVICES: [&str; 2] = ["cifs", "nfs"];

/// The reason why a membership did not change.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// No controller of the realm can be asked.
    #[error("{0}")]
    Unreachable(String),
    /// The clock differs too much.
    #[error("this host's clock is {0} that of {1}; Kerberos allows 300 s; set the clock: {SET_CLOCK}")]
    Skew(String, String),
    /// `adcli` could not run.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The directory cannot be asked.
    #[error("the directory cannot be asked whose the account and the names are: {0}; nothing was changed")]
    Directory(String),
    /// The directory says that the account, a name or the domain is another's.
    #[error("{0}; nothing was changed")]
    NotAllowed(String),
    /// A program refused.
    #[error("{program}: {said}{}", .mend.map(|mend| format!("; {mend}")).unwrap_or_default())]
    Refused {
        /// Its name.
        program: &'static str,
        /// Its own words.
        said: String,
        /// The way to mend it.
        mend: Option<&'static str>,
    },
    /// The keytab cannot be read.
    #[error(transparent)]
    Keytab(#[from] KeytabError),
    /// The keytab lacks a key.
    #[error("{}: {why}", .path.display())]
    NoKey {
        /// The keytab.
        path: PathBuf,
        /// The missing key, and the way to make it.
        why: String,
    },
    /// The host's error.
    #[error("{}: {}", .0.display(), crate::config::os_error(.1))]
    Host(PathBuf, std::io::Error),
    /// Another user may have put this beside the keytab.
    #[error("{}: it is {}; remove it, and try again", .0.display(), .1)]
    NotOwn(PathBuf, &'static str),
    /// Another command changes the keytab.
    #[error("another `trunkline domain join`, `renew` or `leave` changes {}; wait for its end", .0.display())]
    Busy(PathBuf),
    /// `adcli` failed after it had changed the password of the machine account.
    #[error("{why}; the keys of version {kvno}, which it had made before, are in {}", .path.display())]
    Kept {
        /// The failure.
        why: Box<MembershipError>,
        /// The version of the new keys.
        kvno: u32,
        /// The keytab.
        path: PathBuf,
    },
}

/// A server that joins a domain, and its administrator.
#[derive(Clone, Copy)]
pub struct Join<'a> {
    /// The realm.
    pub realm: &'a str,
    /// The administrator of the domain.
    pub logon: &'a Logon,
    /// TLS to the directory, if there are settings for it.
    pub tls: Option<&'a LdapTls>,
    /// The earlier membership of the server.
    pub earlier: &'a EarlierJoin,
    /// Whether the password of another host's account may be replaced.
    pub may_take_over: bool,
    /// The short name of the domain, as the administrator gave it.
    pub netbios_name: Option<&'a str>,
    /// The name of the machine account, without `$`.
    pub computer: &'a str,
    /// The full host name of the server.
    pub host: &'a str,
    /// More names of the server.
    pub aliases: &'a [String],
    /// Names that the server loses.
    pub removed: &'a [String],
    /// The organizational unit for the account, as a distinguished name.
    pub unit: Option<&'a str>,
    /// The keytab to write, and the lock of it.
    pub work: &'a Work,
}

/// The result of a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The short name of the domain, such as `CORP`. None in a plain realm.
    pub netbios_name: Option<String>,
    /// The SID of the domain, if `adcli` said it.
    pub domain_sid: Option<String>,
    /// The names of the server for which it has keys, in lower case.
    pub names: Vec<String>,
    /// The machine account, if the keytab has its keys.
    pub account: Option<String>,
    /// The controller that was used.
    pub controller: Option<String>,
    /// The reason why names that the server loses are still there. All else is done.
    pub unremoved: Option<String>,
}

/// The options that select a domain and its controller.
fn domain_words(realm: &str, controller: &str) -> Vec<OsString> {
    ["--domain", &realm.to_lowercase(), "--domain-realm", realm, "--domain-controller", controller]
        .map(OsString::from)
        .into()
}

/// A program that changes a machine account as `adcli` does, and its time limit.
#[derive(Debug, Clone, Copy)]
struct Adcli {
    program: Program,
    limit: Duration,
}

const HOST_ADCLI: Adcli = Adcli { program: ADCLI, limit: ADCLI_LIMIT };

impl Adcli {
    /// Runs it and explains a refusal.
    fn run(self, action: &str, words: Vec<OsString>) -> Result<ProgramEnd, MembershipError> {
        let words = [vec![OsString::from(action)], words].concat();
        let end = self.program.run(&words, &[], "", self.limit)?;
        if end.is_success { Ok(end) } else { Err(explained("adcli", &end)) }
    }

    /// Runs it on a keytab, and then puts the keytab in its place. If it fails after it has changed the
    /// password, the new keys are kept: nobody else has them, and they open all new tickets.
    fn run_on(self, work: &Work, action: &str, words: Vec<OsString>) -> Result<ProgramEnd, MembershipError> {
        match self.run(action, words) {
            Ok(end) => {
                work.check()?;
                work.keep()?;
                Ok(end)
            }
            Err(why) => match work.rescue()? {
                Some(kvno) => {
                    let path = work.target().to_owned();
                    Err(MembershipError::Kept { why: Box::new(why), kvno, path })
                }
                None => Err(why),
            },
        }
    }
}

/// The refusal in a program's own words, with what mends it.
pub fn explained(program: &'static str, end: &ProgramEnd) -> MembershipError {
    let said = end.last_words();
    let said = said.strip_prefix(program).and_then(|said| said.strip_prefix(": ")).unwrap_or(said).to_owned();
    let mend = [
        ("Preauthentication failed", "the password is wrong"),
        ("Password incorrect", "the password is wrong"),
        ("Client not found", "there is no such user in the domain; see --user"),
        ("not found in Kerberos database", "there is no such user in the domain; see --user"),
        (
            "Insufficient access",
            "the user may not do this; ask for the right to join machines, or see --user",
        ),
        (
            "Insufficient permissions",
            "the user may not do this; ask for the right to join machines, or see --user",
        ),
        ("Cannot find KDC", "no KDC of that realm is known; see --user"),
        ("Clock skew", "set the clock"),
        ("Couldn't add service principal", "another account has that service principal; see `setspn -Q`"),
    ];
    let mend = mend.iter().find(|(words, _)| said.contains(words)).map(|(_, mend)| *mend);
    MembershipError::Refused { program, said, mend }
}

/// Joins an Active Directory domain, and writes the keytab. A machine that is joined already gets new keys.
///
/// # Errors
/// The reason. The keytab is unchanged then, unless the reason is [`MembershipError::Kept`].
pub fn join(join: Join<'_>) -> Result<Joined, MembershipError> {
    let domain = check(&join)?;
    let controller = join.logon.controller().to_owned();
    // The keys of before stay in front of the new ones, so that sessions and tickets of clients go on.
    let work = join.work;
    let mut words = domain_words(join.realm, &controller);
    let mut option = |name: &str, value: &str| words.extend([OsString::from(name), OsString::from(value)]);
    option("--computer-name", join.computer);
    option("--host-fqdn", join.host);
    option("--os-name", "Trunkline");
    option("--os-version", env!("CARGO_PKG_VERSION"));
    SERVICES.iter().for_each(|service| option("--service-name", service));
    for alias in join.aliases {
        SERVICES.iter().for_each(|service| option("--add-service-principal", &format!("{service}/{alias}")));
    }
    if let Some(unit) = join.unit {
        option("--domain-ou", unit);
    }
    words.extend([join.logon.word(), "--host-keytab".into(), work.keytab().into()]);
    words.push("--show-details".into());
    let end = HOST_ADCLI.run_on(work, "join", words)?;
    // The password and the keys are new by now, so the settings have to follow.
    let unremoved = remove_names(&join, &controller).err().map(|why| why.to_string());
    let keytab = Keytab::read(work.target())?.of_realm(join.realm);
    let names = remaining_names(&keytab, join.removed, unremoved.is_none());
    let netbios_name = detail(&end.output, "domain-short").map(str::to_uppercase);
    let domain_sid = detail(&end.output, "domain-SID").map(str::to_owned);
    Ok(Joined {
        netbios_name: domain.netbios_name.or(netbios_name),
        domain_sid: domain_sid.or(domain.sid),
        names,
        account: keytab.machine_account().map(str::to_owned),
        controller: Some(controller),
        unremoved,
    })
}

/// The names of the server after a join. Names that it could not lose stay, so that it may lose them later.
fn remaining_names(keytab: &Keytab, removed: &[String], is_removed: bool) -> Vec<String> {
    let mut names = keytab.current().server_names();
    names.retain(|name| !removed.contains(name));
    names.extend(removed.iter().filter(|_| !is_removed).cloned());
    names
}

/// Asks the directory whether the account and the names are free or the server's own. Nothing is changed.
fn check(join: &Join<'_>) -> Result<DomainIdentity, MembershipError> {
    let refused = MembershipError::NotAllowed;
    let mut search = join.logon.directory(join.tls)?;
    let domain = search.domain().map_err(MembershipError::Directory)?;
    if let (Some(given), Some(own)) = (join.netbios_name, &domain.netbios_name)
        && !given.eq_ignore_ascii_case(own)
    {
        let realm = join.realm;
        return Err(refused(format!("the short name of {realm} is {own}, not {given}; see --netbios-name")));
    }
    let account = format!("{}$", join.computer);
    if let Some(entry) = search.account(&account).map_err(MembershipError::Directory)? {
        let key = |account: &str| join.logon.verdict_on(join.work.target(), account);
        permission::check_account(&entry, join.earlier, join.may_take_over, key).map_err(refused)?;
    }
    let own = [join.host.to_owned(), join.computer.to_lowercase()];
    let principals = permission::principals(&[&own, join.aliases].concat(), &SERVICES);
    let owners = search.owners(&principals).map_err(MembershipError::Directory)?;
    permission::check_principals(&owners, &account, &principals).map_err(refused)?;
    Ok(domain)
}

/// Takes the service principals of names from the machine account, and their keys from the keytab.
fn remove_names(join: &Join<'_>, controller: &str) -> Result<(), MembershipError> {
    if join.removed.is_empty() {
        return Ok(());
    }
    join.work.begin_again()?;
    let mut words = update_words(join.realm, controller, join.computer);
    // The password is new, and stays.
    words.extend(["--computer-password-lifetime=10000".into(), join.logon.word()]);
    words.extend(["--host-keytab".into(), join.work.keytab().into()]);
    for name in join.removed {
        let of = |service: &&str| OsString::from(format!("--remove-service-principal={service}/{name}"));
        words.extend(SERVICES.iter().map(of));
    }
    HOST_ADCLI.run_on(join.work, "update", words).map(|_| ())
}

/// The options of `update`, which has no `--domain-realm`.
fn update_words(realm: &str, controller: &str, account: &str) -> Vec<OsString> {
    ["--domain", &realm.to_lowercase(), "--domain-controller", controller, "--computer-name", account]
        .map(OsString::from)
        .into()
}

/// A value that `adcli --show-details` prints.
fn detail<'a>(output: &'a str, key: &str) -> Option<&'a str> {
    let value = output.lines().filter_map(|line| line.split_once('=')).find(|(name, _)| name.trim() == key);
    value.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
}

/// Examines a keytab that an administrator brings. Nothing is changed.
///
/// # Errors
/// The keytab cannot be read, or lacks a key.
pub fn bring(realm: &str, path: &Path, wanted: &[String]) -> Result<Joined, MembershipError> {
    let all = Keytab::read(path)?;
    let keytab = all.of_realm(realm);
    if keytab.entries.is_empty() && !all.entries.is_empty() {
        let of = all.realms().join(", ");
        let why =
            format!("it has keys of {of}, and none of {realm}; bring a keytab of {realm}, or join {of}");
        return Err(MembershipError::NoKey { path: path.to_owned(), why });
    }
    let lacks = |name: &str| {
        let is_directory = keytab.machine_account().is_some();
        let how = match is_directory {
            true => {
                format!("`adcli update --host-keytab={} --add-service-principal=cifs/{name}`", path.display())
            }
            false => format!("on the KDC `kadmin.local -q 'ktadd -k FILE cifs/{name}'`"),
        };
        let why = format!("it has no key of cifs/{name}@{realm}; make one: {how}");
        MembershipError::NoKey { path: path.to_owned(), why }
    };
    let names = keytab.server_names();
    if let Some(missing) = wanted.iter().find(|name| !names.contains(name)) {
        return Err(lacks(missing));
    }
    if names.is_empty() {
        return Err(lacks("NAME"));
    }
    let account = keytab.machine_account().map(str::to_owned);
    Ok(Joined { netbios_name: None, domain_sid: None, names, account, controller: None, unremoved: None })
}

/// The name and the SID of the domain of a keytab that was brought, by its machine account.
///
/// # Errors
/// The reason why the directory does not say.
pub fn learn(
    realm: &str,
    keytab: &Path,
    account: &str,
    tls: Option<&LdapTls>,
) -> Result<DomainIdentity, String> {
    let machine = MachineAccount::new(realm, &format!("{account}@{realm}"), keytab.to_owned());
    DirectorySearch::begin(&machine, realm, tls, &[])?.domain()
}

/// Removes the machine account from an Active Directory domain, if it has the key of the keytab still.
/// Returns whether it was there.
///
/// # Errors
/// The reason. The account is still there then.
pub fn leave(realm: &str, account: &str, keytab: &Path, logon: &Logon) -> Result<bool, MembershipError> {
    if let KeyVerdict::Refused(said) = logon.verdict_on(keytab, account) {
        return Err(MembershipError::NotAllowed(format!(
            "the KDC refuses the key that this server has of {account} ({said}), so another host may have \
             taken the account over; if it is this server's, `trunkline domain join {realm} --take-over` \
             makes new keys first"
        )));
    }
    let mut words = domain_words(realm, logon.controller());
    words.extend([logon.word(), account.trim_end_matches('$').into()]);
    match HOST_ADCLI.run("delete-computer", words) {
        // An earlier run may have removed it.
        Err(MembershipError::Refused { said, .. }) if said.contains("No computer account") => Ok(false),
        ended => ended.map(|_| true),
    }
}

/// Gives the machine account a new password if the one it has is older than `days`, and adds its keys to the
/// keytab. The former keys stay, since clients have tickets of them.
///
/// Returns the newest key version before and after. `note` is told of keys that a run that died has left.
///
/// # Errors
/// The reason. The keytab is unchanged then, unless the reason is [`MembershipError::Kept`].
pub fn renew(
    realm: &str,
    path: &Path,
    days: u32,
    note: impl Fn(&Leftover),
) -> Result<(u32, u32), MembershipError> {
    let controller = |realm: &str| logon::controller(realm, None).map(|kdc| kdc.host);
    renew_by(HOST_ADCLI, controller, realm, path, days, note)
}

fn renew_by(
    adcli: Adcli,
    controller: impl Fn(&str) -> Result<String, MembershipError>,
    realm: &str,
    path: &Path,
    days: u32,
    note: impl Fn(&Leftover),
) -> Result<(u32, u32), MembershipError> {
    let read = || Ok::<_, MembershipError>(Keytab::read(path)?.of_realm(realm));
    // A missing keytab is said before anything is made beside it.
    read()?;
    let work = Work::beside(path, realm)?;
    if let Some(leftover) = work.leftover() {
        note(leftover);
    }
    // Only the keys that are read under the lock are the newest.
    let keytab = read()?;
    let Some(account) = keytab.machine_account() else {
        let why = "it has no machine account; in a plain realm its keys are renewed on the KDC \
                   (`kadmin.local -q 'ktadd -k FILE PRINCIPAL'`)";
        return Err(MembershipError::NoKey { path: path.to_owned(), why: why.to_owned() });
    };
    let mut words = update_words(realm, &controller(realm)?, account.trim_end_matches('$'));
    words.extend([format!("--computer-password-lifetime={days}").into(), "--host-keytab".into()]);
    words.push(work.keytab().into());
    let version = |keytab: &Keytab| keytab.of(account).iter().map(|key| key.kvno).max().unwrap_or(0);
    let before = version(&keytab);
    adcli.run_on(&work, "update", words)?;
    Ok((before, version(&read()?)))
}

/// Whether the realm is an Active Directory that can be joined by `adcli`.
pub fn is_joinable(realm: &str) -> bool {
    controllers::is_active_directory(realm)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::keytab::KeytabEntry;
    use super::*;

    #[test]
    fn details_are_read_as_adcli_prints_them() {
        let text = "[domain]\ndomain-name = corp.example\ndomain-short = CORP\n[computer]\ncomputer-sid =\n";
        assert_eq!((detail(text, "domain-short"), detail(text, "computer-sid")), (Some("CORP"), None));
    }

    /// A keytab with a key of the machine account for each version.
    fn keytab(versions: &[u8]) -> Vec<u8> {
        let entry = |kvno: &u8| {
            let body =
                [&[0, 1, 0, 1][..], b"R", &[0, 6], b"FILES$", &[0; 4], &[0; 4], &[*kvno], &[0, 18, 0, 0]];
            let body = body.concat();
            [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
        };
        [vec![5, 2], versions.iter().flat_map(entry).collect()].concat()
    }

    /// A program in place of `adcli`, which does `script`. `$K` is its keytab, `$NEW` one with the version 4.
    fn adcli(directory: &Path, script: &str, limit: Duration) -> Adcli {
        let (path, new) = (directory.join("adcli"), directory.join("new"));
        std::fs::write(&new, keytab(&[3, 4])).unwrap();
        let find = "for word; do [ -n \"$IS\" ] && K=$word; IS=; [ \"$word\" = --host-keytab ] && IS=1; done";
        let words = format!("echo \"$@\" > {}/words", directory.display());
        let text = format!("#!/bin/sh\n{find}\n{words}\nNEW={}\n{script}\n", new.display());
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let name = Box::leak(path.display().to_string().into_boxed_str());
        Adcli { program: Program { name, package: "adcli" }, limit }
    }

    fn renewed(directory: &Path, script: &str, limit_s: u64) -> Result<(u32, u32), MembershipError> {
        let adcli = adcli(directory, script, Duration::from_secs(limit_s));
        renew_by(adcli, |_| Ok("dc1".to_owned()), "R", &directory.join("keytab"), 30, |_| ())
    }

    #[test]
    fn new_keys_are_kept_when_adcli_dies_after_it_has_changed_the_password() {
        let whole = (keytab(&[3]), keytab(&[3, 4]));
        for (script, limit_s, keeps) in [
            ("cp $NEW $K; kill -9 $$", 60, true),
            ("cp $NEW $K; echo 'adcli: something broke' >&2; exit 1", 60, true),
            ("cp $NEW $K; exec sleep 60", 1, true),
            ("kill -9 $$", 60, false),
            // Half of a key.
            ("head -c 40 $NEW > $K; exit 1", 60, false),
            ("rm $K; exit 1", 60, false),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("keytab");
            std::fs::write(&path, &whole.0).unwrap();
            let why = renewed(directory.path(), script, limit_s).unwrap_err().to_string();
            let expected = if keeps { &whole.1 } else { &whole.0 };
            assert_eq!(&std::fs::read(&path).unwrap(), expected, "{script}");
            assert_eq!(why.contains("the keys of version 4"), keeps, "{script}: {why}");
        }
    }

    #[test]
    fn renewal_adds_keys_and_passes_every_word_also_where_the_realm_has_small_letters() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keytab");
        std::fs::write(&path, keytab(&[3])).unwrap();
        assert_eq!(renewed(directory.path(), "cp $NEW $K", 60).unwrap(), (3, 4));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(renewed(directory.path(), "exit 0", 60).unwrap(), (4, 4), "it was not old enough");
        let adcli = adcli(directory.path(), "", Duration::from_secs(60));
        let bytes: Vec<u8> =
            keytab(&[3]).iter().map(|byte| if *byte == b'R' { b'r' } else { *byte }).collect();
        std::fs::write(&path, bytes).unwrap();
        renew_by(adcli, |_| Ok("dc1".to_owned()), "r", &path, 30, |_| ()).unwrap();
        let words = std::fs::read_to_string(directory.path().join("words")).unwrap();
        let expected = "update --domain r --domain-controller dc1 --computer-name FILES \
                        --computer-password-lifetime=30 --host-keytab ";
        assert!(words.starts_with(expected), "{words}");
    }

    #[test]
    fn two_renewals_do_not_run_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keytab");
        std::fs::write(&path, keytab(&[3])).unwrap();
        let first = Work::beside(&path, "R").unwrap();
        let why = renewed(directory.path(), "exit 0", 60).unwrap_err();
        assert!(matches!(why, MembershipError::Busy(_)), "{why}");
        drop(first);
        renewed(directory.path(), "exit 0", 60).unwrap();
    }

    #[test]
    fn names_that_could_not_be_removed_stay_names_of_the_server() {
        let key = |principal: &str| KeytabEntry {
            principal: principal.to_owned(),
            realm: "R".to_owned(),
            kvno: 2,
            enctype: 18,
            written: 1,
        };
        let keytab = Keytab { entries: ["FILES$", "cifs/files", "cifs/nas"].map(key).into() };
        let removed = ["nas".to_owned(), "old".to_owned()];
        assert_eq!(remaining_names(&keytab, &removed, true), ["files"]);
        // `--remove-name` takes only names that the server has.
        assert_eq!(remaining_names(&keytab, &removed, false), ["files", "nas", "old"]);
    }

    #[test]
    fn a_keytab_of_another_realm_is_refused_with_the_realm_that_it_has() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keytab");
        std::fs::write(&path, keytab(&[3])).unwrap();
        let why = bring("OTHER", &path, &[]).unwrap_err().to_string();
        assert!(
            why.ends_with("it has keys of R, and none of OTHER; bring a keytab of OTHER, or join R"),
            "{why}"
        );
    }

    #[test]
    fn a_keytab_without_a_key_of_the_server_is_refused_with_the_command() {
        let directory = std::env::temp_dir().join(format!("trunkline-membership-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("empty.keytab");
        std::fs::write(&path, [5, 2]).unwrap();
        let why = bring("R.EXAMPLE", &path, &[]).unwrap_err().to_string();
        assert!(why.contains("no key of cifs/NAME@R.EXAMPLE; make one: on the KDC `kadmin.local"), "{why}");
        std::fs::write(&path, [5]).unwrap();
        let why = bring("R.EXAMPLE", &path, &[]).unwrap_err().to_string();
        assert!(why.ends_with("it is not a keytab, or it is damaged"), "{why}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
