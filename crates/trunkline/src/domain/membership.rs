//! Joins a realm, leaves it and renews the keys. With Active Directory `adcli` does the work; a keytab that
//! an administrator brings is only examined.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::controllers::{self, KdcSource, Kdcs};
use super::keytab::{Keytab, KeytabError};
use super::program::{ADCLI, Program, ProgramEnd, ProgramError};
use super::work::{Leftover, Work};
use super::{SET_CLOCK, skew};

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
    /// `adcli` refused.
    #[error("adcli: {said}{}", .mend.map(|mend| format!("; {mend}")).unwrap_or_default())]
    Refused {
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
#[derive(Debug, Clone, Copy)]
pub struct Join<'a> {
    /// The realm.
    pub realm: &'a str,
    /// The administrator of the domain.
    pub user: &'a str,
    /// The administrator's password.
    pub password: &'a str,
    /// The name of the machine account, without `$`.
    pub computer: &'a str,
    /// The full host name of the server.
    pub host: &'a str,
    /// More names of the server.
    pub aliases: &'a [String],
    /// The organizational unit for the account, as a distinguished name.
    pub unit: Option<&'a str>,
    /// The controller to use, in place of the first that answers.
    pub controller: Option<&'a str>,
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
}

/// The controller that answers first, if the clock is right.
fn controller(realm: &str) -> Result<String, MembershipError> {
    let kdcs = Kdcs::find(realm, "host");
    let Some((kdc, sign)) = kdcs.answering() else {
        let why = match (&kdcs.source, kdcs.silent().join(", ")) {
            (KdcSource::SilentDns, _) => "no name server of /etc/resolv.conf answers".to_owned(),
            (KdcSource::NoRecord, _) => {
                format!("the DNS has no record _kerberos._udp.{}", realm.to_lowercase())
            }
            (_, silent) => format!("no controller of {realm} answers at port 88: {silent}"),
        };
        return Err(MembershipError::Unreachable(format!(
            "{why}; name a controller as DNS server in /etc/resolv.conf, or see docs/identity.md"
        )));
    };
    match skew(sign.ahead_s) {
        Some(far) => Err(MembershipError::Skew(far, kdc.host.clone())),
        None => Ok(kdc.host.clone()),
    }
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
    fn run(self, action: &str, words: Vec<OsString>, password: &str) -> Result<ProgramEnd, MembershipError> {
        let words = [vec![OsString::from(action)], words].concat();
        let end = self.program.run(&words, &[], password, self.limit)?;
        if end.is_success { Ok(end) } else { Err(explained(&end)) }
    }

    /// Runs it on a keytab, and then puts the keytab in its place. If it fails after it has changed the
    /// password, the new keys are kept: nobody else has them, and they open all new tickets.
    fn run_on(
        self,
        work: &Work,
        action: &str,
        words: Vec<OsString>,
        password: &str,
    ) -> Result<ProgramEnd, MembershipError> {
        match self.run(action, words, password) {
            Ok(end) => {
                Keytab::read(work.keytab())?;
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

/// The refusal in `adcli`'s own words, with what mends it.
fn explained(end: &ProgramEnd) -> MembershipError {
    let said = end.last_words().trim_start_matches("adcli: ").to_owned();
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
        ("Clock skew", "set the clock"),
        ("Couldn't add service principal", "another account has that service principal; see `setspn -Q`"),
    ];
    let mend = mend.iter().find(|(words, _)| said.contains(words)).map(|(_, mend)| *mend);
    MembershipError::Refused { said, mend }
}

/// Joins an Active Directory domain, and writes the keytab. A machine that is joined already gets new keys.
///
/// # Errors
/// The reason. The keytab is unchanged then, unless the reason is [`MembershipError::Kept`].
pub fn join(join: Join<'_>) -> Result<Joined, MembershipError> {
    let controller = match join.controller {
        Some(named) => named.to_owned(),
        None => controller(join.realm)?,
    };
    // The keys of before stay in front of the new ones, so that sessions and tickets of clients go on.
    let work = join.work;
    let mut words = domain_words(join.realm, &controller);
    let mut option = |name: &str, value: &str| words.extend([OsString::from(name), OsString::from(value)]);
    option("--login-user", join.user);
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
    words.extend(["--host-keytab".into(), work.keytab().into(), "--stdin-password".into()]);
    words.push("--show-details".into());
    let end = HOST_ADCLI.run_on(work, "join", words, join.password)?;
    let keytab = Keytab::read(work.target())?.of_realm(join.realm);
    let netbios_name = detail(&end.output, "domain-short").map(str::to_uppercase);
    let account = keytab.machine_account().map(str::to_owned);
    let domain_sid = detail(&end.output, "domain-SID").map(str::to_owned);
    Ok(Joined {
        netbios_name,
        domain_sid,
        names: keytab.server_names(),
        account,
        controller: Some(controller),
    })
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
    let keytab = Keytab::read(path)?.of_realm(realm);
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
    Ok(Joined { netbios_name: None, domain_sid: None, names, account, controller: None })
}

/// Removes the machine account from an Active Directory domain.
///
/// # Errors
/// The reason. The account is still there then.
pub fn leave(realm: &str, account: &str, user: &str, password: &str) -> Result<(), MembershipError> {
    let mut words = domain_words(realm, &controller(realm)?);
    words.extend(
        ["--login-user", user, "--stdin-password", account.trim_end_matches('$')].map(OsString::from),
    );
    HOST_ADCLI.run("delete-computer", words, password).map(|_| ())
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
    // `update` has no `--domain-realm`.
    let words = ["--domain", &realm.to_lowercase(), "--domain-controller", &controller(realm)?];
    let mut words = words.map(OsString::from).to_vec();
    words.extend(["--computer-name".into(), account.trim_end_matches('$').into()]);
    words.extend([format!("--computer-password-lifetime={days}").into(), "--host-keytab".into()]);
    words.push(work.keytab().into());
    let version = |keytab: &Keytab| keytab.of(account).iter().map(|key| key.kvno).max().unwrap_or(0);
    let before = version(&keytab);
    adcli.run_on(&work, "update", words, "")?;
    Ok((before, version(&read()?)))
}

/// Whether the realm is an Active Directory that can be joined by `adcli`.
pub fn is_joinable(realm: &str) -> bool {
    controllers::is_active_directory(realm)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
