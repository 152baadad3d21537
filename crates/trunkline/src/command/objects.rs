//! `trunkline account` and `trunkline share`: through the running server, else on the state directly.

use std::path::Path;

use admin::objects::{Change, Changed, Kind, Object, What};
use admin::{Request, Response};
use serde_json::{Map, Value};

use super::{control, table};
use crate::changes::history::History;
use crate::changes::{Edited, keys, object};
use crate::cli::{ObjectCommand, Place};
use crate::config::{Config, Overrides, Sources, check, nearest};
use crate::state::StateDir;

/// Does what was asked.
pub fn run(kind: Kind, command: ObjectCommand) -> anyhow::Result<()> {
    match command {
        ObjectCommand::List { json, place } => list(kind, &place, json),
        ObjectCommand::Show { name, json, place } => show(kind, &name, &place, json),
        ObjectCommand::Create { name, settings, place } => {
            let settings = read(&settings)?;
            change(
                &place,
                Change { kind, name, what: What::Create { settings }, if_version: None },
                "created",
            )
        }
        ObjectCommand::Set { name, settings, reset, if_version, place } => {
            let mut settings = read(&settings)?;
            for key in reset {
                anyhow::ensure!(!settings.contains_key(&key), "`{key}` cannot be both set and reset");
                settings.insert(key, Value::Null);
            }
            anyhow::ensure!(!settings.is_empty(), "nothing to set: give KEY=VALUE or --reset KEY");
            change(&place, Change { kind, name, what: What::Set { settings }, if_version }, "changed")
        }
        ObjectCommand::Delete { name, force, if_version, place } => {
            change(&place, Change { kind, name, what: What::Delete { force }, if_version }, "deleted")
        }
    }
}

/// What was written on the command line. A path counts from where it was written.
fn read(items: &[String]) -> anyhow::Result<Map<String, Value>> {
    let mut settings = keys::settings(items).map_err(anyhow::Error::msg)?;
    if let Some(Value::String(path)) = settings.get_mut("path") {
        *path = std::path::absolute(Path::new(path))?.display().to_string();
    }
    Ok(settings)
}

fn change(place: &Place, change: Change, done: &str) -> anyhow::Result<()> {
    let overrides = place.overrides();
    let dir = control::state_dir(place)?;
    let (kind, name) = (change.kind, change.name.clone());
    let changed = match control::ask(&dir, &Request::Change(Box::new(change.clone())))? {
        Some(Response::Changed(changed)) => *changed,
        Some(_) => anyhow::bail!("the server answered something else"),
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

/// Without a running server: the next one to start has it.
fn change_state(overrides: &Overrides, dir: &Path, change: &Change) -> anyhow::Result<Changed> {
    let state = StateDir::open(dir)?;
    let sources = Sources::read(overrides)?;
    let config = Config::of(overrides, &sources)?;
    let history = History::default();
    let edited = Edited::new(overrides, &sources, &config, change, &history, &state, check::consistent)?;
    let is_account = change.kind == Kind::Account;
    // One of that name that was taken out of the configuration may have left its own.
    if is_account && matches!(change.what, What::Create { .. }) {
        state.store().remove_account_keys(&change.name)?;
    }
    edited.keep(&state)?;
    if is_account && matches!(change.what, What::Delete { .. }) {
        state.store().remove_account_keys(&change.name)?;
    }
    Ok(Changed { object: object::find(&edited.config, change.kind, &change.name), notes: Vec::new() })
}

fn all(kind: Kind, place: &Place) -> anyhow::Result<Vec<Object>> {
    match control::ask(&control::state_dir(place)?, &Request::Objects { kind })? {
        Some(Response::Objects(objects)) => Ok(objects),
        Some(_) => anyhow::bail!("the server answered something else"),
        None => Ok(object::all(&Config::load(&place.overrides())?, kind)),
    }
}

fn show(kind: Kind, name: &str, place: &Place, json: bool) -> anyhow::Result<()> {
    let all = all(kind, place)?;
    let Some(object) = all.iter().find(|object| object.name.to_lowercase() == name.to_lowercase()) else {
        let names: Vec<&str> = all.iter().map(|object| object.name.as_str()).collect();
        anyhow::bail!("there is no {kind} `{name}`{}", nearest::hint(name, &names));
    };
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

/// A value as it is given on the command line.
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

fn list(kind: Kind, place: &Place, json: bool) -> anyhow::Result<()> {
    let all = all(kind, place)?;
    if json {
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
}
