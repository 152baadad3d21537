//! Joins a realm, leaves it and renews the keys. With Active Directory `adcli` does the work; a keytab that
//! an administrator brings is only examined.

use std::ffi::OsString;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::controllers::{self, KdcSource, Kdcs};
use super::keytab::{Keytab, KeytabError};
use super::program::{ADCLI, ProgramEnd, ProgramError};
use super::{PROGRAM_LIMIT, SET_CLOCK, skew};

/// The name of the server's own keytab in the state directory.
pub const OWN_KEYTAB: &str = "krb5.keytab";
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
    /// The keytab to write.
    pub keytab: &'a Path,
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

/// Runs `adcli` and explains a refusal.
fn adcli(action: &str, words: Vec<OsString>, password: &str) -> Result<ProgramEnd, MembershipError> {
    let words = [vec![OsString::from(action)], words].concat();
    let end = ADCLI.run(&words, &[], password, PROGRAM_LIMIT)?;
    if end.is_success {
        return Ok(end);
    }
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
    Err(MembershipError::Refused { said, mend })
}

/// Joins an Active Directory domain, and writes the keytab. A machine that is joined already gets new keys.
///
/// # Errors
/// The reason. The keytab is unchanged then.
pub fn join(join: Join<'_>) -> Result<Joined, MembershipError> {
    let controller = match join.controller {
        Some(named) => named.to_owned(),
        None => controller(join.realm)?,
    };
    // The keys of before stay in front of the new ones, so that sessions and tickets of clients go on.
    let work = Work::beside(join.keytab)?;
    if Keytab::read(join.keytab).is_ok() {
        work.copy(join.keytab)?;
    }
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
    words.extend(["--host-keytab".into(), work.keytab.clone().into(), "--stdin-password".into()]);
    words.push("--show-details".into());
    let end = adcli("join", words, join.password)?;
    let keytab = Keytab::read(&work.keytab)?.of_realm(join.realm);
    work.keep(join.keytab)?;
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
    adcli("delete-computer", words, password).map(|_| ())
}

/// Gives the machine account a new password if the one it has is older than `days`, and adds its keys to the
/// keytab. The former keys stay, since clients have tickets of them.
///
/// Returns the newest key version before and after.
///
/// # Errors
/// The reason. The keytab is unchanged then.
pub fn renew(realm: &str, path: &Path, days: u32) -> Result<(u32, u32), MembershipError> {
    let newest = |keytab: &Keytab| keytab.entries.iter().map(|entry| entry.kvno).max().unwrap_or(0);
    let keytab = Keytab::read(path)?.of_realm(realm);
    let before = newest(&keytab);
    let Some(account) = keytab.machine_account() else {
        let why = "it has no machine account; in a plain realm its keys are renewed on the KDC \
                   (`kadmin.local -q 'ktadd -k FILE PRINCIPAL'`)";
        return Err(MembershipError::NoKey { path: path.to_owned(), why: why.to_owned() });
    };
    let work = Work::beside(path)?;
    work.copy(path)?;
    let mut words = domain_words(realm, &controller(realm)?);
    // `update` has no such option.
    words.retain(|word| word != "--domain-realm" && word != realm);
    words.extend(["--computer-name".into(), account.trim_end_matches('$').into()]);
    words.extend([format!("--computer-password-lifetime={days}").into(), "--host-keytab".into()]);
    words.push(work.keytab.clone().into());
    adcli("update", words, "")?;
    let after = newest(&Keytab::read(&work.keytab)?.of_realm(realm));
    work.keep(path)?;
    Ok((before, after))
}

/// A directory beside a keytab, in which another program writes the next one. So the server never reads half
/// of it. It is removed with the value.
struct Work {
    directory: PathBuf,
    keytab: PathBuf,
}

impl Work {
    fn beside(keytab: &Path) -> Result<Work, MembershipError> {
        let above = keytab.parent().unwrap_or(Path::new("/"));
        let directory = above.join(format!(".keytab-{}", std::process::id()));
        let failed = |error| MembershipError::Host(directory.clone(), error);
        DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        Ok(Work { keytab: directory.join(OWN_KEYTAB), directory })
    }

    /// Begins with the keys of a keytab.
    fn copy(&self, from: &Path) -> Result<(), MembershipError> {
        let copied = std::fs::copy(from, &self.keytab);
        copied.map(|_| ()).map_err(|error| MembershipError::Host(self.keytab.clone(), error))
    }

    /// Puts the new keytab in the place of `path`, for the owner of its directory alone.
    fn keep(&self, path: &Path) -> Result<(), MembershipError> {
        let failed = |error| MembershipError::Host(path.to_owned(), error);
        let above = path.parent().unwrap_or(Path::new("/"));
        let owner = match path.metadata() {
            Ok(there) => there,
            Err(_) => above.metadata().map_err(failed)?,
        };
        std::fs::set_permissions(&self.keytab, Permissions::from_mode(0o600)).map_err(failed)?;
        std::os::unix::fs::chown(&self.keytab, Some(owner.uid()), Some(owner.gid())).map_err(failed)?;
        std::fs::File::open(&self.keytab).and_then(|file| file.sync_all()).map_err(failed)?;
        std::fs::rename(&self.keytab, path).map_err(failed)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // An empty directory does no harm.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Whether the realm is an Active Directory that can be joined by `adcli`.
pub fn is_joinable(realm: &str) -> bool {
    controllers::is_active_directory(realm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_read_as_adcli_prints_them() {
        let text = "[domain]\ndomain-name = corp.example\ndomain-short = CORP\n[computer]\ncomputer-sid =\n";
        assert_eq!((detail(text, "domain-short"), detail(text, "computer-sid")), (Some("CORP"), None));
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
