//! Accounts and shares as they are looked at and changed while the server runs.
//!
//! An [`Object`] has its settings under the keys of the configuration, and a version that is another one as soon as any of them is.
//! A [`Change`] may name the version that it was made for, and is refused when somebody was faster.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// What several shares have in common.
    Account,
    /// A directory on offer.
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

/// An account or a share as it counts now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its name as it is written.
    pub name: String,
    /// Another one with each change of a value below.
    pub version: String,
    /// Every value, also one that is taken over or nobody has set.
    pub settings: Map<String, Value>,
    /// Where each came from; of a user's access under `users.NAME`.
    pub origins: BTreeMap<String, String>,
}

/// Something to be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Of what.
    pub kind: Kind,
    /// Its name, case not minded.
    pub name: String,
    /// What is to be done.
    pub what: ChangeAction,
    /// Only if it is still at this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_version: Option<String>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ChangeAction {
    /// It is new.
    Create {
        /// Its values; what is left out is taken over or the default.
        settings: Map<String, Value>,
    },
    /// These values are to be others; null: as if nobody had changed it by command.
    Set {
        /// The values.
        settings: Map<String, Value>,
    },
    /// It is to be no more.
    Delete {
        /// Also while it is in use: who uses it is disconnected.
        force: bool,
    },
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// How it is now; none: it is no more.
    pub object: Option<Object>,
    /// What whoever changed it should know.
    pub notes: Vec<String>,
}

/// Why a change was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// What is asked for cannot be.
    Bad,
    /// There is no such thing.
    NotFound,
    /// It is there already, is in use, or is not to be changed here.
    Conflict,
    /// It has changed since.
    OldVersion,
    /// The host would not have it.
    Failed,
}

/// A change that was refused; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// What kind of reason.
    pub why: Why,
    /// The reason, in one line.
    pub text: String,
}

impl Refusal {
    /// One of a kind.
    pub fn new(why: Why, text: impl Into<String>) -> Refusal {
        Refusal { why, text: text.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_written_for_programs() {
        let text = "{\"kind\":\"share\",\"name\":\"docs\",\"what\":{\"set\":{\"settings\":{\"comment\":null}}},\
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
