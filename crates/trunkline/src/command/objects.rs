//! `trunkline account` and `trunkline share`: ask the running server, else work on the state directly.

use std::path::Path;

use admin::objects::{Change, ChangeAction, Changed, Kind, Object};
use admin::{Request, Response};
use serde_json::{Map, Value};

use super::{control, table};
use crate::changes::history::History;
use crate::changes::{Edited, keys, object};
use crate::cli::{ListArgs, LocationArgs, ObjectCommand};
use crate::config::{Config, Overrides, Sources, check, homes, nearest};
use crate::state::StateDir;

/// Runs the command.
pub fn run(kind: Kind, command: ObjectCommand) -> anyhow::Result<()> {
    match command {
        ObjectCommand::List(args) => list(kind, &args),
        ObjectCommand::Show { name, json, location } => show(kind, &name, &location, json),
        ObjectCommand::Create { name, settings, location } => {
            let settings = read(&settings)?;
            change(
                &location,
                Change { kind, name, what: ChangeAction::Create { settings }, if_version: None },
                "created",
            )
        }
        ObjectCommand::Set { name, settings, reset, if_version, location } => {
            let (users, settings): (Vec<_>, Vec<_>) = settings
                .into_iter()
                .partition(|item| item.starts_with("users+=") || item.starts_with("users-="));
            let mut settings = read(&settings)?;
            for key in reset {
                anyhow::ensure!(!settings.contains_key(&key), "`{key}` cannot be both set and reset");
                settings.insert(key, Value::Null);
            }
            if !users.is_empty() {
                anyhow::ensure!(!settings.contains_key("users"), "`users` cannot be both set and changed");
                return set_users(&location, kind, &name, &settings, &users, if_version);
            }
            anyhow::ensure!(!settings.is_empty(), "nothing to set: give KEY=VALUE or --reset KEY");
            change(
                &location,
                Change { kind, name, what: ChangeAction::Set { settings }, if_version },
                "changed",
            )
        }
        ObjectCommand::Delete { name, force, if_version, location } => change(
            &location,
            Change { kind, name, what: ChangeAction::Delete { force }, if_version },
            "deleted",
        ),
    }
}

/// How often a change of users is tried again because another change came first.
const TRIES: usize = 10;

/// Changes single users of a list. It reads the list and changes it only if it is still the same, so that two
/// concurrent additions lose no user.
fn set_users(
    location: &LocationArgs,
    kind: Kind,
    name: &str,
    settings: &Map<String, Value>,
    users: &[String],
    if_version: Option<String>,
) -> anyhow::Result<()> {
    let mut tries = 0;
    loop {
        let there = one(kind, name, location)?;
        let mut settings = settings.clone();
        settings.insert("users".to_owned(), Value::Object(merged(&there, users)?));
        let version = if_version.clone().unwrap_or_else(|| there.version.clone());
        let what = ChangeAction::Set { settings };
        let done = change(
            location,
            Change { kind, name: name.to_owned(), what, if_version: Some(version) },
            "changed",
        );
        tries += 1;
        let Err(why) = done else { return Ok(()) };
        let is_late = if_version.is_none() && one(kind, name, location)?.version != there.version;
        if !is_late || tries == TRIES {
            return Err(why);
        }
    }
}

/// The users that an account or a share lists itself, with additions (`users+=ann=write`) and removals
/// (`users-=ann`).
fn merged(there: &Object, changes: &[String]) -> anyhow::Result<Map<String, Value>> {
    let origin = |user: &str| there.origins.get(&format!("users.{user}"));
    let inherited = |user: &str| origin(user).filter(|origin| origin.starts_with("from "));
    let mut users = there.settings.get("users").and_then(Value::as_object).cloned().unwrap_or_default();
    users.retain(|user, _| inherited(user).is_none());
    for item in changes {
        if let Some(more) = item.strip_prefix("users+=") {
            let more = keys::settings(&[format!("users={more}")]).map_err(anyhow::Error::msg)?;
            let more = more.get("users").and_then(Value::as_object).cloned().unwrap_or_default();
            users.extend(more.into_iter().map(|(user, access)| (user.to_lowercase(), access)));
        } else {
            let less = item.strip_prefix("users-=").unwrap_or_default();
            for user in less.split(',').map(|user| user.trim().to_lowercase()).filter(|user| !user.is_empty())
            {
                if users.remove(&user).is_none() {
                    let why =
                        inherited(&user).map_or_else(String::new, |from| format!(" itself, only {from}"));
                    anyhow::bail!("{} `{}` lists no user `{user}`{why}", there.kind, there.name);
                }
            }
        }
    }
    Ok(users)
}

/// Reads the settings of the command line. A relative path is relative to the current directory.
fn read(items: &[String]) -> anyhow::Result<Map<String, Value>> {
    let mut settings = keys::settings(items).map_err(anyhow::Error::msg)?;
    if let Some(Value::String(path)) = settings.get_mut("path") {
        anyhow::ensure!(path != homes::USER, "`path` {}", homes::NO_FOLDER);
        *path = std::path::absolute(Path::new(path))?.display().to_string();
    }
    Ok(settings)
}

fn change(location: &LocationArgs, change: Change, done: &str) -> anyhow::Result<()> {
    let overrides = location.overrides();
    let dir = control::state_dir(location)?;
    let (kind, name) = (change.kind, change.name.clone());
    let changed = match control::ask(&dir, &Request::Change(Box::new(change.clone())))? {
        Some(Response::Changed(changed)) => *changed,
        Some(_) => anyhow::bail!("the server sent an unexpected answer"),
        None => change_state(&overrides, &dir, &change)?,
    };
    match &changed.object {
        Some(object) => println!("{kind} {} {done}; it is at version {}", object.name, object.version),
        None => println!("{kind} {name} {done}"),
    }
    for note in &changed.notes {
        eprintln!("trunkline: note: {note}");
    }
    Ok(())
}

/// Changes the state without a running server. The next server that starts reads it.
fn change_state(overrides: &Overrides, dir: &Path, change: &Change) -> anyhow::Result<Changed> {
    let state = StateDir::open(dir)?;
    let sources = Sources::read(overrides)?;
    let config = Config::of(overrides, &sources)?;
    let history = History::default();
    let edited = Edited::new(overrides, &sources, &config, change, &history, &state, check::consistent)?;
    let is_account = change.kind == Kind::Account;
    // An account of the same name that was removed from the configuration may have left its keys.
    if is_account && matches!(change.what, ChangeAction::Create { .. }) {
        state.store().remove_account_keys(&change.name)?;
    }
    edited.keep(&state)?;
    if is_account && matches!(change.what, ChangeAction::Delete { .. }) {
        state.store().remove_account_keys(&change.name)?;
    }
    let object = object::find(&edited.config, change.kind, &change.name);
    Ok(Changed { object, notes: vec![control::offline_note(dir)] })
}

fn all(kind: Kind, location: &LocationArgs) -> anyhow::Result<Vec<Object>> {
    match control::ask(&control::state_dir(location)?, &Request::Objects { kind })? {
        Some(Response::Objects(objects)) => Ok(objects),
        Some(_) => anyhow::bail!("the server sent an unexpected answer"),
        None => Ok(object::all(&Config::load(&location.overrides())?, kind)),
    }
}

fn one(kind: Kind, name: &str, location: &LocationArgs) -> anyhow::Result<Object> {
    let all = all(kind, location)?;
    if let Some(object) = all.iter().find(|object| object.name.to_lowercase() == name.to_lowercase()) {
        return Ok(object.clone());
    }
    let names: Vec<&str> = all.iter().map(|object| object.name.as_str()).collect();
    anyhow::bail!("there is no {kind} `{name}`{}", nearest::hint(name, &names));
}

fn show(kind: Kind, name: &str, location: &LocationArgs, json: bool) -> anyhow::Result<()> {
    let object = &one(kind, name, location)?;
    if json {
        println!("{}", serde_json::to_string_pretty(object)?);
        return Ok(());
    }
    let mut out = format!("{kind} {} at version {}\n", object.name, object.version);
    let rows: Vec<_> = object.settings.iter().flat_map(|(key, value)| rows(object, key, value)).collect();
    table::rows(["KEY", "VALUE", "FROM"], &rows, &mut out);
    print!("{out}");
    Ok(())
}

fn rows(object: &Object, key: &str, value: &Value) -> Vec<[String; 3]> {
    let row = |key: String, value: &Value| {
        let origin = object.origins.get(&key).cloned().unwrap_or_default();
        [key, text(Some(value)), origin]
    };
    match value {
        Value::Object(inner) => {
            inner.iter().map(|(name, value)| row(format!("{key}.{name}"), value)).collect()
        }
        _ => vec![row(key.to_owned(), value)],
    }
}

/// A value in the form of the command line.
fn text(value: Option<&Value>) -> String {
    match value {
        None => "-".to_owned(),
        Some(Value::String(text)) => table::shown(text),
        Some(Value::Bool(flag)) => if *flag { "on" } else { "off" }.to_owned(),
        Some(Value::Array(items)) if items.is_empty() => "-".to_owned(),
        Some(Value::Array(items)) => items.iter().map(|item| text(Some(item))).collect::<Vec<_>>().join(","),
        Some(other) => other.to_string(),
    }
}

fn list(kind: Kind, args: &ListArgs) -> anyhow::Result<()> {
    let all = all(kind, &args.location)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    let mut out = String::new();
    let row = |object: &Object, keys: [&str; 5]| {
        let [a, b, c, d, e] = keys.map(|key| text(object.settings.get(key)));
        [object.name.clone(), a, b, c, d, e, object.version.clone()]
    };
    match kind {
        Kind::Account => {
            let keys = ["kind", "formula", "multichannel", "max_channels", "encryption"];
            let rows: Vec<_> = all.iter().map(|object| row(object, keys)).collect();
            let titles = ["NAME", "KIND", "FORMULA", "MULTICHANNEL", "CHANNELS", "ENCRYPTION", "VERSION"];
            table::rows(titles, &rows, &mut out);
        }
        Kind::Share => {
            let keys = ["path", "account", "protocols", "provisioned_gib", "read_only"];
            let rows: Vec<_> = all.iter().map(|object| row(object, keys)).collect();
            let titles = ["NAME", "PATH", "ACCOUNT", "PROTOCOLS", "GIB", "READ ONLY", "VERSION"];
            table::rows(titles, &rows, &mut out);
        }
    }
    print!("{out}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn homes_need_a_folder_above_them() {
        let why = read(&["path={user}".to_owned()]).unwrap_err().to_string();
        assert_eq!(why, "`path` must have a folder above `{user}`: write /home/{user}, not {user} alone");
        assert_eq!(read(&["path=/h/{user}".to_owned()]).unwrap()["path"], "/h/{user}");
    }

    #[test]
    fn values_are_shown_as_they_are_given() {
        assert_eq!(text(Some(&json!(["smb", "nfs"]))), "smb,nfs");
        assert_eq!((text(Some(&json!(true))), text(Some(&json!(100)))), ("on".to_owned(), "100".to_owned()));
        assert_eq!((text(None), text(Some(&json!("")))), ("-".to_owned(), "-".to_owned()));
        let settings = [("users".to_owned(), json!({"ann": "read"}))].into_iter().collect();
        let origins = [("users.ann".to_owned(), "t.toml:3".to_owned())].into();
        let (name, version) = ("docs".to_owned(), "1".to_owned());
        let object = Object { kind: Kind::Share, name, version, settings, origins };
        assert_eq!(rows(&object, "users", &object.settings["users"]), [["users.ann", "read", "t.toml:3"]]);
    }

    #[test]
    fn single_users_are_added_and_taken_away_and_inherited_ones_stay_where_they_are() {
        let settings = [("users".to_owned(), json!({"ann": "read", "bob": "full", "eve": "read"}))];
        let origins = [
            ("users.ann".to_owned(), "t.toml:3".to_owned()),
            ("users.bob".to_owned(), "from [account.lab]".to_owned()),
            ("users.eve".to_owned(), "t.toml:3".to_owned()),
        ];
        let there = Object {
            kind: Kind::Share,
            name: "docs".to_owned(),
            version: "1".to_owned(),
            settings: settings.into_iter().collect(),
            origins: origins.into(),
        };
        let of = |items: &[&str]| {
            let items: Vec<_> = items.iter().map(|item| (*item).to_owned()).collect();
            merged(&there, &items).map(Value::Object).map_err(|e| e.to_string())
        };
        let wanted = json!({"ann": "write", "zoe": "read"});
        assert_eq!(of(&["users+=Zoe=read,ann:write", "users-=EVE"]), Ok(wanted));
        assert_eq!(of(&["users+=bob=read"]), Ok(json!({"ann": "read", "bob": "read", "eve": "read"})));
        let why = of(&["users-=bob"]).unwrap_err();
        assert_eq!(why, "share `docs` lists no user `bob` itself, only from [account.lab]");
        assert_eq!(of(&["users-=max"]).unwrap_err(), "share `docs` lists no user `max`");
        assert!(of(&["users+=max"]).unwrap_err().contains("is not NAME=ACCESS"));
    }
}
