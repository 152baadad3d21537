//! Accounts and shares as administrators see and change them while the server runs.
//!
//! An [`Object`] has its settings under the keys of the configuration. Its version changes with each of them.
//! A [`Change`] may name the version that it was made for. It is refused when the object has another one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Settings and limits that several shares have in common.
    Account,
    /// A directory that is served under a name.
    Share,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Account => "account",
            Kind::Share => "share",
        })
    }
}

/// An account or a share with the settings that count now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// The kind.
    pub kind: Kind,
    /// The name as it is written.
    pub name: String,
    /// The version. It changes with each value of `settings`.
    pub version: String,
    /// Every value, also inherited ones and defaults.
    pub settings: Map<String, Value>,
    /// The origin of each value. The origin of a user's access stands under `users.NAME`.
    pub origins: BTreeMap<String, String>,
}

/// A change of an account or a share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The kind of the object.
    pub kind: Kind,
    /// The name of the object. Case is not minded.
    pub name: String,
    /// The action.
    pub what: ChangeAction,
    /// The version that the object must have; none: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_version: Option<String>,
}

/// The action of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ChangeAction {
    /// Makes a new object.
    Create {
        /// The values. Others are inherited or the default.
        settings: Map<String, Value>,
    },
    /// Sets values. Null takes back what commands have set.
    Set {
        /// The values.
        settings: Map<String, Value>,
    },
    /// Deletes the object.
    Delete {
        /// Whether it is deleted while clients use it. They are disconnected.
        force: bool,
    },
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The object after the change; none when it is deleted.
    pub object: Option<Object>,
    /// Notes for the administrator, a sentence each.
    pub notes: Vec<String>,
}

/// The kind of reason for which a change is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The values cannot be.
    Bad,
    /// There is no such object.
    NotFound,
    /// The object is there already, is in use, or must not be changed here.
    Conflict,
    /// The object has another version by now.
    OldVersion,
    /// The host refused it.
    Failed,
}

/// The refusal of a change. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The kind of reason.
    pub why: RefusalKind,
    /// The reason, in one line.
    pub text: String,
}

impl Refusal {
    /// Makes a refusal.
    pub fn new(why: RefusalKind, text: impl Into<String>) -> Refusal {
        Refusal { why, text: text.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_written_for_programs() {
        let text = "{\"kind\":\"share\",\"name\":\"docs\",\"what\":{\"set\":{\
                    \"settings\":{\"comment\":null}}},\
                    \"if_version\":\"7\"}";
        let change: Change = serde_json::from_str(text).unwrap();
        assert_eq!(
            change.what,
            ChangeAction::Set { settings: [("comment".to_owned(), Value::Null)].into_iter().collect() }
        );
        assert_eq!(serde_json::to_string(&change).unwrap(), text);
        let delete = "{\"kind\":\"account\",\"name\":\"x\",\"what\":{\"delete\":{\"force\":true}}}";
        let change: Change = serde_json::from_str(delete).unwrap();
        assert_eq!((change.kind.to_string().as_str(), change.if_version), ("account", None));
        assert!(
            serde_json::from_str::<Change>("{\"kind\":\"user\",\"name\":\"x\",\"what\":\"delete\"}").is_err()
        );
    }
}
