//! The records of tokens. A record has the hash of a token and never its text.

use admin::access::Role;
use serde::{Deserialize, Serialize};

use super::records::{Contents, Table};
use super::{Store, StoreError};

/// Key: a token's name in lower case.
pub const TOKENS: Table = Table("tokens");

/// A token. Times are nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// The name, in its original spelling.
    pub name: String,
    /// The role.
    pub role: Role,
    /// SHA-256 of the text.
    pub hash: [u8; 32],
    /// The time at which it was made.
    pub created_ns: i64,
    /// The end of its life; none if it has none.
    pub expires_ns: Option<i64>,
    /// The last use, to about ten minutes.
    pub last_used_ns: Option<i64>,
}

impl Store {
    /// All tokens, sorted by name.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        self.records.all(TOKENS).iter().map(|(_, record)| Ok(serde_json::from_slice(record)?)).collect()
    }

    /// Adds `token`, unless there is one of its name or there are `most` already. The token is on disk when
    /// it returns. Returns whether it was added.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn add_token(&self, token: &StoredToken, most: usize) -> Result<TokenAdded, StoreError> {
        let (key, record) = (token.name.to_lowercase(), serde_json::to_vec(token)?);
        self.records.change(|contents: &Contents, edits| {
            let known = contents.get(&TOKENS);
            if known.is_some_and(|known| known.contains_key(key.as_bytes())) {
                return Ok(TokenAdded::NameTaken);
            }
            if known.is_some_and(|known| known.len() >= most) {
                return Ok(TokenAdded::TooMany);
            }
            edits.put(TOKENS, key, record);
            Ok(TokenAdded::Done)
        })
    }

    /// Removes the token `name`, without regard to case. Returns false if there was none.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn remove_token(&self, name: &str) -> Result<bool, StoreError> {
        self.remove(TOKENS, &name.to_lowercase())
    }

    /// Stores the last uses of these tokens, if they are still there.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn keep_token_uses(&self, uses: &[(String, i64)]) -> Result<(), StoreError> {
        self.records.change(|contents: &Contents, edits| {
            for (name, at_ns) in uses {
                let key = name.to_lowercase();
                let Some(record) = contents.get(&TOKENS).and_then(|known| known.get(key.as_bytes())) else {
                    continue;
                };
                let mut token: StoredToken = serde_json::from_slice(record)?;
                // A token that was made anew under the name has its own uses.
                if token.created_ns <= *at_ns {
                    token.last_used_ns = token.last_used_ns.max(Some(*at_ns));
                    edits.put(TOKENS, key, serde_json::to_vec(&token)?);
                }
            }
            Ok(())
        })
    }
}

/// The outcome of [`Store::add_token`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenAdded {
    /// It is there.
    Done,
    /// There is one of that name.
    NameTaken,
    /// There are too many.
    TooMany,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn made(path: &Path) -> Store {
        Store::make(path).unwrap();
        Store::open(path).unwrap()
    }

    fn token(name: &str) -> StoredToken {
        StoredToken {
            name: name.to_owned(),
            role: Role::Read,
            hash: [7; 32],
            created_ns: 10,
            expires_ns: Some(90),
            last_used_ns: None,
        }
    }

    #[test]
    fn tokens_are_kept_until_they_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.redb");
        let store = made(&path);
        assert_eq!(store.add_token(&token("Prom"), 2).unwrap(), TokenAdded::Done);
        assert_eq!(store.add_token(&token("prom"), 2).unwrap(), TokenAdded::NameTaken);
        assert_eq!(store.add_token(&token("ops"), 2).unwrap(), TokenAdded::Done);
        assert_eq!(store.add_token(&token("third"), 2).unwrap(), TokenAdded::TooMany);
        store.keep_token_uses(&[("PROM".to_owned(), 30), ("none".to_owned(), 30)]).unwrap();
        store.keep_token_uses(&[("prom".to_owned(), 20), ("ops".to_owned(), 9)]).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        let used = StoredToken { last_used_ns: Some(30), ..token("Prom") };
        assert_eq!(store.tokens().unwrap(), [token("ops"), used]);
        assert!(store.remove_token("PROM").unwrap() && !store.remove_token("prom").unwrap());
        store.keep_token_uses(&[("prom".to_owned(), 40)]).unwrap();
        assert_eq!(store.tokens().unwrap(), [token("ops")], "a revoked token does not come back");
    }
}
