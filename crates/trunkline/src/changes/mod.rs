//! Accounts and shares that are made, changed and removed by command, while the server runs or without it.
//!
//! What was changed stands in `changes.toml` in the state directory: a second configuration that has only
//! accounts and shares and is laid over the first (`config/section.rs`, `named`). So the administrator's own
//! file stays as they wrote it, with their comments and whatever keeps it, and `config show` says of each
//! value in which of the two it stands.
//!
//! Start with [`edit()`], which turns a change into the new text of that file, or refuses it. Whether the
//! server can serve what comes of it is seen by the same reading and checking that a start does. [`object`]
//! shows what there is, [`history`] knows what has changed for somebody who was too slow, [`keys`] reads
//! values from a command line.

mod edit;
pub mod history;
pub mod keys;
pub mod object;

use std::collections::BTreeSet;

use admin::objects::{Change, Refusal, Why};

use crate::config::{CHANGES, Config, ConfigError, Overrides, Sources};
use crate::state::StateDir;
pub use edit::edit;
use history::History;

/// How a configuration is held against the host and the users, of whom it gets the names in lower case:
/// [`crate::config::check::against`] for a server that runs, [`crate::config::check::consistent`] else.
pub type Check = fn(&Config, &BTreeSet<String>) -> Result<(), ConfigError>;

/// A configuration with a change.
#[derive(Debug)]
pub struct Edited {
    /// The texts with the change.
    pub sources: Sources,
    /// What they say, checked.
    pub config: Config,
}

impl Edited {
    /// What a configuration would be with a change.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn new(
        overrides: &Overrides,
        sources: &Sources,
        config: &Config,
        change: &Change,
        history: &History,
        state: &StateDir,
        check: Check,
    ) -> Result<Edited, Refusal> {
        let file = config.changes();
        let there = Sources::read_changes(&file).map_err(|e| Refusal::new(Why::Failed, e.0))?;
        if there != sources.changes {
            let text = format!(
                "{} was changed by hand and is not in force: `trunkline reload` reads it",
                file.display()
            );
            return Err(Refusal::new(Why::Conflict, text));
        }
        let text = edit(config, sources, history, change)?;
        let sources = Sources { changes: Some(text), ..sources.clone() };
        let place = format!("{}:", file.display());
        let bad = |why: String| Refusal::new(Why::Bad, without_place(&place, &why));
        let config = checked(overrides, &sources, state, check).map_err(bad)?;
        Ok(Edited { sources, config })
    }

    /// Keeps it.
    ///
    /// # Errors
    /// What the host says; what was kept before still is.
    pub fn keep(&self, state: &StateDir) -> Result<(), Refusal> {
        let text = self.sources.changes.as_deref().unwrap_or_default();
        let written = state.write_file(CHANGES, text.as_bytes());
        let failed = |error| {
            let file = state.path().join(CHANGES);
            let why = crate::config::os_error(&error);
            Refusal::new(Why::Failed, format!("{}: {why}; nothing was changed", file.display()))
        };
        written.map(|_| ()).map_err(failed)
    }
}

/// The configuration that these texts make, held against the host and the users.
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

/// A message without the line of a file that is not written.
fn without_place(place: &str, why: &str) -> String {
    let after_line = |rest: &str| {
        let (line, text) = rest.split_once(": ")?;
        line.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.to_owned())
    };
    why.strip_prefix(place).and_then(after_line).unwrap_or_else(|| why.to_owned())
}
