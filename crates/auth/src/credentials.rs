//! The source of accounts: a trait for the acceptor, and a table in memory.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ntlm::NtHash;

/// The stored values of one account.
#[derive(Debug, Clone)]
pub struct Account {
    /// The name from the creation of the account. A log-on reports it.
    pub name: String,
    /// The hash of its password.
    pub nt_hash: NtHash,
    /// The hash of a second valid password, if there is one.
    pub second_hash: Option<NtHash>,
    /// The reason why the account may not log on with its password, if there is one.
    pub restriction: Option<Arc<str>>,
}

/// A source of accounts.
pub trait Credentials {
    /// The account of `user`. Names are compared without regard to case ([`fold_name`]).
    fn lookup(&self, user: &str) -> Option<Account>;

    /// The account name for unknown users, if the configuration allows guests.
    ///
    /// A guest has proved nothing and shares no key with the server. So no message of that session can be
    /// signed or encrypted.
    fn guest(&self) -> Option<String> {
        None
    }
}

/// Folds a user name, so that all its spellings are equal.
#[must_use]
pub fn fold_name(user: &str) -> String {
    user.to_uppercase().to_lowercase()
}

/// Accounts in memory.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    by_name: HashMap<String, Account>,
}

impl Accounts {
    /// Adds an account, or replaces the one with its name.
    pub fn insert(&mut self, account: Account) {
        self.by_name.insert(fold_name(&account.name), account);
    }

    /// Removes an account.
    pub fn remove(&mut self, user: &str) -> Option<Account> {
        self.by_name.remove(&fold_name(user))
    }

    /// All accounts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Account> {
        self.by_name.values()
    }
}

impl Credentials for Accounts {
    fn lookup(&self, user: &str) -> Option<Account> {
        self.by_name.get(&fold_name(user)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        let mut accounts = Accounts::default();
        let nt_hash = NtHash::from_password("pw");
        accounts.insert(Account {
            name: "Jürgen".into(),
            nt_hash: nt_hash.clone(),
            second_hash: None,
            restriction: None,
        });
        let restriction = Some("it has no uid".into());
        accounts.insert(Account { name: "JÜRGEN".into(), nt_hash, second_hash: None, restriction });
        assert_eq!(accounts.iter().count(), 1);
        assert!(accounts.lookup("jürgen").unwrap().restriction.is_some());
        assert!(accounts.remove("jÜRGEN").is_some());
        assert!(accounts.lookup("Jürgen").is_none());
    }
}
