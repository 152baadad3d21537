//! Holds the configuration against itself and against the host, and touches nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Config, ConfigError, Origin, Share, User, os_error};

/// Everything that would keep the configuration from being served. `stored` holds the names, in lower
/// case, of the users whose passwords are in the state directory.
///
/// # Errors
/// The first thing that is wrong, with the setting to change.
pub fn against(config: &Config, stored: &BTreeSet<String>) -> Result<(), ConfigError> {
    if config.shares.is_empty() {
        let place = config.file.as_ref().map_or_else(String::new, |file| format!("{}: ", file.display()));
        return Err(ConfigError(format!(
            "{place}nothing to serve; give a DIR or write a [share.NAME] with `path`"
        )));
    }
    consistent(config, stored)
}

/// The same of a configuration that need not have a share yet.
///
/// # Errors
/// As for [`against`].
pub fn consistent(config: &Config, stored: &BTreeSet<String>) -> Result<(), ConfigError> {
    for user in config.users.values() {
        password(config, user, stored)?;
    }
    let mut paths: Vec<(PathBuf, &Share)> = Vec::new();
    for share in config.shares.values() {
        let real = directory(config, share)?;
        apart(config, &paths, &real, share)?;
        state_apart(config, &real, share)?;
        paths.push((real, share));
        readers(config, share, stored)?;
    }
    super::limits::check(config)?;
    super::admin::check(config)?;
    super::endpoints::check(config)
}

/// The first line of `path`, without its line end.
///
/// # Errors
/// Why there is no password in it.
pub fn read_password(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| os_error(&e))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err("its first line is empty; a password must stand there".to_owned()),
    }
}

fn fail(config: &Config, origin: &Origin, message: String) -> ConfigError {
    ConfigError(format!("{}: {message}", config.place(origin)))
}

fn password(config: &Config, user: &User, stored: &BTreeSet<String>) -> Result<(), ConfigError> {
    let name = &user.name.value;
    match &user.password_file {
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

/// The real path of the share's directory.
fn directory(config: &Config, share: &Share) -> Result<PathBuf, ConfigError> {
    let path = &share.path;
    let name = &share.name.value;
    let wrong = |why: String| {
        fail(config, &path.origin, format!("`path` of share `{name}`: {}: {why}", path.value.display()))
    };
    let real = std::fs::canonicalize(&path.value).map_err(|e| wrong(os_error(&e)))?;
    if !real.is_dir() {
        return Err(wrong("not a directory".to_owned()));
    }
    std::fs::read_dir(&real).map_err(|e| wrong(os_error(&e)))?;
    Ok(real)
}

/// Each share keeps its own truth about opens and locks, so no file may be reached through two.
fn apart(
    config: &Config,
    others: &[(PathBuf, &Share)],
    real: &Path,
    share: &Share,
) -> Result<(), ConfigError> {
    let clash = others.iter().find(|(other, _)| other.starts_with(real) || real.starts_with(other));
    match clash {
        Some((other, with)) => Err(fail(
            config,
            &share.path.origin,
            format!(
                "`path` of share `{}`: {} and {} of share `{}` hold the same files; give each its own `path`",
                share.name.value,
                real.display(),
                other.display(),
                with.name.value
            ),
        )),
        None => Ok(()),
    }
}

/// Clients must not reach the server's own state, and what lies beside a volume must lie outside of it.
fn state_apart(config: &Config, real: &Path, share: &Share) -> Result<(), ConfigError> {
    let dir = &config.server.state_dir;
    let absolute = std::path::absolute(&dir.value).unwrap_or_else(|_| dir.value.clone());
    // It need not be there yet: what of it is there leads to where it will be.
    let there = absolute.ancestors().find_map(|part| Some((part, std::fs::canonicalize(part).ok()?)));
    let state = match there {
        Some((part, real)) => real.join(absolute.strip_prefix(part).unwrap_or(Path::new(""))),
        None => absolute,
    };
    if state.starts_with(real) || real.starts_with(&state) {
        let (state, name) = (state.display(), &share.name.value);
        let text = format!(
            "the state directory {state} and share `{name}` lie one in the other; give another --state-dir"
        );
        return Err(fail(config, &share.path.origin, text));
    }
    Ok(())
}

fn readers(config: &Config, share: &Share, stored: &BTreeSet<String>) -> Result<(), ConfigError> {
    let name = &share.name.value;
    if share.users.is_empty() {
        let text =
            format!("share `{name}` has no user that may read it; set `users = {{ NAME = \"read\" }}`");
        return Err(fail(config, &share.name.origin, text));
    }
    let known: Vec<&str> = config
        .users
        .values()
        .map(|user| user.name.value.as_str())
        .chain(stored.iter().map(String::as_str))
        .collect();
    for (user, access) in share.users.iter().filter(|(user, _)| *user != "*") {
        if known.iter().any(|known| known.to_lowercase() == *user) {
            continue;
        }
        // Without any user the first one is made when the server starts, under the name that is asked for.
        if known.is_empty() && share.users.len() == 1 && access.origin == Origin::CommandLine("--user") {
            continue;
        }
        let hint = super::nearest::nearest(user, known.iter().copied());
        let hint = hint.map_or_else(String::new, |near| format!(" (or was `{near}` meant?)"));
        let text =
            format!("user `{user}` of share `{name}` is not known; run `trunkline user add {user}`{hint}");
        return Err(fail(config, &access.origin, text));
    }
    Ok(())
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
    fn what_cannot_be_served_is_refused_with_the_setting_to_change() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("file"), "x").unwrap();
        std::fs::write(dir.path().join("empty"), "\n").unwrap();
        let users = "users = { ann = \"read\" }\n";
        let cases = [
            (
                String::new(),
                "t.toml: nothing to serve; give a DIR or write a [share.NAME] with `path`".to_owned(),
            ),
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
                "t.toml:1: share `d` has no user that may read it; set `users = { NAME = \"read\" }`"
                    .to_owned(),
            ),
            (
                "[share.d]\npath = \"a\"\nusers = { bob = \"read\" }\n".to_owned(),
                "t.toml:3: user `bob` of share `d` is not known; run `trunkline user add bob`".to_owned(),
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
                    "t.toml:3: `password_file` of user `bob`: {at}/empty: its first line is empty; a password must stand there"
                ),
            ),
            (
                format!("[share.d]\npath = \"a\"\n{users}[share.e]\npath = \"a/b\"\n{users}"),
                format!(
                    "t.toml:5: `path` of share `e`: {at}/a/b and {at}/a of share `d` hold the same files; give each its own `path`"
                ),
            ),
            (
                format!("[share.d]\npath = \".\"\n{users}"),
                format!(
                    "t.toml:2: the state directory {at}/state/s and share `d` lie one in the other; give another --state-dir"
                ),
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(checked(&text, dir.path(), &["ann"]).unwrap_err(), wanted, "{text}");
        }
        assert_eq!(checked(&format!("[share.d]\npath = \"a\"\n{users}"), dir.path(), &["ann"]), Ok(()));
    }
}
