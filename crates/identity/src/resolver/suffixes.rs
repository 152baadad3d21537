//! Further suffixes of user principal names: the administrators of a forest choose them, and its
//! configuration lists them (`uPNSuffixes`). So `bob@other.example` may be a user of the domain.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Resolver, Want};
use crate::error::IdentityError;
use crate::names::AccountKey;
use crate::source::{AccountSource, Silent};
use crate::sync::lock;

/// The list that the directory gave last, and when.
#[derive(Default)]
pub(super) struct UpnSuffixes(Mutex<Option<(Duration, Arc<[String]>)>>);

impl Resolver {
    /// The accounts that a text may mean, the likeliest first. Waits for the directory if the text has a
    /// suffix that is not known.
    pub(super) fn keys(&self, text: &str) -> Result<Vec<AccountKey>, IdentityError> {
        match self.settings.domains.unknown_suffix(text) {
            None => Ok(self.settings.domains.keys(text)),
            Some(suffix) => Ok(principal(text, suffix, &self.learn_suffixes()?)),
        }
    }

    /// The same, as far as remembered. Never waits.
    pub(super) fn known_keys(&self, text: &str) -> Vec<AccountKey> {
        match self.settings.domains.unknown_suffix(text) {
            None => self.settings.domains.keys(text),
            Some(suffix) => principal(text, suffix, &self.known_suffixes()),
        }
    }

    /// Whether the forest lists this suffix of user principal names, as far as remembered. Never waits.
    #[must_use]
    pub fn is_known_suffix(&self, suffix: &str) -> bool {
        self.known_suffixes().iter().any(|one| *one == suffix.to_lowercase())
    }

    /// Asks the directory for the suffixes if they are not known or old, beside ([`Resolver::refresh`]).
    pub fn want_suffixes(&self) {
        let _ = self.known_suffixes();
    }

    fn known_suffixes(&self) -> Arc<[String]> {
        let known = lock(&self.suffixes.0).clone();
        let is_fresh = known.as_ref().is_some_and(|(at, _)| self.is_fresh(*at));
        if !is_fresh && self.directory.is_some() {
            self.want(Want::Suffixes);
        }
        known.map(|(_, list)| list).unwrap_or_default()
    }

    fn is_fresh(&self, at: Duration) -> bool {
        self.clock.now().saturating_sub(at) <= self.settings.caches.fresh
    }

    /// The suffixes, from the directory if they are not known or old. A directory that is silent takes none
    /// away.
    pub(super) fn learn_suffixes(&self) -> Result<Arc<[String]>, Silent> {
        let Some(directory) = &self.directory else { return Ok(Arc::default()) };
        let known = lock(&self.suffixes.0).clone();
        if let Some((_, list)) = known.as_ref().filter(|(at, _)| self.is_fresh(*at)) {
            return Ok(Arc::clone(list));
        }
        match (directory.upn_suffixes(Instant::now() + self.settings.answer_limit), known) {
            (Ok(list), _) => {
                let list: Arc<[String]> = list.into();
                *lock(&self.suffixes.0) = Some((self.clock.now(), Arc::clone(&list)));
                Ok(list)
            }
            (Err(_), Some((_, list))) => Ok(list),
            (Err(silent), None) => Err(silent),
        }
    }
}

/// The key of an explicit user principal name. No account has an implicit one with a further suffix
/// (MS-ADTS 5.1.1.1.1).
fn principal(text: &str, suffix: &str, suffixes: &[String]) -> Vec<AccountKey> {
    let is_listed = suffixes.iter().any(|one| *one == suffix.to_lowercase());
    is_listed.then(|| AccountKey::Principal(text.to_lowercase().into())).into_iter().collect()
}
