//! Turns a change of an account, a share or the domain into the new text of `changes.toml`.

use std::collections::BTreeMap;

use admin::objects::{Change, ChangeAction, Kind, Object, Refusal, RefusalKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toml::Table;

use super::history::History;
use super::object;
use crate::config::environment::Environment;
use crate::config::nearest::nearest;
use crate::config::section::{REMOVED, WHOLE};
use crate::config::{Config, Origin, Sources, values};

/// The comment at the top of the file of changes.
const HEADER: &str = "\
# The domain, accounts and shares as `trunkline domain`, `account`, `share` and the admin API have \
changed them. The server writes this file.
# It goes before the configuration file, key by key; `whole`: nothing else counts of a table; `removed`: it \
is taken out.
# What is taken out here counts again as the configuration says, after `trunkline reload`.
";

/// The file of changes.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Changes {
    #[serde(skip_serializing_if = "Table::is_empty")]
    domain: Table,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    account: BTreeMap<String, Table>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    share: BTreeMap<String, Table>,
}

impl Changes {
    fn read(text: &str) -> Result<Changes, Refusal> {
        toml::from_str(text).map_err(|e| Refusal::new(RefusalKind::Failed, e.message().to_owned()))
    }

    fn of(&mut self, kind: Kind) -> &mut BTreeMap<String, Table> {
        match kind {
            Kind::Account => &mut self.account,
            Kind::Share => &mut self.share,
        }
    }

    /// Removes the table of a name and returns it. The case of the name does not matter.
    fn take(&mut self, kind: Kind, name: &str) -> Table {
        let all = self.of(kind);
        let key = all.keys().find(|key| key.to_lowercase() == name.to_lowercase()).cloned();
        key.and_then(|key| all.remove(&key)).unwrap_or_default()
    }

    fn write(&self) -> Result<String, Refusal> {
        let text = toml::to_string(self).map_err(|e| Refusal::new(RefusalKind::Bad, e.to_string()))?;
        Ok(format!("{HEADER}\n{text}"))
    }
}

/// The text of the file of changes with one more change. It does not check whether the server can serve the
/// result.
///
/// # Errors
/// The reason why the change is not possible.
pub fn edit(
    config: &Config,
    sources: &Sources,
    environment: &Environment,
    history: &History,
    change: &Change,
) -> Result<String, Refusal> {
    let Change { kind, name, what, if_version } = change;
    let kind = *kind;
    let mut changes = Changes::read(sources.changes.as_deref().unwrap_or_default())?;
    let there = object::find(config, kind, name);
    match (what, there) {
        (ChangeAction::Create { .. }, Some(there)) => {
            let location = object::origin(config, kind, name).map(|origin| config.location(&origin));
            let text = format!("there is already {kind} `{}` ({})", there.name, location.unwrap_or_default());
            return Err(Refusal::new(RefusalKind::Conflict, text));
        }
        (ChangeAction::Create { settings }, None) => {
            check_name(kind, name)?;
            let mut table = Table::from_iter([(WHOLE.to_owned(), toml::Value::Boolean(true))]);
            lay_over(&mut table, settings)?;
            changes.take(kind, name);
            changes.of(kind).insert(name.clone(), table);
        }
        (_, None) => return Err(not_there(config, kind, name)),
        (ChangeAction::Set { settings }, Some(there)) => {
            check_version(&there, if_version.as_deref(), history)?;
            check_changeable(config, &there)?;
            let mut table = changes.take(kind, name);
            lay_over(&mut table, settings)?;
            if !table.is_empty() {
                changes.of(kind).insert(there.name, table);
            }
        }
        (ChangeAction::Delete { .. }, Some(there)) => {
            check_version(&there, if_version.as_deref(), history)?;
            check_changeable(config, &there)?;
            check_empty(config, &there)?;
            changes.take(kind, name);
            if stands_below(sources, environment, kind, name) {
                let table = Table::from_iter([(REMOVED.to_owned(), toml::Value::Boolean(true))]);
                changes.of(kind).insert(there.name, table);
            }
        }
    }
    changes.write()
}

/// The text of the file of changes with other settings of the domain. Null drops the change of a key. It does
/// not check whether the server can serve the result.
///
/// # Errors
/// The reason why the change is not possible.
pub fn edit_domain(sources: &Sources, settings: &Map<String, Value>) -> Result<String, Refusal> {
    let mut changes = Changes::read(sources.changes.as_deref().unwrap_or_default())?;
    lay_over(&mut changes.domain, settings)?;
    changes.write()
}

fn bad(text: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::Bad, text)
}

fn check_name(kind: Kind, name: &str) -> Result<(), Refusal> {
    match kind {
        Kind::Share => values::share_name(name).map_err(bad),
        Kind::Account => {
            let is_good = (1..=80).contains(&name.chars().count())
                && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
            let why = || bad(format!("`{name}`: an account's name has 1 to 80 letters, digits and -_."));
            is_good.then_some(()).ok_or_else(why)
        }
    }
}

fn not_there(config: &Config, kind: Kind, name: &str) -> Refusal {
    let hint = nearest(name, object::names(config, kind));
    let hint = hint.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    Refusal::new(RefusalKind::NotFound, format!("there is no {kind} `{name}`{hint}"))
}

fn check_version(there: &Object, wanted: Option<&str>, history: &History) -> Result<(), Refusal> {
    let Some(wanted) = wanted.filter(|wanted| *wanted != there.version) else { return Ok(()) };
    let Object { kind, name, version, .. } = there;
    let text = match history.since(*kind, wanted, there) {
        Some(what) => {
            format!(
                "{kind} `{name}` has changed since version {wanted}: {what}; it is at version {version} now"
            )
        }
        None => format!(
            "{kind} `{name}` is at version {version}, not {wanted}: read it again before you change it"
        ),
    };
    Err(Refusal::new(RefusalKind::OldVersion, text))
}

/// Refuses to change a share of the server's command line.
fn check_changeable(config: &Config, there: &Object) -> Result<(), Refusal> {
    if !matches!(object::origin(config, there.kind, &there.name), Some(Origin::CommandLine(_))) {
        return Ok(());
    }
    let text = format!(
        "share `{}` is on the server's command line and can only be changed there; remove the directory \
         from it and create the share with `trunkline share create`",
        there.name
    );
    Err(Refusal::new(RefusalKind::Conflict, text))
}

fn check_empty(config: &Config, there: &Object) -> Result<(), Refusal> {
    if there.kind != Kind::Account {
        return Ok(());
    }
    let name = there.name.to_lowercase();
    let of_it = config
        .shares
        .values()
        .filter(|share| share.account.as_ref().is_some_and(|account| account.value.to_lowercase() == name));
    let shares: Vec<_> = of_it.map(|share| format!("`{}`", share.name.value)).collect();
    if shares.is_empty() {
        return Ok(());
    }
    let text =
        format!("account `{}` has shares: {}; delete or move them first", there.name, shares.join(", "));
    Err(Refusal::new(RefusalKind::Conflict, text))
}

/// Whether the configuration file or a variable has a table of that name.
fn stands_below(sources: &Sources, environment: &Environment, kind: Kind, name: &str) -> bool {
    let variables = environment.settings().map(|found| found.text).unwrap_or_default();
    let texts = [sources.file.as_deref().unwrap_or_default(), &variables];
    texts.iter().any(|text| {
        let table: Table = text.parse().unwrap_or_default();
        let tables = table.get(&kind.to_string()).and_then(toml::Value::as_table);
        tables.is_some_and(|tables| tables.keys().any(|key| key.to_lowercase() == name.to_lowercase()))
    })
}

fn lay_over(table: &mut Table, settings: &Map<String, Value>) -> Result<(), Refusal> {
    for (key, value) in settings {
        if [REMOVED, WHOLE].contains(&key.as_str()) {
            return Err(bad(format!("unknown key `{key}`")));
        }
        match to_toml(key, value)? {
            None => table.remove(key),
            Some(toml::Value::String(path)) if key == "path" && !path.starts_with('/') => {
                return Err(bad(format!("`path` must be an absolute path such as /srv/docs, not `{path}`")));
            }
            Some(value) => table.insert(key.clone(), value),
        };
    }
    Ok(())
}

/// The value as TOML; none for null.
fn to_toml(key: &str, value: &Value) -> Result<Option<toml::Value>, Refusal> {
    let inner =
        |value: &Value| to_toml(key, value)?.ok_or_else(|| bad(format!("`{key}` must not hold null")));
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Bool(flag) => toml::Value::Boolean(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => toml::Value::Integer(whole),
            (None, Some(fraction)) => toml::Value::Float(fraction),
            (None, None) => return Err(bad(format!("`{key}`: {number} is not a supported number"))),
        },
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Array(items) => toml::Value::Array(items.iter().map(inner).collect::<Result<_, _>>()?),
        Value::Object(items) => {
            let items = items.iter().map(|(name, value)| Ok((name.clone(), inner(value)?)));
            toml::Value::Table(items.collect::<Result<_, Refusal>>()?)
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use serde_json::json;
    use std::path::Path;

    const FILE: &str = "[account.Lab]\nkind = \"premium\"\n\
                        [share.Docs]\npath = \"/srv/docs\"\naccount = \"lab\"\nprovisioned_gib = 100\n";

    /// A configuration and the changes to it.
    struct EditedConfig {
        sources: Sources,
        history: History,
    }

    impl EditedConfig {
        fn new() -> EditedConfig {
            let sources = Sources { file: Some(FILE.to_owned()), changes: None };
            EditedConfig { sources, history: History::default() }
        }

        fn config(&self) -> Config {
            match &self.sources.changes {
                Some(text) => read::changed("t.toml", FILE, Path::new("/"), ("changes.toml", text)).unwrap(),
                None => read::parse("t.toml", FILE, Path::new("/")).unwrap(),
            }
        }

        fn find(&mut self, kind: Kind, name: &str) -> Option<Object> {
            let object = object::find(&self.config(), kind, name);
            object.iter().for_each(|object| self.history.note(object));
            object
        }

        fn change(
            &mut self,
            kind: Kind,
            name: &str,
            what: ChangeAction,
            version: Option<&str>,
        ) -> Result<(), Refusal> {
            let if_version = version.map(str::to_owned);
            let change = Change { kind, name: name.to_owned(), what, if_version };
            let text = edit(&self.config(), &self.sources, &Environment::default(), &self.history, &change)?;
            self.sources.changes = Some(text);
            Ok(())
        }

        fn set(&mut self, name: &str, settings: Value) -> Result<(), Refusal> {
            self.change(Kind::Share, name, ChangeAction::Set { settings: map(settings) }, None)
        }
    }

    fn map(settings: Value) -> Map<String, Value> {
        match settings {
            Value::Object(settings) => settings,
            other => panic!("{other}"),
        }
    }

    fn delete() -> ChangeAction {
        ChangeAction::Delete { force: false }
    }

    #[test]
    fn a_share_of_the_configuration_is_changed_reset_deleted_and_made_again() {
        let mut world = EditedConfig::new();
        world
            .set(
                "DOCS",
                json!({"provisioned_gib": 200, "users": {"ann": "write"}, "protocols": ["smb", "nfs"]}),
            )
            .unwrap();
        let docs = world.find(Kind::Share, "docs").unwrap();
        assert_eq!(docs.settings["provisioned_gib"], 200);
        assert_eq!((docs.name.as_str(), &docs.settings["users"]), ("Docs", &json!({"ann": "write"})));
        assert_eq!(docs.origins["path"], "line 4");
        assert!(docs.origins["provisioned_gib"].ends_with("/changes.toml:7"), "{docs:?}");
        world.set("docs", json!({"provisioned_gib": null, "users": null, "protocols": null})).unwrap();
        assert_eq!(world.find(Kind::Share, "docs").unwrap().settings["provisioned_gib"], 100);
        assert_eq!(world.sources.changes.as_deref().map(str::trim_end), Some(HEADER.trim_end()));
        world.change(Kind::Share, "docs", delete(), None).unwrap();
        assert_eq!(world.find(Kind::Share, "docs"), None);
        // A new share takes nothing over from the deleted one of the same name.
        let settings = map(json!({"path": "/srv/docs"}));
        world.change(Kind::Share, "docs", ChangeAction::Create { settings }, None).unwrap();
        let docs = world.find(Kind::Share, "docs").unwrap();
        assert!(docs.name == "docs" && !docs.settings.contains_key("provisioned_gib"), "{docs:?}");
        world.change(Kind::Share, "docs", delete(), None).unwrap();
        assert_eq!(world.find(Kind::Share, "docs"), None, "the configuration's does not come back");
    }

    #[test]
    fn whoever_was_too_slow_is_told_what_has_changed() {
        let mut world = EditedConfig::new();
        let seen = world.find(Kind::Share, "docs").unwrap().version;
        world.set("docs", json!({"comment": "by another"})).unwrap();
        let what = || ChangeAction::Set { settings: map(json!({"provisioned_gib": 300})) };
        let why = world.change(Kind::Share, "docs", what(), Some(&seen)).unwrap_err();
        assert_eq!(why.why, RefusalKind::OldVersion);
        assert!(why.text.contains("`comment` was \"\" and is \"by another\"; it is at version "), "{why}");
        let why = world.change(Kind::Share, "docs", delete(), Some("0")).unwrap_err();
        assert!(
            why.why == RefusalKind::OldVersion && why.text.ends_with("read it again before you change it"),
            "{why}"
        );
        let now = world.find(Kind::Share, "docs").unwrap();
        assert_eq!(now.settings["provisioned_gib"], 100);
        world.change(Kind::Share, "docs", what(), Some(&now.version)).unwrap();
        assert_eq!(world.find(Kind::Share, "docs").unwrap().settings["provisioned_gib"], 300);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        let mut world = EditedConfig::new();
        let create = |settings: Value| ChangeAction::Create { settings: map(settings) };
        let set = |settings: Value| ChangeAction::Set { settings: map(settings) };
        let cases = [
            (
                Kind::Share,
                "docs",
                create(json!({"path": "/x"})),
                RefusalKind::Conflict,
                "already share `Docs` (line 3)",
            ),
            (
                Kind::Share,
                "dcos",
                set(json!({})),
                RefusalKind::NotFound,
                "no share `dcos`; did you mean `Docs`?",
            ),
            (Kind::Account, "docs", delete(), RefusalKind::NotFound, "there is no account `docs`"),
            (
                Kind::Account,
                "lab",
                delete(),
                RefusalKind::Conflict,
                "account `Lab` has shares: `Docs`; delete",
            ),
            (
                Kind::Share,
                "docs",
                set(json!({"path": "other"})),
                RefusalKind::Bad,
                "`path` must be an absolute path",
            ),
            (
                Kind::Share,
                "new",
                create(json!({"path": "srv"})),
                RefusalKind::Bad,
                "`path` must be an absolute path",
            ),
            (Kind::Share, "a/b", create(json!({"path": "/srv"})), RefusalKind::Bad, "cannot hold '/'"),
            (Kind::Account, "a b", create(json!({})), RefusalKind::Bad, "an account's name has"),
            (Kind::Share, "docs", set(json!({"removed": true})), RefusalKind::Bad, "unknown key `removed`"),
            (
                Kind::Share,
                "docs",
                set(json!({"users": {"ann": null}})),
                RefusalKind::Bad,
                "`users` must not hold null",
            ),
        ];
        for (kind, name, what, why, wanted) in cases {
            let refused = world.change(kind, name, what, None).unwrap_err();
            assert!(refused.why == why && refused.text.contains(wanted), "{refused:?} is not {wanted}");
            assert_eq!(world.sources.changes, None);
        }
    }
}
