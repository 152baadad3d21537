//! `trunkline domain join|leave|test|status|renew`: the host's programs do the work, and the settings are
//! written as those of accounts and shares are (docs/decisions/18).
//!
//! [`super::domain_join`] joins and leaves. Here is all that changes no membership.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::domain_join::{self, note};
use super::domain_settings::{has_own_keytab, in_no_domain, joined_realm, overridden};
use super::{domain_lookup, output, table};
use crate::cli::{DomainCommand, LocationArgs};
use crate::config::Config;
use crate::domain::controllers::{Kdc, KdcSource, Kdcs};
use crate::domain::examine::{DomainStep, DomainStepResult, Membership, examine};
use crate::domain::keytab::{Keytab, KeytabEntry};
use crate::domain::membership;
use crate::domain::{enctype, skew};

/// Runs the command. The status is 1 if `test` finds a fault.
pub fn run(command: DomainCommand) -> anyhow::Result<ExitCode> {
    match command {
        DomainCommand::Join(args) => domain_join::join(&args)?,
        DomainCommand::Leave { logon, keep_account, location } => {
            domain_join::leave(&logon, keep_account, &location)?;
        }
        DomainCommand::Test { json, location } => return test(json, &location),
        DomainCommand::Status { json, location } => status(json, &location)?,
        DomainCommand::Lookup { account, group, json, location } => {
            return domain_lookup::run(&account, group, json, &location);
        }
        DomainCommand::Renew { older_than_days, force, if_own, location } => {
            let config = Config::load(&location.overrides())?;
            match if_own.then(|| not_own(&config)).transpose()?.flatten() {
                Some(why) => output::line(format_args!("nothing to renew: {why}")),
                None => renew(older_than_days, force, &config)?,
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn test(json: bool, location: &LocationArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&location.overrides())?;
    let realm = joined_realm(&config)?;
    let keytab = &config.domain.keytab.value;
    let steps = examine(Membership { realm: &realm, keytab, settings: &config.domain });
    if json {
        output::line(serde_json::to_string_pretty(&steps)?);
    } else {
        output::text(told(&steps));
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
            true => output::line(json!({ "realm": null })),
            false => output::line(in_no_domain(&config)),
        }
        return Ok(());
    };
    let keytab = Keytab::read(&config.domain.keytab.value);
    let own = keytab.as_ref().map(|keytab| keytab.of_realm(&realm)).unwrap_or_default();
    let account = own.machine_account().map(str::to_owned);
    let kdcs = Kdcs::find(&realm, account.as_deref().unwrap_or("host"));
    let overridden = overridden(&location.overrides())?;
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
            "controllers": controllers.collect::<Vec<_>>(), "overridden": overridden });
        output::line(serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    let short = config.domain.netbios_name.as_ref().map_or_else(String::new, |it| format!(" ({})", it.value));
    let mut out = format!("realm    {realm}{short}\n");
    let account = account.as_deref().unwrap_or("none: the keytab has service keys alone");
    let _ = writeln!(out, "account  {account}\nnames    {}", config.domain.names.value.join(", "));
    let _ = match &keytab {
        Ok(_) => writeln!(out, "keytab   {}\n", config.domain.keytab.value.display()),
        Err(why) => writeln!(out, "keytab   {why}\n"),
    };
    let rows = keys(&own);
    table::rows(["PRINCIPAL", "KVNO", "ENCRYPTION TYPE", "AGE"], &rows, &mut out);
    table::rows(["CONTROLLER", "ADDRESS", "ANSWER"], &controllers(&kdcs), &mut out);
    output::text(out);
    if let KdcSource::SilentDns | KdcSource::NoRecord = kdcs.source {
        output::line("no controller is known; see `trunkline domain test`");
    }
    overridden.iter().for_each(note);
    Ok(())
}

fn keys(own: &Keytab) -> Vec<[String; 4]> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let row = |key: &KeytabEntry| {
        let age = format!("{} days", now.saturating_sub(key.written.into()) / 86_400);
        [key.principal.clone(), key.kvno.to_string(), enctype::name(key.enctype), age]
    };
    own.entries.iter().map(row).collect()
}

fn controllers(kdcs: &Kdcs) -> Vec<[String; 3]> {
    let first = kdcs.answering().map(|(kdc, _)| kdc.host.clone());
    let row = |kdc: &Kdc| {
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

/// The reason why the server has no keytab of a machine account that `domain join` made. A keytab that cannot
/// be read may be one.
fn not_own(config: &Config) -> anyhow::Result<Option<String>> {
    let Some(realm) = &config.domain.realm else { return Ok(Some(in_no_domain(config))) };
    let path = &config.domain.keytab.value;
    if !has_own_keytab(config)? {
        let why = "was brought and not made by `trunkline domain join`; whoever brought it renews its keys";
        return Ok(Some(format!("{} {why}", path.display())));
    }
    let has_none = Keytab::read(path).is_ok_and(|all| all.of_realm(&realm.value).machine_account().is_none());
    let none =
        || format!("{} has no machine account of {}; its KDC renews keys", path.display(), realm.value);
    Ok(has_none.then(none))
}

fn renew(days: u32, force: bool, config: &Config) -> anyhow::Result<()> {
    let realm = joined_realm(config)?;
    let keytab = &config.domain.keytab.value;
    let has_account =
        Keytab::read(keytab).is_ok_and(|keys| keys.of_realm(&realm).machine_account().is_some());
    anyhow::ensure!(
        force || !has_account || has_own_keytab(config)?,
        "{} was brought and not made by `trunkline domain join`, so the program that joined this host has \
         the password of the account too and renews it: winbindd by itself, sssd or a timer by `adcli \
         update`; a new password from here would lock that program out; --force makes one nevertheless",
        keytab.display(),
    );
    let (before, after) = membership::renew(&realm, keytab, days, |leftover| note(leftover))?;
    output::line(match after > before {
        true => format!("key version {after} added; version {before} stays for tickets that clients have"),
        false => format!("key version {before} is not older than {days} days and stays"),
    });
    Ok(())
}
