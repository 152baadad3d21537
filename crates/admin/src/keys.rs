//! The keys of accounts. An account's name logs on with them.
//!
//! A key opens everything on the account's shares. Only the command that was asked for it prints it, so
//! nothing here shows one by accident.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The text of a key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccountKey(pub String);

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey(…)")
    }
}

/// One of an account's two keys, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyName {
    /// The first key.
    Key1,
    /// The second key, with which everybody works while the first is renewed.
    Key2,
}

impl KeyName {
    /// Both keys.
    pub const ALL: [KeyName; 2] = [KeyName::Key1, KeyName::Key2];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            KeyName::Key1 => "key1",
            KeyName::Key2 => "key2",
        }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for KeyName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = KeyName::ALL.into_iter().find(|key| key.word() == text);
        found.ok_or_else(|| "the keys are key1 and key2".to_owned())
    }
}

/// The keys of an account. A key that was never made is none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountKeys {
    /// The first key.
    pub key1: Option<AccountKey>,
    /// The second key.
    pub key2: Option<AccountKey>,
}

impl AccountKeys {
    /// The key of this name.
    #[must_use]
    pub fn get(&self, name: KeyName) -> Option<&AccountKey> {
        match name {
            KeyName::Key1 => self.key1.as_ref(),
            KeyName::Key2 => self.key2.as_ref(),
        }
    }

    /// Replaces the key of this name.
    pub fn set(&mut self, name: KeyName, key: AccountKey) {
        let target = match name {
            KeyName::Key1 => &mut self.key1,
            KeyName::Key2 => &mut self.key2,
        };
        *target = Some(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sent_as_it_is_and_never_shown_by_accident() {
        let mut keys = AccountKeys::default();
        keys.set(KeyName::Key2, AccountKey("opensesame".to_owned()));
        assert!(!format!("{keys:?}").contains("opensesame"));
        let text = serde_json::to_string(&keys).unwrap();
        assert_eq!(text, "{\"key1\":null,\"key2\":\"opensesame\"}");
        assert_eq!(serde_json::from_str::<AccountKeys>(&text).unwrap(), keys);
        assert_eq!(keys.get(KeyName::Key1), None);
        assert_eq!("key2".parse(), Ok(KeyName::Key2));
        assert!("key3".parse::<KeyName>().is_err());
    }
}
