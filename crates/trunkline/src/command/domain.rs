//! `trunkline domain join|leave|test|status|renew`: the host's programs do the work, and the settings are
//! written as those of accounts and shares are (docs/decisions/18).

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use admin::{Request, Response};
use serde_json::{Map, Value, json};

use super::{control, domain_lookup, table};
use crate::changes::Edited;
use crate::cli::{DomainCommand, DomainLogonArgs, JoinArgs, LocationArgs};
use crate::config::{Config, Sources, check, values};
use crate::domain::controllers::{KdcSource, Kdcs};
use crate::domain::examine::{DomainStep, DomainStepResult, Membership, examine};
use crate::domain::keytab::Keytab;
use crate::domain::membership::{self, Join, Joined, OWN_KEYTAB};
use crate::domain::work::Work;
use crate::domain::{enctype, skew};
use crate::password;
use crate::state::StateDir;

/// Runs the command. The status is 1 if `test` finds a fault.
pub fn run(command: DomainCommand) -> anyhow::Result<ExitCode> {
    match command {
        DomainCommand::Join(args) => join(&args)?,
        DomainCommand::Leave { logon, keep_account, location } => leave(&logon, keep_account, &location)?,
        DomainCommand::Test { json, location } => return test(json, &location),
        DomainCommand::Status { json, location } => status(json, &location)?,
        DomainCommand::Lookup { account, group, json, location } => {
            return domain_lookup::run(&account, group, json, &location);
        }
        DomainCommand::Renew { older_than_days, location } => renew(older_than_days, &location)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The full host name, made from the realm if the host has only a short one.
fn full_host_name(realm: &str) -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    if name.contains('.') { name } else { format!("{}.{}", values::host_name(), realm).to_lowercase() }
}

fn logon_password(logon: &DomainLogonArgs, realm: &str) -> anyhow::Result<String> {
    match &logon.password.password_file {
        Some(file) => password::from_file(file, "--password-file"),
        None => password::ask_once(&format!("{}@{realm}", logon.user)),
    }
}

fn join(args: &JoinArgs) -> anyhow::Result<()> {
    let begun = Instant::now();
    let realm = values::realm(&args.realm).map_err(anyhow::Error::msg)?;
    // A plain realm may have small letters; Active Directory's never has.
    let realm = if args.keytab.is_some() { realm } else { realm.to_uppercase() };
    let config = Config::load(&args.location.overrides())?;
    if let Some(now) = config.domain.realm.as_ref().filter(|now| now.value != realm) {
        anyhow::bail!("the server is in {} already; `trunkline domain leave` first", now.value);
    }
    let aliases: Vec<String> = args
        .name
        .iter()
        .map(|name| values::spn_name(name))
        .collect::<Result<_, _>>()
        .map_err(anyhow::Error::msg)?;
    let dir = config.server.state_dir.value.clone();
    // The lock of the own keytab is held until the settings are written.
    let (keytab, joined, _work) = match &args.keytab {
        Some(file) => {
            let file = std::path::absolute(file)?;
            let joined = membership::bring(&realm, &file, &aliases)?;
            (file, joined, None)
        }
        None => {
            // The directory must be there, and be the server's.
            if control::ask(&dir, &Request::Health)?.is_none() {
                drop(StateDir::open(&dir)?);
            }
            let keytab = dir.join(OWN_KEYTAB);
            let (joined, work) = join_directory(args, &config, &realm, &aliases, &keytab)?;
            (keytab, joined, Some(work))
        }
    };
    let netbios_name = args.netbios_name.as_ref().or(joined.netbios_name.as_ref());
    let mut settings = json!({ "realm": &realm, "netbios_name": netbios_name,
        "keytab": keytab.display().to_string(),
        "names": &joined.names });
    if let Some(sid) = &joined.domain_sid {
        settings["domain_sid"] = json!(sid);
    }
    let notes = set(&args.location, settings).map_err(|why| {
        anyhow::anyhow!("the keys are in {}, but the settings were not written: {why:#}", keytab.display())
    })?;
    report(&realm, &keytab, &joined);
    println!(
        "joined after {:.1} s; `trunkline domain test` examines each step",
        begun.elapsed().as_secs_f64()
    );
    notes.iter().for_each(note);
    Ok(())
}

fn join_directory(
    args: &JoinArgs,
    config: &Config,
    realm: &str,
    aliases: &[String],
    keytab: &Path,
) -> anyhow::Result<(Joined, Work)> {
    anyhow::ensure!(
        args.controller.is_some() || membership::is_joinable(realm),
        "the DNS names no domain controller of {realm} (record _ldap._tcp.dc._msdcs.{}); for Active \
         Directory name a controller as DNS server in /etc/resolv.conf; for a plain Kerberos realm give a \
         keytab with cifs/{} by --keytab",
        realm.to_lowercase(),
        full_host_name(realm),
    );
    let computer = match &args.computer_name {
        Some(name) => values::netbios(name).map_err(anyhow::Error::msg)?,
        None => config.server.netbios_name.value.clone(),
    };
    let host = args.host.clone().unwrap_or_else(|| full_host_name(realm)).to_lowercase();
    // Names of an earlier join stay.
    let mut aliases = aliases.to_vec();
    let own = [host.clone(), computer.to_lowercase()];
    let before = config.domain.names.value.iter().filter(|_| config.domain.realm.is_some());
    aliases.extend(before.filter(|name| !own.contains(name)).cloned());
    aliases.sort_unstable();
    aliases.dedup();
    let password = logon_password(&args.logon, realm)?;
    let work = Work::beside(keytab, realm)?;
    work.leftover().into_iter().for_each(note);
    let joined = membership::join(Join {
        realm,
        user: &args.logon.user,
        password: &password,
        computer: &computer,
        host: &host,
        aliases: &aliases,
        unit: args.organizational_unit.as_deref(),
        controller: args.controller.as_deref(),
        work: &work,
    })?;
    Ok((joined, work))
}

fn note(note: impl std::fmt::Display) {
    eprintln!("trunkline: note: {note}");
}

fn report(realm: &str, keytab: &Path, joined: &Joined) {
    let Joined { netbios_name, domain_sid, names, account, controller } = joined;
    let short = netbios_name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    println!("realm      {realm}{short}");
    if let Some(sid) = domain_sid {
        println!("sid        {sid}");
    }
    if let Some(controller) = controller {
        println!("controller {controller}");
    }
    if let Some(account) = account {
        println!("account    {account}");
    }
    println!("names      {}", names.join(", "));
    println!("keytab     {}", keytab.display());
}

/// Sets keys of `[domain]`, by the running server or without one. Returns notes.
fn set(location: &LocationArgs, settings: Value) -> anyhow::Result<Vec<String>> {
    let settings: Map<String, Value> = serde_json::from_value(settings)?;
    let dir = control::state_dir(location)?;
    match control::ask(&dir, &Request::ChangeDomain(settings.clone()))? {
        Some(Response::DomainChanged(notes)) => Ok(notes),
        Some(_) => anyhow::bail!("the server sent an unexpected answer"),
        None => {
            let overrides = location.overrides();
            let state = StateDir::open(&dir)?;
            let sources = Sources::read(&overrides)?;
            let config = Config::of(&overrides, &sources)?;
            Edited::domain(&overrides, &sources, &config, &settings, &state, check::consistent)?
                .keep(&state)?;
            Ok(Vec::new())
        }
    }
}

/// The realm of the configuration, and the keytab.
fn joined_realm(config: &Config) -> anyhow::Result<(String, PathBuf)> {
    let realm = config.domain.realm.as_ref().map(|realm| realm.value.clone());
    let realm =
        realm.ok_or_else(|| anyhow::anyhow!("the server is in no domain; see `trunkline domain join`"))?;
    Ok((realm, config.domain.keytab.value.clone()))
}

fn leave(logon: &DomainLogonArgs, keep_account: bool, location: &LocationArgs) -> anyhow::Result<()> {
    let joined = joined_realm(&Config::load(&location.overrides())?)?;
    let (realm, keytab) = joined.clone();
    let is_own = keytab == control::state_dir(location)?.join(OWN_KEYTAB);
    // Keys of a run that died belong to the account, and no other run may be under way.
    let work =
        (is_own || Work::has_been_beside(&keytab)).then(|| Work::beside(&keytab, &realm)).transpose()?;
    work.iter().filter_map(Work::leftover).for_each(note);
    let config = Config::load(&location.overrides())?;
    anyhow::ensure!(joined_realm(&config)? == joined, "another command has changed `[domain]`; try again");
    // The account would be gone before the settings are refused.
    let ntlm = &config.domain.ntlm;
    anyhow::ensure!(
        ntlm.value != values::Ntlm::Off,
        "`ntlm` is `off` ({}), so nobody could log on without {realm}; set it to `on` first",
        config.location(&ntlm.origin),
    );
    let account = Keytab::read(&keytab)
        .ok()
        .and_then(|keys| keys.of_realm(&realm).machine_account().map(str::to_owned));
    // An account whose keytab was brought belongs to whoever brought it.
    if let Some(account) = account.filter(|_| is_own && !keep_account) {
        let password = logon_password(logon, &realm)?;
        membership::leave(&realm, &account, &logon.user, &password).map_err(|why| {
            anyhow::anyhow!("{why}; `--keep-account` leaves without removing the account {account}")
        })?;
        println!("account {account} removed from {realm}");
    }
    let nothing = json!({ "realm": null, "netbios_name": null, "domain_sid": null, "keytab": null,
        "names": null, "trusted": null, "ldap_ca": null });
    let notes = set(location, nothing)?;
    if is_own {
        match std::fs::remove_file(&keytab) {
            Ok(()) => println!("{} removed", keytab.display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => anyhow::bail!("{}: {error}; remove it by hand", keytab.display()),
        }
    }
    if let Some(work) = work {
        work.remove()?;
    }
    println!("the server has left {realm}");
    let after = Config::load(&location.overrides())?;
    if let Some(still) = &after.domain.realm {
        let from = after.location(&still.origin);
        eprintln!("trunkline: note: the configuration names {} still ({from}); remove it there", still.value);
    }
    notes.iter().for_each(note);
    Ok(())
}

fn test(json: bool, location: &LocationArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&location.overrides())?;
    let (realm, keytab) = joined_realm(&config)?;
    let steps = examine(Membership { realm: &realm, keytab: &keytab, names: &config.domain.names.value });
    if json {
        println!("{}", serde_json::to_string_pretty(&steps)?);
    } else {
        print!("{}", told(&steps));
    }
    let is_whole =
        steps.iter().all(|step| matches!(step.result, DomainStepResult::Works | DomainStepResult::Remark));
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn told(steps: &[DomainStep]) -> String {
    let width = steps.iter().map(|step| step.step.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for DomainStep { step, result, seen, mend } in steps {
        let word = match result {
            DomainStepResult::Works => "works",
            DomainStepResult::Remark => "note",
            DomainStepResult::Fault => "FAULT",
            DomainStepResult::Untried => "untried",
        };
        let _ = writeln!(out, "{word:7}  {step:width$}  {}", table::plain(seen));
        if let Some(mend) = mend {
            let _ = writeln!(out, "{:7}  {:width$}  mend: {}", "", "", table::plain(mend));
        }
    }
    out
}

fn status(json: bool, location: &LocationArgs) -> anyhow::Result<()> {
    let config = Config::load(&location.overrides())?;
    let Some(realm) = config.domain.realm.as_ref().map(|realm| realm.value.clone()) else {
        match json {
            true => println!("{}", json!({ "realm": null })),
            false => println!("the server is in no domain; see `trunkline domain join`"),
        }
        return Ok(());
    };
    let keytab = Keytab::read(&config.domain.keytab.value);
    let own = keytab.as_ref().map(|keytab| keytab.of_realm(&realm)).unwrap_or_default();
    let account = own.machine_account().map(str::to_owned);
    let kdcs = Kdcs::find(&realm, account.as_deref().unwrap_or("host"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let days = |written: u32| now.saturating_sub(written.into()) / 86_400;
    if json {
        let keys = own.entries.iter().map(|key| {
            json!({ "principal": key.principal, "kvno": key.kvno, "enctype": enctype::name(key.enctype),
                "written": key.written })
        });
        let controllers = kdcs.all.iter().map(|kdc| {
            let took = kdc.sign.and_then(|sign| u64::try_from(sign.took.as_millis()).ok());
            json!({ "host": kdc.host, "address": kdc.address.map(|at| at.to_string()), "answer_ms": took,
                "clock_ahead_s": kdc.sign.map(|sign| sign.ahead_s) })
        });
        let all = json!({ "realm": &realm,
            "netbios_name": config.domain.netbios_name.as_ref().map(|it| &it.value),
            "domain_sid": config.domain.domain_sid.as_ref().map(|it| &it.value),
            "account": account, "names": config.domain.names.value, "keytab": config.domain.keytab.value,
            "keytab_error": keytab.err().map(|why| why.to_string()), "keys": keys.collect::<Vec<_>>(),
            "controllers": controllers.collect::<Vec<_>>() });
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    let short = config.domain.netbios_name.as_ref().map_or_else(String::new, |it| format!(" ({})", it.value));
    println!("realm    {realm}{short}");
    println!("account  {}", account.as_deref().unwrap_or("none: the keytab has service keys alone"));
    println!("names    {}", config.domain.names.value.join(", "));
    match &keytab {
        Ok(_) => println!("keytab   {}", config.domain.keytab.value.display()),
        Err(why) => println!("keytab   {why}"),
    }
    let row = |key: &crate::domain::keytab::KeytabEntry| {
        let age = format!("{} days", days(key.written));
        [key.principal.clone(), key.kvno.to_string(), enctype::name(key.enctype), age]
    };
    let rows: Vec<[String; 4]> = own.entries.iter().map(row).collect();
    let mut out = String::new();
    table::rows(["PRINCIPAL", "KVNO", "ENCRYPTION TYPE", "AGE"], &rows, &mut out);
    table::rows(["CONTROLLER", "ADDRESS", "ANSWER"], &controllers(&kdcs), &mut out);
    print!("\n{out}");
    if let KdcSource::SilentDns | KdcSource::NoRecord = kdcs.source {
        println!("no controller is known; see `trunkline domain test`");
    }
    Ok(())
}

fn controllers(kdcs: &Kdcs) -> Vec<[String; 3]> {
    let first = kdcs.answering().map(|(kdc, _)| kdc.host.clone());
    let row = |kdc: &crate::domain::controllers::Kdc| {
        let answer = match kdc.sign {
            None => "silent".to_owned(),
            Some(sign) => {
                let used = if first.as_ref() == Some(&kdc.host) { ", used" } else { "" };
                let far = skew(sign.ahead_s)
                    .map_or_else(String::new, |far| format!(", this clock is {far} its own"));
                format!("{} ms{used}{far}", sign.took.as_millis())
            }
        };
        [kdc.host.clone(), kdc.address.map_or_else(|| "-".to_owned(), |at| at.to_string()), answer]
    };
    kdcs.all.iter().map(row).collect()
}

fn renew(days: u32, location: &LocationArgs) -> anyhow::Result<()> {
    let config = Config::load(&location.overrides())?;
    let (realm, keytab) = joined_realm(&config)?;
    let (before, after) = membership::renew(&realm, &keytab, days, |leftover| note(leftover))?;
    match after > before {
        true => println!("key version {after} added; version {before} stays for tickets that clients have"),
        false => println!("key version {before} is not older than {days} days and stays"),
    }
    Ok(())
}
