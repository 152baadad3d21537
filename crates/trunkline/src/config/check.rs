//! Checks the settings of a configuration against each other and against the host, and changes nothing.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::mounts::{Mounts, file_error};
use super::setting::{ConfigError, Origin, own_error};
use super::tables::{Account, Config, Share, User};
use super::values::{Authentication, Encryption, IdmapBackend, Ntlm, ShareProtocol};

/// Checks a configuration for mistakes that would prevent the server from serving it. `stored` holds the
/// names, in lower case, of the users whose passwords are in the state directory.
///
/// # Errors
/// The first mistake, with the setting to change.
pub fn against(config: &Config, stored: &BTreeSet<String>) -> Result<(), ConfigError> {
    // A configured server can wait for its first share, which a command or the admin page creates.
    if config.shares.is_empty() && config.file.is_none() && config.admin.listen.is_none() {
        return Err(ConfigError("nothing to serve; give a DIR, or a configuration with --config".to_owned()));
    }
    consistent(config, stored)
}

/// Like [`against`], for a configuration that need not have a share yet.
///
/// # Errors
/// As for [`against`].
pub fn consistent(config: &Config, stored: &BTreeSet<String>) -> Result<(), ConfigError> {
    for user in config.users.values() {
        password(config, user, stored)?;
    }
    let mounts = Mounts::read();
    let mut trees = Trees::default();
    let mut paths: Vec<(PathBuf, &Share)> = Vec::new();
    for share in config.shares.values() {
        super::homes::check(config, share)?;
        let real = directory(config, &mounts, share)?;
        apart(config, trees.enter(&mounts, &real).map(|other| &paths[other]), &real, share)?;
        state_apart(config, &real, share)?;
        super::audit::lines_apart(config, &real, share)?;
        sealed(config, share)?;
        paths.push((real, share));
        readers(config, share, stored)?;
    }
    domain_names(config)?;
    trusted_mapping(config)?;
    logons(config)?;
    super::limits::check(config)?;
    super::admin::check(config)?;
    super::audit::check(config)?;
    super::node::check(config)?;
    super::endpoints::check(config)
}

/// The first line of `path`, without its line end.
///
/// # Errors
/// The reason why it holds no password.
pub fn read_password(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| file_error(path, &e))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err("its first line is empty; it must be the password".to_owned()),
    }
}

/// A mistake at the origin of a setting.
pub(super) fn fail(config: &Config, origin: &Origin, message: String) -> ConfigError {
    ConfigError(format!("{}: {message}", config.location(origin)))
}

fn password(config: &Config, user: &User, stored: &BTreeSet<String>) -> Result<(), ConfigError> {
    let name = &user.name.value;
    match &user.password_file {
        _ if config.passwords.contains_key(&name.to_lowercase()) => Ok(()),
        Some(file) => read_password(&file.value).map(|_| ()).map_err(|why| {
            fail(
                config,
                &file.origin,
                format!("`password_file` of user `{name}`: {}: {why}", file.value.display()),
            )
        }),
        None if stored.contains(&name.to_lowercase()) => Ok(()),
        None => Err(fail(
            config,
            &user.name.origin,
            format!("user `{name}` has no password; set `password_file` or run `trunkline user add {name}`"),
        )),
    }
}

/// The real path of the directory that the share serves.
fn directory(config: &Config, mounts: &Mounts, share: &Share) -> Result<PathBuf, ConfigError> {
    let (path, name) = (share.directory(), &share.name.value);
    let wrong = |why: String| {
        fail(config, &share.path.origin, format!("`path` of share `{name}`: {}: {why}", path.display()))
    };
    if mounts.are_hiding(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned())) {
        return Err(wrong(
            "systemd hides it from this service (`ProtectHome=` in the unit); enable the drop-in for home \
             shares (docs/home-shares.md), and start again"
                .to_owned(),
        ));
    }
    let real = std::fs::canonicalize(path).map_err(|e| wrong(file_error(path, &e)))?;
    if !real.is_dir() {
        return Err(wrong("not a directory".to_owned()));
    }
    std::fs::read_dir(&real).map_err(|e| wrong(own_error(&e)))?;
    Ok(real)
}

/// Refuses two shares through which the same file can be reached. Each share has its own opens and locks.
fn apart(
    config: &Config,
    clash: Option<&(PathBuf, &Share)>,
    real: &Path,
    share: &Share,
) -> Result<(), ConfigError> {
    match clash {
        Some((other, with)) => Err(fail(
            config,
            &share.path.origin,
            format!(
                "`path` of share `{}`: {} and {} of share `{}` contain the same files, but opens and locks \
                 of one share do not apply to the other; give each its own `path`, or give one share more \
                 `users`",
                share.name.value,
                real.display(),
                other.display(),
                with.name.value
            ),
        )),
        None => Ok(()),
    }
}

/// Whether two directories are the same, or one lies in the other.
pub fn hold_same_files(one: &Path, other: &Path) -> bool {
    let (mounts, mut trees) = (Mounts::read(), Trees::default());
    trees.enter(&mounts, one);
    trees.enter(&mounts, other).is_some()
}

/// An identifier of a directory, by one of the ways to recognize that it is the same as another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum DirectoryIdentifier {
    /// The real path.
    Path(PathBuf),
    /// The device number and the inode number, independent of names.
    Node(u64, u64),
    /// The path within the file system, which may be mounted in several places.
    Mounted(String, PathBuf),
}

/// Directories and their parents. Adding one costs the same however many there are.
#[derive(Debug, Default)]
struct Trees {
    count: usize,
    /// The number of the directory that has this identifier.
    tops: HashMap<DirectoryIdentifier, usize>,
    /// The number of the first directory that has this identifier or lies below it.
    above: HashMap<DirectoryIdentifier, usize>,
}

impl Trees {
    /// Adds a directory. Returns the number of the first earlier one that is the same, lies in it or contains
    /// it, if there is one.
    fn enter(&mut self, mounts: &Mounts, real: &Path) -> Option<usize> {
        let (tops, above) = spots(mounts, real);
        let own = tops.iter().filter_map(|spot| self.above.get(spot));
        let clash = own.chain(above.iter().filter_map(|spot| self.tops.get(spot))).min().copied();
        for spot in tops {
            self.tops.entry(spot).or_insert(self.count);
        }
        for spot in above {
            self.above.entry(spot).or_insert(self.count);
        }
        self.count += 1;
        clash
    }
}

/// The identifiers of a directory, and those of the directory with all its parents.
fn spots(mounts: &Mounts, real: &Path) -> (Vec<DirectoryIdentifier>, Vec<DirectoryIdentifier>) {
    let nodes = nodes_above(real);
    let mut tops = vec![DirectoryIdentifier::Path(real.to_owned())];
    tops.extend(nodes.first().map(|(device, inode)| DirectoryIdentifier::Node(*device, *inode)));
    let mut above: Vec<DirectoryIdentifier> =
        real.ancestors().map(|at| DirectoryIdentifier::Path(at.to_owned())).collect();
    above.extend(nodes.into_iter().map(|(device, inode)| DirectoryIdentifier::Node(device, inode)));
    if let Some((device, inside)) = mounts.locate(real) {
        let spot = |at: &Path| DirectoryIdentifier::Mounted(device.to_owned(), at.to_owned());
        tops.push(spot(&inside));
        above.extend(inside.ancestors().map(spot));
    }
    (tops, above)
}

/// The device and inode numbers of a directory and of all its parents, independent of names. The directory
/// comes first.
fn nodes_above(directory: &Path) -> Vec<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let of = |path: &Path| std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    let (mut at, mut nodes) = (directory.to_owned(), Vec::new());
    // The parent of the root is the root.
    while let Some(here) = of(&at).filter(|here| nodes.last() != Some(here)) {
        nodes.push(here);
        at.push("..");
    }
    nodes
}

/// Refuses a share over NFS that must be encrypted, since NFS is not encrypted here.
fn sealed(config: &Config, share: &Share) -> Result<(), ConfigError> {
    let account =
        share.account.as_ref().and_then(|account| config.accounts.get(&account.value.to_lowercase()));
    let demands = [Some(&share.encryption), account.and_then(|account| account.encryption.as_ref())];
    let demand = demands.into_iter().flatten().find(|setting| setting.value == Encryption::Required);
    let Some(demand) = demand.filter(|_| share.offers(ShareProtocol::Nfs)) else { return Ok(()) };
    let text = format!(
        "share `{}` must be encrypted (`encryption = \"required\"`) and is offered over NFS, which is not \
         encrypted here; take \"nfs\" out of its `protocols`, or give it and its account `encryption = \
         \"enabled\"`",
        share.name.value
    );
    Err(fail(config, &demand.origin, text))
}

/// Refuses a share that contains the state directory or lies in it. Clients must not reach the server's own
/// state, and sidecar data must be outside its volume.
fn state_apart(config: &Config, real: &Path, share: &Share) -> Result<(), ConfigError> {
    let dir = &config.server.state_dir;
    let absolute = std::path::absolute(&dir.value).unwrap_or_else(|_| dir.value.clone());
    // The directory need not exist yet. Its existing parent shows where it will be.
    let there = absolute.ancestors().find_map(|part| Some((part, std::fs::canonicalize(part).ok()?)));
    let state = match there {
        Some((part, real)) => real.join(absolute.strip_prefix(part).unwrap_or(Path::new(""))),
        None => absolute,
    };
    if state.starts_with(real) || real.starts_with(&state) {
        let (state, name) = (state.display(), &share.name.value);
        let text = format!(
            "the state directory {state} and share `{name}` overlap: one lies in the other; give another \
             --state-dir"
        );
        return Err(fail(config, &share.path.origin, text));
    }
    Ok(())
}

fn readers(config: &Config, share: &Share, stored: &BTreeSet<String>) -> Result<(), ConfigError> {
    let name = &share.name.value;
    if share.users.is_empty() {
        let text = format!("share `{name}` has no user who may read it; set `users = {{ NAME = \"read\" }}`");
        return Err(fail(config, &share.name.origin, text));
    }
    let known: Vec<&str> = config
        .users
        .values()
        .map(|user| user.name.value.as_str())
        .chain(stored.iter().map(String::as_str))
        .collect();
    for (user, access) in share.users.iter().filter(|(user, _)| *user != "*") {
        let (is_group, domain, _) = smb::config::grantee::parts(user);
        if let Some(domain) = domain {
            of_own_domain(config, user, domain).map_err(|mend| {
                let text = format!("`{user}` of share `{name}` is unknown; {mend}");
                fail(config, &access.origin, text)
            })?;
            continue;
        }
        // Whether the host knows a group turns out when the settings are applied.
        if is_group || known.iter().any(|known| known.to_lowercase() == *user) {
            continue;
        }
        // Without users, the server creates the first one when it starts, under the name of `--user`.
        if known.is_empty() && share.users.len() == 1 && access.origin == Origin::CommandLine("--user") {
            continue;
        }
        let hint = super::nearest::nearest(user, known.iter().copied());
        let hint = hint.map_or_else(String::new, |near| format!(" (or did you mean `{near}`?)"));
        let text =
            format!("user `{user}` of share `{name}` is unknown; run `trunkline user add {user}`{hint}");
        return Err(fail(config, &access.origin, text));
    }
    Ok(())
}

/// Each domain must have names of its own: `DOMAIN\name` must not be two people.
fn domain_names(config: &Config) -> Result<(), ConfigError> {
    let own = &config.domain;
    let mut taken = vec![&config.server.netbios_name.value];
    taken.extend([&own.realm, &own.netbios_name].into_iter().flatten().map(|name| &name.value));
    for trusted in &own.trusted.value {
        let names = [&trusted.realm, &trusted.netbios];
        let is_taken = |name: &&&String| taken.iter().any(|other| other.eq_ignore_ascii_case(name));
        if let Some(name) = names.iter().find(is_taken) {
            let text = format!(
                "`trusted` in `[domain]`: `{name}` is also the name of the server, of its domain or of \
                 another trusted one; give each domain its own names"
            );
            return Err(fail(config, &own.trusted.origin, text));
        }
        taken.extend(names);
    }
    Ok(())
}

/// Users of a trusted domain need ids, which only one of the mappings has for them.
fn trusted_mapping(config: &Config) -> Result<(), ConfigError> {
    let own = &config.domain;
    let is_rid = own.id_mapping.as_ref().is_some_and(|mapping| mapping.value == IdmapBackend::Rid);
    // A server that has left its domain may still have the setting.
    if own.realm.is_none() || own.trusted.value.is_empty() || is_rid {
        return Ok(());
    }
    let text = "`trusted` in `[domain]` needs `id_mapping = \"rid\"`: `rfc2307`, `table` and `autorid` \
                have ids for the server's own domain alone; set it with an `id_range`, or take out `trusted`";
    Err(fail(config, &own.trusted.origin, text.to_owned()))
}

/// Some way to log on must be left.
fn logons(config: &Config) -> Result<(), ConfigError> {
    let has_realm = config.domain.realm.is_some();
    let ntlm = &config.domain.ntlm;
    if ntlm.value == Ntlm::Off && !has_realm {
        let text = "`ntlm` of `[domain]` is `off` and there is no `realm`, so nobody could log on over SMB; \
                    set `realm`, or `ntlm = \"on\"`";
        return Err(fail(config, &ntlm.origin, text.to_owned()));
    }
    let takes_passwords = |account: &Account| {
        account.authentication.as_ref().is_none_or(|own| own.value.contains(&Authentication::Password))
    };
    let mut strict = config.accounts.values().filter(|account| account.ntlm.value == Ntlm::Off);
    let Some(account) = strict.find(|account| !has_realm || !takes_passwords(account)) else { return Ok(()) };
    let (name, ntlm) = (&account.name.value, &account.ntlm);
    let why = if has_realm {
        "its `authentication` takes keys alone, which are passwords of NTLM; add `password`, which stands \
         for tickets too"
    } else {
        "there is no `realm` in `[domain]`; set it"
    };
    let text =
        format!("`ntlm` of account `{name}` is `off`, and nobody could use its shares over SMB: {why}");
    Err(fail(config, &ntlm.origin, text))
}

/// Checks that a domain in the name of a user or a group is that of the server. Only the domain knows whether
/// there is such an account.
///
/// # Errors
/// The setting to change.
fn of_own_domain(config: &Config, user: &str, domain: &str) -> Result<(), String> {
    let own = &config.domain;
    let Some(realm) = &own.realm else {
        return Err("this server is in no domain: run `trunkline domain join REALM`".to_owned());
    };
    let names = [Some(realm), own.netbios_name.as_ref()];
    let is_own = names.into_iter().flatten().any(|own| own.value.to_lowercase() == domain.to_lowercase());
    let is_own = is_own || own.trusted.value.iter().any(|one| one.is_named(domain));
    // Only the directory knows the further suffixes of its principal names.
    let may_be_suffix = own.netbios_name.is_some() && !user.contains('\\') && domain.contains('.');
    if is_own || may_be_suffix {
        return Ok(());
    }
    Err(match &own.netbios_name {
        Some(name) => {
            format!("the domain of this server is `{}`, with the realm `{}`", name.value, realm.value)
        }
        None => format!("set `netbios_name` in `[domain]`, or write `NAME@{}`", realm.value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    fn checked(text: &str, dir: &Path, stored: &[&str]) -> Result<(), String> {
        let mut config = read::parse("t.toml", text, dir).unwrap();
        config.file = Some(PathBuf::from("t.toml"));
        config.server.state_dir.value = dir.join("state/s");
        let stored = stored.iter().map(|name| (*name).to_owned()).collect();
        against(&config, &stored).map_err(|e| e.0)
    }

    #[test]
    fn only_a_joined_server_has_users_of_a_domain() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        let share = "[share.d]\npath = \"a\"\nusers = { \"Corp\\\\bob\" = \"read\" }\n";
        let domain = "[domain]\nrealm = \"CORP.EXAMPLE\"\nnetbios_name = \"CORP\"\n";
        assert_eq!(checked(&format!("{domain}{share}"), dir.path(), &["ann"]), Ok(()));
        assert!(checked(share, dir.path(), &["ann"]).unwrap_err().contains("is unknown"));
        let other = domain.replace("\"CORP\"", "\"OTHER\"");
        let why = checked(&format!("{other}{share}"), dir.path(), &["ann"]).unwrap_err();
        assert!(
            why.ends_with("the domain of this server is `OTHER`, with the realm `CORP.EXAMPLE`"),
            "{why}"
        );
        let suffixed = share.replace("Corp\\\\bob", "bob@other.example");
        assert_eq!(checked(&format!("{domain}{suffixed}"), dir.path(), &["ann"]), Ok(()));
        let foreign = share.replace("Corp\\\\bob", "other.example\\\\bob");
        assert!(checked(&format!("{domain}{foreign}"), dir.path(), &["ann"]).is_err());
        let unnamed = "[domain]\nrealm = \"CORP.EXAMPLE\"\n";
        let why = checked(&format!("{unnamed}{share}"), dir.path(), &["ann"]).unwrap_err();
        assert!(why.contains("set `netbios_name` in `[domain]`"), "{why}");
        for name in ["bob@corp.example", "@Corp.Example\\\\staff", "@staff@CORP.EXAMPLE", "@staff"] {
            let share = share.replace("Corp\\\\bob", name);
            assert_eq!(checked(&format!("{unnamed}{share}"), dir.path(), &["ann"]), Ok(()), "{name}");
        }
    }

    #[test]
    fn no_two_domains_have_one_name() {
        let dir = tempfile::tempdir().unwrap();
        let of = |trusted: &[&str]| {
            let all: Vec<String> = (0..)
                .zip(trusted)
                .map(|(at, names)| {
                    let low = 200_000 + at * 100_000;
                    format!("\"{names} S-1-5-21-4-5-{at} {low}-{}\"", low + 99_999)
                })
                .collect();
            let domain = "[server]\nnetbios_name = \"FILES\"\n[domain]\nrealm = \"CORP.EXAMPLE\"\n\
                          netbios_name = \"CORP\"\nid_mapping = \"rid\"\nid_range = \"100000-199999\"\n";
            checked(&format!("{domain}trusted = [{}]\n", all.join(", ")), dir.path(), &[])
        };
        assert_eq!(of(&["LAB.EXAMPLE LAB", "DEV.EXAMPLE DEV"]), Ok(()));
        for bad in [
            &["LAB.EXAMPLE CORP"][..],
            &["corp.example LAB"],
            &["LAB.EXAMPLE FILES"],
            &["A.EXAMPLE A", "B.EXAMPLE A"],
        ] {
            assert!(of(bad).unwrap_err().contains("give each domain its own names"), "{bad:?}");
        }
    }

    #[test]
    fn a_trusted_domain_is_refused_with_each_mapping_that_has_no_ids_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let of = |realm: &str, mapping: &str| {
            let trusted = "trusted = [\"LAB.EXAMPLE LAB S-1-5-21-4-5-6 200000-299999\"]";
            checked(&format!("[domain]\n{realm}{mapping}{trusted}\n"), dir.path(), &[])
        };
        let (realm, range) = ("realm = \"CORP.EXAMPLE\"\n", "id_range = \"100000-199999\"\n");
        assert_eq!(of(realm, &format!("id_mapping = \"rid\"\n{range}")), Ok(()));
        for mapping in [
            String::new(),
            format!("id_mapping = \"rfc2307\"\n{range}"),
            "id_mapping = \"table\"\nid_file = \"ids\"\n".to_owned(),
            "id_mapping = \"autorid\"\nid_file = \"autorid.tdb\"\n".to_owned(),
        ] {
            let why = of(realm, &mapping).unwrap_err();
            assert!(why.contains("`trusted` in `[domain]` needs `id_mapping = \"rid\"`"), "{mapping}: {why}");
        }
        assert_eq!(of("", ""), Ok(()), "in no domain it has no meaning");
    }

    #[test]
    fn a_configuration_with_which_nobody_could_log_on_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let why = checked("[domain]\nntlm = \"off\"\n", dir.path(), &[]).unwrap_err();
        assert!(why.starts_with("t.toml:2: `ntlm` of `[domain]` is `off` and there is no `realm`"), "{why}");
        for fine in ["realm = \"R.EXAMPLE\"\nntlm = \"off\"\n", "ntlm = \"local\"\n"] {
            assert_eq!(checked(&format!("[domain]\n{fine}"), dir.path(), &[]), Ok(()));
        }
        let account = |domain: &str, more: &str| {
            let account = format!("{domain}[account.lab]\nntlm = \"off\"\n{more}");
            checked(&account, dir.path(), &[])
        };
        assert!(account("", "").unwrap_err().contains("account `lab` is `off`"));
        let realm = "[domain]\nrealm = \"R.EXAMPLE\"\n";
        assert!(account(realm, "authentication = [\"key\"]\n").unwrap_err().contains("keys alone"));
        assert_eq!(account(realm, "authentication = [\"key\", \"password\"]\n"), Ok(()));
    }

    #[test]
    fn only_a_configured_server_may_be_without_shares() {
        let dir = tempfile::tempdir().unwrap();
        checked("", dir.path(), &[]).unwrap();
        let mut config = read::parse("t.toml", "", dir.path()).unwrap();
        config.file = None;
        let refused = against(&config, &BTreeSet::new()).unwrap_err();
        assert_eq!(refused.0, "nothing to serve; give a DIR, or a configuration with --config");
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_the_setting_to_change() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        std::fs::write(dir.path().join("empty"), "\n").unwrap();
        let users = "users = { ann = \"read\" }\n";
        let cases = [
            (
                format!("[share.d]\npath = \"none\"\n{users}"),
                format!("t.toml:2: `path` of share `d`: {at}/none: no such file or directory"),
            ),
            (
                format!("[share.d]\npath = \"file\"\n{users}"),
                format!("t.toml:2: `path` of share `d`: {at}/file: not a directory"),
            ),
            (
                "[share.d]\npath = \"a\"\n".to_owned(),
                "t.toml:1: share `d` has no user who may read it; set `users = { NAME = \"read\" }`"
                    .to_owned(),
            ),
            (
                "[share.d]\npath = \"a\"\nusers = { bob = \"read\" }\n".to_owned(),
                "t.toml:3: user `bob` of share `d` is unknown; run `trunkline user add bob`".to_owned(),
            ),
            (
                format!("[[user]]\nname = \"bob\"\n[share.d]\npath = \"a\"\n{users}"),
                "t.toml:2: user `bob` has no password; set `password_file` or run `trunkline user add bob`"
                    .to_owned(),
            ),
            (
                format!(
                    "[[user]]\nname = \"bob\"\npassword_file = \"empty\"\n[share.d]\npath = \"a\"\n{users}"
                ),
                format!(
                    "t.toml:3: `password_file` of user `bob`: {at}/empty: its first line is empty; it must \
                     be the password"
                ),
            ),
            (
                format!("[share.d]\npath = \"a\"\n{users}[share.e]\npath = \"a/b\"\n{users}"),
                format!(
                    "t.toml:5: `path` of share `e`: {at}/a/b and {at}/a of share `d` contain the same files, \
                     but opens and locks of one share do not apply to the other; give each its own `path`, \
                     or give one share more `users`"
                ),
            ),
            (
                format!("[share.d]\npath = \".\"\n{users}"),
                format!(
                    "t.toml:2: the state directory {at}/state/s and share `d` overlap: one lies in the \
                     other; give another --state-dir"
                ),
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(checked(&text, dir.path(), &["ann"]).unwrap_err(), wanted, "{text}");
        }
        assert_eq!(checked(&format!("[share.d]\npath = \"a\"\n{users}"), dir.path(), &["ann"]), Ok(()));
    }

    #[test]
    fn what_must_be_encrypted_is_not_offered_over_nfs() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a")).unwrap();
        let text = |server: &str, account: &str, share: &str| {
            format!(
                "[server]\n{server}[account.t]\n{account}[share.d]\npath = \"a\"\naccount = \"t\"\n\
                 users = {{ ann = \"read\" }}\n{share}"
            )
        };
        let (required, nfs) = ("encryption = \"required\"\n", "protocols = [\"smb\", \"nfs\"]\n");
        let both = format!("{required}{nfs}");
        let weaker = format!("encryption = \"enabled\"\n{nfs}");
        for (refused, line) in [
            (text("", "", &both), 7),
            (text("", required, nfs), 3),
            (text("", required, &weaker), 3),
            (text(required, "", nfs), 2),
        ] {
            let why = checked(&refused, dir.path(), &["ann"]).unwrap_err();
            assert!(why.contains("is offered over NFS, which is not encrypted here"), "{why}");
            assert!(
                why.contains(&format!("t.toml:{line}")) || why.contains("[account.t]") || line == 2,
                "{why}"
            );
        }
        for fine in [text(required, "", ""), text("", "", nfs), text(required, "", &weaker)] {
            assert_eq!(checked(&fine, dir.path(), &["ann"]), Ok(()), "{fine}");
        }
    }

    #[test]
    fn directories_are_the_same_by_whatever_mount_they_are_seen() {
        let text = b"22 1 8:1 / / rw - ext4 /dev/a rw\n\
                     30 22 8:2 / /srv rw - ext4 /dev/b rw\n\
                     31 22 8:2 /docs /mnt/same rw - ext4 /dev/b rw\n\
                     32 22 8:2 /docs/in\\040side /mnt/nested rw - ext4 /dev/b rw\n\
                     33 22 0:40 / /mnt/other rw - tmpfs t rw\n";
        let mounts = Mounts::parse(text);
        let meet = |one: &str, other: &str| {
            let mut trees = Trees::default();
            assert_eq!(trees.enter(&mounts, Path::new(one)), None);
            trees.enter(&mounts, Path::new(other)).is_some()
        };
        assert!(meet("/srv/docs", "/mnt/same") && meet("/mnt/same", "/srv/docs"));
        assert!(meet("/srv/docs", "/mnt/nested") && meet("/mnt/nested/deep", "/srv/docs"));
        assert!(meet("/srv", "/mnt/nested") && meet("/srv/docs/in side/x", "/mnt/nested"));
        assert!(!meet("/srv/docs/beside", "/mnt/nested") && !meet("/srv/docsx", "/mnt/same"));
        assert!(!meet("/srv/docs", "/mnt/other") && !meet("/docs", "/mnt/same"));
        assert!(Mounts::parse(b"").locate(Path::new("/a")).is_none(), "not known");
    }

    #[test]
    fn going_up_finds_a_directory_by_another_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::create_dir_all(dir.path().join("c")).unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("c/link")).unwrap();
        let at = |path: &str| dir.path().join(path);
        let meet = |one: &str, other: &str| hold_same_files(&at(one), &at(other));
        assert!(meet("a/b", "c/link/a") && meet("c/link/a", "a/b") && meet("a", "c/link/a"));
        assert!(meet("a", "c/link/a/b") && !meet("c", "a") && !meet("a", "c"));
    }

    #[test]
    fn of_many_directories_the_first_is_named_that_holds_the_same_files() {
        let (mounts, mut trees) = (Mounts::parse(b""), Trees::default());
        let mut enter = |path: &str| trees.enter(&mounts, Path::new(path));
        assert!((0..400).all(|n| enter(&format!("/not/there/{n}")).is_none()));
        assert_eq!((enter("/not/there/7/below"), enter("/not/there/8")), (Some(7), Some(8)));
        assert_eq!((enter("/not"), enter("/not/there/7/bel")), (Some(0), Some(7)));
    }
}
