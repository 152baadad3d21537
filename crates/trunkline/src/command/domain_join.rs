//! `trunkline domain join` and `leave`. Both look at all that can stop them before the first step that cannot
//! be taken back.

use std::path::Path;
use std::time::Instant;

use admin::Request;
use serde_json::json;

use super::domain_settings::{SettingsWriter, has_own_keytab, joined_realm, overridden, own_keytab};
use super::{control, output};
use crate::cli::{DomainLogonArgs, JoinArgs, LocationArgs};
use crate::config::{Config, values};
use crate::domain::accounts::DirectoryAccess;
use crate::domain::keytab::Keytab;
use crate::domain::logon::{self, Logon};
use crate::domain::membership::{self, Join, Joined};
use crate::domain::permission::EarlierJoin;
use crate::domain::work::Work;
use crate::password;
use crate::state::StateDir;

/// The full host name, made from the realm if the host has only a short one.
fn full_host_name(realm: &str) -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let name = name.trim_end_matches('.');
    match name.contains('.') {
        true => name.to_owned(),
        false => format!("{}.{}", values::host_name(), realm).to_lowercase(),
    }
}

/// Host names in lower case, without the dot at the end that some tools write.
fn host_names(names: &[String]) -> anyhow::Result<Vec<String>> {
    let one = |name: &String| values::spn_name(name.strip_suffix('.').unwrap_or(name));
    names.iter().map(one).collect::<Result<_, _>>().map_err(anyhow::Error::msg)
}

/// Prints a note on standard error.
pub fn note(note: impl std::fmt::Display) {
    eprintln!("trunkline: note: {note}");
}

/// Logs the administrator on.
fn log_on(
    logon: &DomainLogonArgs,
    config: &Config,
    realm: &str,
    netbios_name: Option<&str>,
    controller: Option<&str>,
) -> anyhow::Result<Logon> {
    let set = config.domain.netbios_name.as_ref().map(|name| name.value.as_str());
    let short_names: Vec<&str> = netbios_name.into_iter().chain(set).collect();
    let principal = logon::principal(&logon.user, realm, &short_names).map_err(anyhow::Error::msg)?;
    let password = match &logon.password.password_file {
        Some(file) => password::from_file(file, "--password-file")?,
        None => password::ask_once(&principal)?,
    };
    anyhow::ensure!(
        !password.is_empty(),
        "the password of {principal} is empty; give it by --password-file, or type it"
    );
    Ok(Logon::begin(realm, controller, &principal, &password)?)
}

/// The realm of a join, as it is written in the domain or in the keytab.
fn realm_of(args: &JoinArgs) -> anyhow::Result<String> {
    let given = values::realm(args.realm.trim_end_matches('.')).map_err(anyhow::Error::msg)?;
    let realm = match &args.keytab {
        // A plain realm may have small letters; Active Directory's never has.
        Some(file) => Keytab::read(file)?.spelling_of(&given).unwrap_or(&given).to_owned(),
        None => given.to_uppercase(),
    };
    if realm != given {
        let of = if args.keytab.is_some() { "by the keytab" } else { "in Active Directory" };
        note(format_args!("the case of letters counts in a realm; {of} it is {realm}, not {given}"));
    }
    Ok(realm)
}

/// `trunkline domain join`
pub fn join(args: &JoinArgs) -> anyhow::Result<()> {
    let begun = Instant::now();
    let realm = realm_of(args)?;
    let config = Config::load(&args.location.overrides())?;
    if let Some(now) = config.domain.realm.as_ref().filter(|now| now.value != realm) {
        anyhow::bail!("the server is in {} already; `trunkline domain leave` first", now.value);
    }
    let (aliases, removed) = (host_names(&args.name)?, host_names(&args.remove_name)?);
    if let Some(both) = aliases.iter().find(|name| removed.contains(name)) {
        anyhow::bail!("{both} is both in --name and in --remove-name; give it once");
    }
    if let Some(unknown) = removed.iter().find(|name| !config.domain.names.value.contains(name)) {
        let names = config.domain.names.value.join(", ");
        anyhow::bail!("--remove-name {unknown}: it is no name of the server, which has: {names}");
    }
    // The lock of the own keytab is held until the settings are written.
    let (keytab, joined, _work) = match &args.keytab {
        Some(file) => {
            let file = std::path::absolute(file)?;
            let joined = bring(&config, &realm, &file, &aliases, &removed)?;
            (file, joined, None)
        }
        None => {
            let dir = &config.server.state_dir.value;
            // The directory must be there, and be the server's.
            if control::ask(dir, &Request::Health)?.is_none() {
                drop(StateDir::open(dir)?);
            }
            let (joined, work) = join_directory(args, &config, &realm, aliases, &removed)?;
            (own_keytab(&config)?, joined, Some(work))
        }
    };
    let netbios_name = args.netbios_name.as_ref().or(joined.netbios_name.as_ref());
    let mut settings = json!({ "realm": &realm, "keytab": keytab.display().to_string(),
        "names": &joined.names });
    // What nobody says now stays as it was.
    for (key, value) in [("netbios_name", netbios_name), ("domain_sid", joined.domain_sid.as_ref())] {
        if let Some(value) = value {
            settings[key] = json!(value);
        }
    }
    let written = SettingsWriter::open(&args.location).and_then(|writer| writer.write(settings));
    let notes = written.map_err(|why| {
        anyhow::anyhow!("the keys are in {}, but the settings were not written: {why:#}", keytab.display())
    })?;
    report(&realm, netbios_name, &keytab, &joined);
    output::line(format_args!(
        "joined after {:.1} s; `trunkline domain test` examines each step",
        begun.elapsed().as_secs_f64()
    ));
    if let Some(why) = &joined.unremoved {
        let names = removed.join(", ");
        note(format_args!("{names} could not be removed: {why}; all else is done; run the command again"));
    }
    notes.iter().for_each(note);
    overridden(&args.location.overrides())?.iter().for_each(note);
    Ok(())
}

/// Takes over a keytab that was brought.
fn bring(
    config: &Config,
    realm: &str,
    file: &Path,
    aliases: &[String],
    removed: &[String],
) -> anyhow::Result<Joined> {
    let mut joined = membership::bring(realm, file, aliases)?;
    joined.names.retain(|name| !removed.contains(name));
    anyhow::ensure!(!joined.names.is_empty(), "--remove-name would leave the server without a name");
    if let Some(account) = &joined.account {
        let tls = DirectoryAccess::of(&config.domain).and_then(|access| access.tls());
        match tls.and_then(|tls| membership::learn(realm, file, account, tls.as_ref())) {
            Ok(domain) => (joined.netbios_name, joined.domain_sid) = (domain.netbios_name, domain.sid),
            Err(why) => note(format_args!(
                "the directory did not tell the short name and the SID of {realm} ({why}); set \
                 `netbios_name` and `domain_sid` in [domain], or join again"
            )),
        }
    }
    let own = own_keytab(config)?;
    if own != file && own.exists() {
        note(format_args!(
            "an earlier join made {}; it and its account stay until `trunkline domain leave`",
            own.display()
        ));
    }
    Ok(joined)
}

/// The earlier membership of the state directory in the realm.
fn earlier_join(config: &Config, realm: &str) -> anyhow::Result<EarlierJoin> {
    let keytab = Keytab::read(&own_keytab(config)?).unwrap_or_default().of_realm(realm);
    let is_joined = config.domain.realm.is_some() && has_own_keytab(config)?;
    let names = if is_joined { config.domain.names.value.clone() } else { Vec::new() };
    Ok(EarlierJoin { account: keytab.machine_account().map(str::to_owned), names })
}

/// The name of the machine account, without `$`.
fn computer_name(args: &JoinArgs, config: &Config, earlier: &EarlierJoin) -> anyhow::Result<String> {
    let given = args.computer_name.as_deref().map(|name| values::netbios(name.trim_end_matches('$')));
    let given = given.transpose().map_err(anyhow::Error::msg)?;
    let before = earlier.account.as_deref().map(|account| account.trim_end_matches('$'));
    match (given, before) {
        (Some(given), Some(before)) if !given.eq_ignore_ascii_case(before) => anyhow::bail!(
            "the server has joined as {before} already; leave --computer-name out, or `trunkline domain \
             leave` first"
        ),
        (Some(name), _) => Ok(name),
        (None, Some(before)) => Ok(before.to_owned()),
        (None, None) => Ok(config.server.netbios_name.value.clone()),
    }
}

fn join_directory(
    args: &JoinArgs,
    config: &Config,
    realm: &str,
    mut aliases: Vec<String>,
    removed: &[String],
) -> anyhow::Result<(Joined, Work)> {
    anyhow::ensure!(
        args.controller.is_some() || membership::is_joinable(realm),
        "the DNS names no domain controller of {realm} (record _ldap._tcp.dc._msdcs.{}); for Active \
         Directory name a controller as DNS server in /etc/resolv.conf; for a plain Kerberos realm give a \
         keytab with cifs/{} by --keytab",
        realm.to_lowercase(),
        full_host_name(realm),
    );
    let earlier = earlier_join(config, realm)?;
    let computer = computer_name(args, config, &earlier)?;
    let host = match &args.host {
        Some(host) => host_names(std::slice::from_ref(host))?.remove(0),
        None => full_host_name(realm),
    };
    let own = [host.clone(), computer.to_lowercase()];
    if let Some(name) = removed.iter().find(|name| own.contains(name)) {
        anyhow::bail!("--remove-name {name}: it is the server's own name; see --host and --computer-name");
    }
    // Names of an earlier join stay.
    let before = config.domain.names.value.iter().filter(|_| config.domain.realm.is_some());
    aliases.extend(before.cloned());
    aliases.retain(|name| !own.contains(name) && !removed.contains(name));
    aliases.sort_unstable();
    aliases.dedup();
    let access = DirectoryAccess::of(&config.domain).and_then(|access| access.tls());
    let tls = access.map_err(anyhow::Error::msg)?;
    let controller = args.controller.as_deref().map(|host| host.trim_end_matches('.'));
    let logon = log_on(&args.logon, config, realm, args.netbios_name.as_deref(), controller)?;
    let work = Work::beside(&own_keytab(config)?, realm)?;
    work.leftover().into_iter().for_each(note);
    let joined = membership::join(Join {
        realm,
        logon: &logon,
        tls: tls.as_ref(),
        earlier: &earlier,
        may_take_over: args.take_over,
        netbios_name: args.netbios_name.as_deref(),
        computer: &computer,
        host: &host,
        aliases: &aliases,
        removed,
        unit: args.organizational_unit.as_deref(),
        work: &work,
    })?;
    Ok((joined, work))
}

fn report(realm: &str, netbios_name: Option<&String>, keytab: &Path, joined: &Joined) {
    let Joined { domain_sid, names, account, controller, .. } = joined;
    let short = netbios_name.map_or_else(String::new, |name| format!(" ({name})"));
    let lines = [
        ("realm", Some(format!("{realm}{short}"))),
        ("sid", domain_sid.clone()),
        ("controller", controller.clone()),
        ("account", account.clone()),
        ("names", Some(names.join(", "))),
        ("keytab", Some(keytab.display().to_string())),
    ];
    for (key, value) in lines {
        value.into_iter().for_each(|value| output::line(format_args!("{key:10} {value}")));
    }
}

/// `trunkline domain leave`
pub fn leave(logon: &DomainLogonArgs, keep_account: bool, location: &LocationArgs) -> anyhow::Result<()> {
    let read = || -> anyhow::Result<_> {
        let config = Config::load(&location.overrides())?;
        Ok((joined_realm(&config)?, config.domain.keytab.value.clone(), config))
    };
    let (realm, set_keytab, config) = read()?;
    let own = own_keytab(&config)?;
    // An earlier join may have made a keytab before another one was brought.
    let has_own = has_own_keytab(&config)?;
    let is_made = has_own || own.exists() || Work::has_been_beside(&own);
    let is_renewed = !has_own && Work::has_been_beside(&set_keytab);
    // An account whose keytab was brought belongs to whoever brought it.
    let account_of = || {
        let keys = Keytab::read(&own).ok().filter(|_| is_made && !keep_account)?.of_realm(&realm);
        keys.machine_account().map(str::to_owned)
    };
    let account = account_of();
    let keep = |account: &str, why: anyhow::Error| {
        anyhow::anyhow!("{why}; `--keep-account` leaves without removing the account {account}")
    };
    // Nobody holds a lock at the prompt.
    let logon = account
        .as_ref()
        .map(|account| log_on(logon, &config, &realm, None, None).map_err(|why| keep(account, why)));
    let logon = logon.transpose()?;
    // Keys of a run that died belong to the account, and no other run may be under way.
    let work = is_made.then(|| Work::beside(&own, &realm)).transpose()?;
    let work_of_brought = is_renewed.then(|| Work::beside(&set_keytab, &realm)).transpose()?;
    work.iter().chain(&work_of_brought).filter_map(Work::leftover).for_each(note);
    let (again, keytab_again, config) = read()?;
    let is_same = (again, keytab_again) == (realm.clone(), set_keytab);
    anyhow::ensure!(is_same, "another command has changed `[domain]`; try again");
    anyhow::ensure!(account == account_of(), "another command has changed {}; try again", own.display());
    let ntlm = &config.domain.ntlm;
    anyhow::ensure!(
        ntlm.value != values::Ntlm::Off,
        "`ntlm` is `off` ({}), so nobody could log on without {realm}; set it to `on` first",
        config.location(&ntlm.origin),
    );
    let nothing = json!({ "realm": null, "netbios_name": null, "domain_sid": null, "keytab": null,
        "names": null, "trusted": null, "ldap_ca": null });
    // A fault in the settings must not show after the account is gone.
    let writer = SettingsWriter::open(location)?;
    writer.check(nothing.clone()).map_err(|why| {
        anyhow::anyhow!("the settings cannot be changed, so the server stays in {realm}: {why:#}")
    })?;
    if let (Some(account), Some(logon)) = (&account, &logon) {
        remove_account(logon, &own, &realm, account).map_err(|why| keep(account, why))?;
    }
    let notes = writer.write(nothing).map_err(|why| {
        anyhow::anyhow!("the settings were not changed: {why:#}; `trunkline domain leave` again goes on")
    })?;
    work.map_or(Ok(()), |work| remove_keytab(&own, work))?;
    work_of_brought.map_or(Ok(()), Work::remove)?;
    output::line(format_args!("the server has left {realm}"));
    let after = Config::load(&location.overrides())?;
    if let Some(still) = &after.domain.realm {
        let from = after.location(&still.origin);
        note(format_args!("the configuration names {} still ({from}); remove it there", still.value));
    }
    notes.iter().for_each(note);
    Ok(())
}

/// Removes the keytab that a join made, and all that lies beside it.
fn remove_keytab(own: &Path, work: Work) -> anyhow::Result<()> {
    match std::fs::remove_file(own) {
        Ok(()) => output::line(format_args!("{} removed", own.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => anyhow::bail!("{}: {error}; remove it by hand", own.display()),
    }
    Ok(work.remove()?)
}

fn remove_account(logon: &Logon, keytab: &Path, realm: &str, account: &str) -> anyhow::Result<()> {
    match membership::leave(realm, account, keytab, logon)? {
        true => output::line(format_args!("account {account} removed from {realm}")),
        false => note(format_args!("{realm} has no account {account} any more")),
    }
    Ok(())
}
