//! Accounts and shares that are created, changed and removed by command, and the domain that is joined, with
//! or without a running server.
//!
//! The changes are in `changes.toml` in the state directory. It is a second configuration that has only
//! these, and it overrides the first one (`config/section.rs`, `named`). So the administrator's
//! own file stays unchanged, with its comments and under the control of any tool that manages it. `config
//! show` prints for each value which of the two files sets it.
//!
//! Start with [`edit()`], which turns a change into the new text of that file, or refuses it. The result is
//! then read and checked in the same way as at a start, to see whether the server can serve it. [`object`]
//! shows accounts and shares. [`history`] says what has changed when a client names an old version. [`keys`]
//! reads values from a command line.

mod edit;
pub mod history;
pub mod keys;
pub mod object;

use std::collections::BTreeSet;

use admin::objects::{Change, Refusal, RefusalKind};
use serde_json::{Map, Value};

use crate::config::{CHANGES, Config, ConfigError, Overrides, Sources};
use crate::state::StateDir;
pub use edit::{edit, edit_domain};
use history::History;

/// A check of a configuration against the host and the names of the users, in lower case:
/// [`crate::config::check::against`] for a running server, [`crate::config::check::consistent`] without one.
pub type Check = fn(&Config, &BTreeSet<String>) -> Result<(), ConfigError>;

/// A configuration with a change.
#[derive(Debug)]
pub struct Edited {
    /// The texts of the configuration, with the change.
    pub sources: Sources,
    /// The checked configuration of these texts.
    pub config: Config,
}

impl Edited {
    /// Applies a change to a configuration.
    ///
    /// # Errors
    /// The reason why the change is not possible.
    pub fn new(
        overrides: &Overrides,
        sources: &Sources,
        config: &Config,
        change: &Change,
        history: &History,
        state: &StateDir,
        check: Check,
    ) -> Result<Edited, Refusal> {
        check_in_force(sources, config)?;
        let text = edit(config, sources, &overrides.environment, history, change)?;
        Edited::with(overrides, sources, config, text, state, check)
    }

    /// Applies other settings of the domain to a configuration.
    ///
    /// # Errors
    /// The reason why the change is not possible.
    pub fn domain(
        overrides: &Overrides,
        sources: &Sources,
        config: &Config,
        settings: &Map<String, Value>,
        state: &StateDir,
        check: Check,
    ) -> Result<Edited, Refusal> {
        check_in_force(sources, config)?;
        Edited::with(overrides, sources, config, edit_domain(sources, settings)?, state, check)
    }

    /// The configuration with another text of the file of changes.
    fn with(
        overrides: &Overrides,
        sources: &Sources,
        config: &Config,
        text: String,
        state: &StateDir,
        check: Check,
    ) -> Result<Edited, Refusal> {
        let sources = Sources { changes: Some(text), ..sources.clone() };
        let location = format!("{}:", config.changes().display());
        let bad = |why: String| Refusal::new(RefusalKind::Bad, without_location(&location, &why));
        let config = checked(overrides, &sources, state, check).map_err(bad)?;
        Ok(Edited { sources, config })
    }

    /// Writes the file of changes.
    ///
    /// # Errors
    /// The error of the host. The file is unchanged then.
    pub fn keep(&self, state: &StateDir) -> Result<(), Refusal> {
        let text = self.sources.changes.as_deref().unwrap_or_default();
        let written = state.write_file(CHANGES, text.as_bytes());
        let failed = |error| {
            let file = state.path().join(CHANGES);
            let why = crate::config::os_error(&error);
            Refusal::new(RefusalKind::Failed, format!("{}: {why}; nothing was changed", file.display()))
        };
        written.map(|_| ()).map_err(failed)
    }
}

/// Refuses a change while the file of changes is not the one in force.
fn check_in_force(sources: &Sources, config: &Config) -> Result<(), Refusal> {
    let file = config.changes();
    let there = Sources::read_changes(&file).map_err(|e| Refusal::new(RefusalKind::Failed, e.0))?;
    if there == sources.changes {
        return Ok(());
    }
    let text = format!("{} was edited and is not in force; `trunkline reload` reads it", file.display());
    Err(Refusal::new(RefusalKind::Conflict, text))
}

/// Reads the configuration of these texts and checks it against the host and the users.
///
/// # Errors
/// One line for the user.
pub fn checked(
    overrides: &Overrides,
    sources: &Sources,
    state: &StateDir,
    check: Check,
) -> Result<Config, String> {
    let config = Config::of(overrides, sources).map_err(|e| e.to_string())?;
    let stored = state.store().users().map_err(|e| e.to_string())?;
    let stored: BTreeSet<String> = stored.into_iter().map(|user| user.name.to_lowercase()).collect();
    check(&config, &stored).map_err(|e| e.to_string())?;
    Ok(config)
}

/// Removes the file name and the line number from a message, since that text is not in the file yet.
fn without_location(location: &str, why: &str) -> String {
    let after_line = |rest: &str| {
        let (line, text) = rest.split_once(": ")?;
        line.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.to_owned())
    };
    why.strip_prefix(location).and_then(after_line).unwrap_or_else(|| why.to_owned())
}
