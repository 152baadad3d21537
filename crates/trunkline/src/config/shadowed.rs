//! Shares of the configuration file that do not count, since commands have made or removed shares of these
//! names. The file of changes goes before the configuration file (`docs/provision.md`).

use toml::{Table, Value};

use super::Sources;
use super::section::{REMOVED, WHOLE};

/// A line for each table of a share in the configuration file that has no effect.
pub fn notes(sources: &Sources) -> Vec<String> {
    let shares = |text: &Option<String>| {
        let table = text.as_deref().and_then(|text| text.parse::<Table>().ok());
        match table.and_then(|mut table| table.remove("share")) {
            Some(Value::Table(shares)) => shares,
            _ => Table::new(),
        }
    };
    let changes = shares(&sources.changes);
    let is_set = |name: &str, key: &str| {
        let mut of_name = changes.iter().filter(|(changed, _)| changed.to_lowercase() == name.to_lowercase());
        of_name.any(|(_, change)| change.get(key) == Some(&Value::Boolean(true)))
    };
    let note = |name: &String| {
        let (why, then) = if is_set(name, WHOLE) {
            ("made a share of that name", format!("`trunkline share set {name} KEY=VALUE` changes that one"))
        } else if is_set(name, REMOVED) {
            ("removed the share", format!("`trunkline share create {name}` makes it again"))
        } else {
            return None;
        };
        Some(format!(
            "[share.{name}] of the configuration file has no effect, since a command has {why}; {then}"
        ))
    };
    shares(&sources.file).keys().filter_map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_made_or_removed_hides_the_table_of_the_file() {
        let file = "[share.docs]\npath = \"/a\"\n[share.old]\n[share.both]\n[share.free]\n";
        let changes =
            "[share.Docs]\nwhole = true\n[share.old]\nremoved = true\n[share.both]\ncomment = \"x\"\n";
        let sources = |file: &str, changes: &str| Sources {
            file: Some(file.to_owned()),
            changes: Some(changes.to_owned()),
        };
        let found = notes(&sources(file, changes));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("[share.docs]") && found[0].contains("share set docs"), "{found:?}");
        assert!(found[1].contains("[share.old]") && found[1].contains("share create old"), "{found:?}");
        assert!(notes(&sources(file, "")).is_empty() && notes(&Sources::default()).is_empty());
        assert!(notes(&sources("[share", changes)).is_empty());
    }
}
