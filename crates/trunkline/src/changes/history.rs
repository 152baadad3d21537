//! Earlier versions of accounts and shares, to say what has changed since a version that a client has seen.

use std::collections::VecDeque;

use admin::objects::{Kind, Object};
use serde_json::Value;

/// The number of versions to remember.
const MOST: usize = 1024;

/// Versions that were shown or created while the server ran, the oldest first.
#[derive(Debug, Default)]
pub struct History(VecDeque<Object>);

impl History {
    /// Remembers the current version of an account or a share.
    pub fn note(&mut self, object: &Object) {
        let is_known = |known: &Object| known.version == object.version && known.kind == object.kind;
        if self.0.iter().any(is_known) {
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(object.clone());
    }

    /// The differences from an older version, in words. None if that version is not remembered.
    pub fn since(&self, kind: Kind, version: &str, now: &Object) -> Option<String> {
        let then = self.0.iter().find(|known| known.kind == kind && known.version == version)?;
        let keys =
            then.settings.keys().chain(now.settings.keys().filter(|key| !then.settings.contains_key(*key)));
        let shown = |value: Option<&Value>| value.map_or_else(|| "not set".to_owned(), Value::to_string);
        let different = keys.filter_map(|key| {
            let (before, after) = (then.settings.get(key), now.settings.get(key));
            (before != after).then(|| format!("`{key}` was {} and is {}", shown(before), shown(after)))
        });
        Some(different.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn object(version: &str, settings: &[(&str, Value)]) -> Object {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let (name, version) = ("docs".to_owned(), version.to_owned());
        Object { kind: Kind::Share, name, version, settings, origins: BTreeMap::new() }
    }

    #[test]
    fn what_has_changed_since_a_version_is_told() {
        let mut history = History::default();
        history.note(&object("1", &[("a", 1.into()), ("b", "x".into())]));
        let now = object("2", &[("a", 2.into()), ("b", "x".into()), ("c", true.into())]);
        let told = history.since(Kind::Share, "1", &now).unwrap();
        assert_eq!(told, "`a` was 1 and is 2, `c` was not set and is true");
        assert_eq!(history.since(Kind::Share, "0", &now), None);
        assert_eq!(history.since(Kind::Account, "1", &now), None);
        for number in 0..MOST {
            history.note(&object(&format!("n{number}"), &[]));
        }
        assert_eq!((history.0.len(), history.since(Kind::Share, "1", &now)), (MOST, None));
    }
}
