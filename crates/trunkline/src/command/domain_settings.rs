//! The settings of `[domain]` that a join or a leave writes, by the running server or without one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use admin::{Request, Response};
use serde_json::{Map, Value};

use super::control;
use crate::changes::{Edited, edit_domain};
use crate::cli::LocationArgs;
use crate::config::{Config, Overrides, Sources, check};
use crate::domain::membership::OWN_KEYTAB;
use crate::state::StateDir;

/// The keytab that a join makes.
pub fn own_keytab(config: &Config) -> anyhow::Result<PathBuf> {
    Ok(std::path::absolute(&config.server.state_dir.value)?.join(OWN_KEYTAB))
}

/// Whether the configuration has the keytab that a join made, and no other.
pub fn has_own_keytab(config: &Config) -> anyhow::Result<bool> {
    let (own, set) = (own_keytab(config)?, std::path::absolute(&config.domain.keytab.value)?);
    let is_same = || Some(std::fs::canonicalize(&own).ok()? == std::fs::canonicalize(&set).ok()?);
    Ok(own == set || is_same().unwrap_or(false))
}

/// The realm of the configuration.
pub fn joined_realm(config: &Config) -> anyhow::Result<String> {
    let realm = config.domain.realm.as_ref().map(|realm| realm.value.clone());
    realm.ok_or_else(|| anyhow::anyhow!("{}", in_no_domain(config)))
}

/// Says that the server is in no domain, where that was read, and what to do.
pub fn in_no_domain(config: &Config) -> String {
    let state = config.server.state_dir.value.display();
    let file = match &config.file {
        Some(file) => format!("neither {} nor the state directory {state} has a `realm`", file.display()),
        None => format!(
            "the state directory {state} has no `realm`, and no configuration file was read; see --config"
        ),
    };
    format!("the server is in no domain ({file}); join one with `trunkline domain join REALM`")
}

/// The writer of the settings. No other command can change them meanwhile, unless a server runs.
pub enum SettingsWriter {
    /// The server that runs on this state directory.
    Server(PathBuf, Overrides),
    /// This program.
    Own(Overrides, Box<StateDir>),
}

impl SettingsWriter {
    /// Takes the lock of the state directory, or finds the server that has it.
    pub fn open(location: &LocationArgs) -> anyhow::Result<SettingsWriter> {
        let (dir, overrides) = (control::state_dir(location)?, location.overrides());
        match control::ask(&dir, &Request::Health)? {
            Some(_) => Ok(SettingsWriter::Server(dir, overrides)),
            None => Ok(SettingsWriter::Own(overrides, Box::new(StateDir::open(&dir)?))),
        }
    }

    /// Tries the settings without keeping them: whether they can be written, and the server could go on with
    /// them.
    pub fn check(&self, settings: Value) -> anyhow::Result<()> {
        let settings: Map<String, Value> = serde_json::from_value(settings)?;
        match self {
            SettingsWriter::Own(overrides, state) => edited(overrides, state, &settings).map(|_| ()),
            SettingsWriter::Server(dir, overrides) => {
                // The server writes the file again as it is.
                control::ask_running(dir, &Request::ChangeDomain(Map::new()))?;
                let Response::Users(users) = control::ask_running(dir, &Request::Users)? else {
                    anyhow::bail!("the server sent an unexpected answer");
                };
                let users: BTreeSet<String> = users.iter().map(|user| user.name.to_lowercase()).collect();
                let sources = Sources::read(overrides)?;
                let changes = Some(edit_domain(&sources, &settings)?);
                check::consistent(&Config::of(overrides, &Sources { changes, ..sources })?, &users)?;
                Ok(())
            }
        }
    }

    /// Writes the settings. Returns notes.
    pub fn write(self, settings: Value) -> anyhow::Result<Vec<String>> {
        let settings: Map<String, Value> = serde_json::from_value(settings)?;
        match self {
            SettingsWriter::Own(overrides, state) => {
                edited(&overrides, &state, &settings)?.keep(&state)?;
                Ok(Vec::new())
            }
            SettingsWriter::Server(dir, _) => {
                match control::ask_running(&dir, &Request::ChangeDomain(settings))? {
                    Response::DomainChanged(notes) => Ok(notes),
                    _ => anyhow::bail!("the server sent an unexpected answer"),
                }
            }
        }
    }
}

fn edited(overrides: &Overrides, state: &StateDir, settings: &Map<String, Value>) -> anyhow::Result<Edited> {
    let sources = Sources::read(overrides)?;
    let config = Config::of(overrides, &sources)?;
    Ok(Edited::domain(overrides, &sources, &config, settings, state, check::consistent)?)
}

/// The keys of `[domain]` that the configuration file and the file of changes set differently. The file of
/// changes wins, which its readers may not expect.
pub fn overridden(overrides: &Overrides) -> anyhow::Result<Vec<String>> {
    let sources = Sources::read(overrides)?;
    let changes = Config::of(overrides, &sources)?.changes();
    Ok(differences(&sources, overrides.config.as_deref(), &changes))
}

fn differences(sources: &Sources, file: Option<&Path>, changes: &Path) -> Vec<String> {
    let table = |text: &Option<String>| {
        let table: toml::Table = text.as_deref().unwrap_or_default().parse().unwrap_or_default();
        table.get("domain").and_then(toml::Value::as_table).cloned().unwrap_or_default()
    };
    let (of_file, of_changes) = (table(&sources.file), table(&sources.changes));
    let file = file.map_or_else(String::new, |file| file.display().to_string());
    let both = of_file.iter().filter_map(|(key, value)| Some((key, value, of_changes.get(key)?)));
    both.filter(|(_, value, other)| value != other)
        .map(|(key, value, other)| {
            format!(
                "`{key}` of [domain] is {other} by {}, which goes before {value} in {file}; take it out \
                 there",
                changes.display()
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_both_files_set_differently_are_told() {
        let sources = Sources {
            file: Some("[domain]\nrealm = \"A\"\nntlm = \"off\"\nnames = [\"x\"]\n".to_owned()),
            changes: Some("[domain]\nrealm = \"B\"\nkeytab = \"/k\"\nnames = [\"x\"]\n".to_owned()),
        };
        let told = differences(&sources, Some(Path::new("/t.toml")), Path::new("/s/changes.toml"));
        let expected = "`realm` of [domain] is \"B\" by /s/changes.toml, which goes before \"A\" in \
                        /t.toml; take it out there";
        assert_eq!(told, [expected]);
        assert!(differences(&Sources { file: None, ..sources }, None, Path::new("/c")).is_empty());
    }
}
