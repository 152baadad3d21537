//! Where accounts come from: a trait for the acceptor, and a table for who keeps them in memory.

use std::collections::HashMap;

use crate::ntlm::NtHash;

/// What is stored of one account.
#[derive(Debug, Clone)]
pub struct Account {
    /// The name as it was given when the account was made; this is what a login reports.
    pub name: String,
    /// The hash of its password.
    pub nt_hash: NtHash,
    /// The hash of another one that is as good, where there is one.
    pub second_hash: Option<NtHash>,
    /// May not log on, whatever the password.
    pub disabled: bool,
}

/// A source of accounts.
pub trait Credentials {
    /// The account that goes by `user`, compared without regard to case ([`fold_name`]).
    fn lookup(&self, user: &str) -> Option<Account>;

    /// The name under which an unknown user is let in as a guest, if the configuration says so.
    ///
    /// A guest has proved nothing and shares no key with the server: nothing of that session can be
    /// signed or encrypted.
    fn guest(&self) -> Option<String> {
        None
    }
}

/// The form of a user name under which all spellings of it are equal.
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
    /// Adds an account, or replaces the one of that name.
    pub fn insert(&mut self, account: Account) {
        self.by_name.insert(fold_name(&account.name), account);
    }

    /// Takes an account away.
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
            disabled: false,
        });
        accounts.insert(Account { name: "JÜRGEN".into(), nt_hash, second_hash: None, disabled: true });
        assert_eq!(accounts.iter().count(), 1);
        assert!(accounts.lookup("jürgen").unwrap().disabled);
        assert!(accounts.remove("jÜRGEN").is_some());
        assert!(accounts.lookup("Jürgen").is_none());
    }
}
