//! `trunkline domain lookup ACCOUNT`: a user or a group as the server sees it. The resolver is made by the
//! function of the server, with the same configuration and the same users, and has no memory.

use std::process::ExitCode;
use std::sync::Arc;

use identity::mapping::IdMapping;
use identity::{AccountKey, Group, IdentityError, Resolver, User};
use serde_json::{Value, json};
use smb::config::grantee::parts;
use volume::security::Sid;

use super::{local_principals, output};
use crate::cli::LocationArgs;
use crate::config::{Config, Domain};
use crate::domain::accounts;
use crate::domain::keytab::Keytab;
use crate::host;
use crate::principals::LogonPrincipal;
use crate::serve::DomainIds;

/// Runs the command. The status is 0 for an account, 1 if there is none, and 2 if a source cannot be asked.
pub fn run(account: &str, group: bool, json: bool, location: &LocationArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(&location.overrides())?;
    let local = local_principals::of_server(&config)?;
    let ids = DomainIds::of(&config.domain, &local, &host::listed_names(), None);
    let found = match &ids {
        Ok(ids) if group => group_of(ids.resolver(), account).map(|it| it.map(|group| shown_group(&group))),
        Ok(ids) => user_of(ids.resolver(), account).map(|it| it.map(|user| shown_user(&user))),
        // The server's own users need no domain.
        Err(mend) => match own_user(&local, account).filter(|_| !group) {
            Some(user) => Ok(Some(user)),
            None => anyhow::bail!("no account of a domain has an id: {mend}"),
        },
    };
    match (found, &ids) {
        (Ok(Some(found)), _) => {
            print(&found, json)?;
            Ok(ExitCode::SUCCESS)
        }
        (Ok(None), Ok(ids)) => {
            let unasked = unasked_directory(&config.domain);
            let sources = ["neither the directory nor the host has", "the host does not have"];
            let what = format!("{} the {} {account}", sources[usize::from(unasked.is_some())], kind(group));
            let hints = hints(ids, account, group);
            Ok(missing(&what, &hints.into_iter().chain(unasked).collect::<Vec<_>>()))
        }
        // The account is there, and the server refuses it.
        (Err(why), Ok(ids)) if !is_silence(&why) => Ok(missing(&refusal(&why, ids), &[])),
        (Err(_), Ok(ids)) if is_foreign_sid(ids, account) => {
            Ok(missing(&format!("no {} {account}", kind(group)), &hints(ids, account, group)))
        }
        (Err(why), _) => match unasked_directory(&config.domain) {
            Some(unasked) => anyhow::bail!("{why}; {unasked}"),
            None => Err(why.into()),
        },
        (Ok(None), Err(mend)) => anyhow::bail!("no account of a domain has an id: {mend}"),
    }
}

fn kind(group: bool) -> &'static str {
    if group { "group" } else { "user" }
}

fn print(found: &Value, json: bool) -> anyhow::Result<()> {
    match (json, found.as_object()) {
        (false, Some(fields)) => {
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                output::line(format_args!("{key:10} {}", line(value)));
            }
        }
        _ => output::line(serde_json::to_string_pretty(found)?),
    }
    Ok(())
}

/// Says that there is no such account, with what may be the cause.
fn missing(what: &str, hints: &[String]) -> ExitCode {
    let all = [&[what.to_owned()], hints].concat();
    eprintln!("trunkline: {}", all.join("; "));
    ExitCode::FAILURE
}

/// Whether a source did not answer, so that nobody knows whether there is such an account.
fn is_silence(why: &IdentityError) -> bool {
    matches!(why, IdentityError::Unavailable(_))
}

fn refusal(why: &IdentityError, ids: &DomainIds) -> String {
    match why {
        IdentityError::NotCovered { account, sid } => {
            format!("{account} has no id: {}", ids.not_covered(sid))
        }
        why => why.to_string(),
    }
}

/// The likely causes why no source has an account.
fn hints(ids: &DomainIds, account: &str, group: bool) -> Vec<String> {
    let mapping = &ids.resolver().settings().mapping;
    let mut hints = Vec::new();
    let is_other = match group {
        true => user_of(ids.resolver(), account).is_ok_and(|it| it.is_some()),
        false => group_of(ids.resolver(), account).is_ok_and(|it| it.is_some()),
    };
    if is_other {
        let how = if group { "leave `--group` out" } else { "ask for it with `--group`" };
        hints.push(format!("it is a {}: {how}", kind(!group)));
        return hints;
    }
    if let Ok(id) = account.parse() {
        if !accounts::covers(mapping, id) {
            hints.push(format!("the domain has no id {id}: {}", ranges(mapping)));
        }
    } else if is_foreign_sid(ids, account) {
        hints.push("the SID is neither of `domain_sid` nor of a domain of `trusted`".to_owned());
    } else if account.parse::<Sid>().is_err() {
        hints.extend(unknown_domain(ids, account));
    }
    hints
}

/// The reason why the directory is not asked.
fn unasked_directory(domain: &Domain) -> Option<String> {
    let realm = domain.realm.as_ref().map(|realm| realm.value.as_str()).unwrap_or_default();
    match Keytab::read(&domain.keytab.value).map(|keytab| keytab.of_realm(realm)) {
        Ok(keytab) if keytab.machine_account().is_some() => None,
        Ok(_) => Some(format!(
            "only the host was asked, since {} has no machine account for the directory (`trunkline domain \
             join`)",
            domain.keytab.value.display()
        )),
        Err(why) => Some(format!("only the host was asked, and not the directory: {why}")),
    }
}

/// Whether an account is a SID of a domain that this server does not know.
fn is_foreign_sid(ids: &DomainIds, account: &str) -> bool {
    account.parse::<Sid>().is_ok_and(|sid| ids.resolver().settings().domains.of_sid(&sid).is_none())
}

/// The ids that a mapping gives.
fn ranges(mapping: &IdMapping) -> String {
    match mapping {
        IdMapping::Rid(all) => {
            let all: Vec<String> = all.iter().map(|one| one.range.to_string()).collect();
            format!("its ranges are {}", all.join(", "))
        }
        IdMapping::Attributes(range) => format!("`id_range` is {range}"),
        IdMapping::Table(_) | IdMapping::Autorid(_) => "`id_file` has none such".to_owned(),
        IdMapping::Host => "the host alone has ids".to_owned(),
    }
}

/// A name of a domain that this server does not know.
fn unknown_domain(ids: &DomainIds, account: &str) -> Option<String> {
    let (_, domain, _) = parts(account);
    let domains = &ids.resolver().settings().domains;
    let Some(domain) = domain else {
        let own = domains.own.as_ref()?.netbios.as_ref()?;
        return Some(format!("a user of the domain is named {own}\\{account}"));
    };
    domains.named(domain).is_none().then(|| {
        let all: Vec<String> = domains.all().map(|one| one.realm.to_string()).collect();
        format!("{domain} is no domain of this server; its domains are {}", all.join(", "))
    })
}

fn user_of(resolver: &Resolver, account: &str) -> Result<Option<Arc<User>>, IdentityError> {
    match account.parse() {
        Ok(uid) => resolver.user(&AccountKey::Id(uid)),
        Err(_) => resolver.user_named(account),
    }
}

fn group_of(resolver: &Resolver, account: &str) -> Result<Option<Arc<Group>>, IdentityError> {
    match account.parse() {
        Ok(gid) => resolver.group(&AccountKey::Id(gid)),
        Err(_) => resolver.group_named(account),
    }
}

/// A user of the server itself, by name or SID.
fn own_user(local: &[LogonPrincipal], account: &str) -> Option<Value> {
    let is_meant = |user: &&LogonPrincipal| user.name.eq_ignore_ascii_case(account) || user.sid == account;
    let user = local.iter().filter(|user| user.key_of.is_none()).find(is_meant)?;
    let ids = user.ids.as_ref();
    Some(json!({ "name": user.name, "sid": user.sid, "uid": ids.map(|ids| ids.uid),
        "gid": ids.map(|ids| ids.gid), "enabled": ids.is_some() }))
}

fn shown_user(user: &User) -> Value {
    let groups = user.groups.iter().map(|group| json!({ "sid": group.sid.to_string(), "gid": group.gid }));
    json!({ "name": user.nt_name(), "principal": user.principal.as_deref(), "sid": user.sid.to_string(),
        "uid": user.uid, "gid": user.gid, "enabled": user.enabled, "groups": groups.collect::<Vec<_>>() })
}

fn shown_group(group: &Group) -> Value {
    json!({ "name": group.nt_name(), "sid": group.sid.to_string(), "gid": group.gid })
}

/// A value for people: groups as `SID (gid)`.
fn line(value: &Value) -> String {
    let Some(groups) = value.as_array() else {
        return value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    };
    let one = |group: &Value| match (group["sid"].as_str().unwrap_or_default(), group["gid"].as_u64()) {
        (sid, Some(gid)) => format!("{sid} ({gid})"),
        (sid, None) => sid.to_owned(),
    };
    groups.iter().map(one).collect::<Vec<_>>().join(", ")
}
