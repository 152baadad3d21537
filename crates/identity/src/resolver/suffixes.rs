//! Further suffixes of user principal names: the administrators of a forest choose them, and its
//! configuration lists them (`uPNSuffixes`). So `bob@other.example` may be a user of the domain.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::flights::Flights;
use super::{Resolver, Want};
use crate::error::IdentityError;
use crate::names::AccountKey;
use crate::source::{AccountSource, SilenceScope, Silent};
use crate::sync::lock;

/// The list that the directory gave last, and the query for the next one.
pub(super) struct UpnSuffixes {
    /// The list, and when it came.
    listed: Mutex<Option<(Duration, Arc<[String]>)>>,
    /// The last query without an answer, and when that was.
    failed: Mutex<Option<(Duration, Silent)>>,
    /// Many log-ons may have names with unknown suffixes at once. The list is the same for all of them.
    query: Flights<(), Result<Arc<[String]>, Silent>>,
}

impl UpnSuffixes {
    pub(super) fn new() -> UpnSuffixes {
        UpnSuffixes { listed: Mutex::new(None), failed: Mutex::new(None), query: Flights::new() }
    }
}

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
        let known = lock(&self.suffixes.listed).clone();
        let is_fresh = known.as_ref().is_some_and(|(at, _)| self.is_fresh(*at));
        if !is_fresh && self.directory.is_some() {
            self.want(Want::Suffixes);
        }
        known.map(|(_, list)| list).unwrap_or_default()
    }

    fn is_fresh(&self, at: Duration) -> bool {
        self.age(at) <= self.settings.caches.fresh
    }

    fn age(&self, at: Duration) -> Duration {
        self.clock.now().saturating_sub(at)
    }

    /// The suffixes, from the directory if they are not known or old. A directory that is silent takes none
    /// away. One caller asks; the others wait for its answer, none of them longer than for an account.
    pub(super) fn learn_suffixes(&self) -> Result<Arc<[String]>, Silent> {
        let Some(directory) = &self.directory else { return Ok(Arc::default()) };
        if let Some(list) = self.fresh_suffixes() {
            return Ok(list);
        }
        let deadline = Instant::now() + self.settings.answer_limit;
        let ask = || {
            // Another query may have ended since the look above.
            if let Some(list) = self.fresh_suffixes() {
                return Ok(list);
            }
            let failed = lock(&self.suffixes.failed).clone();
            if let Some((_, silent)) = failed.filter(|(at, _)| self.age(*at) < self.settings.caches.miss) {
                return Err(silent);
            }
            let asked = directory.upn_suffixes(deadline);
            let now = self.clock.now();
            match asked {
                Ok(list) => {
                    let list: Arc<[String]> = list.into();
                    *lock(&self.suffixes.listed) = Some((now, Arc::clone(&list)));
                    Ok(list)
                }
                Err(silent) => {
                    *lock(&self.suffixes.failed) = Some((now, silent.clone()));
                    Err(silent)
                }
            }
        };
        let late = || Silent {
            source_name: "another query for the suffixes of principal names".to_owned(),
            reason: "no answer in time".to_owned(),
            scope: SilenceScope::Account,
        };
        self.suffixes.query.join(&(), deadline, ask).unwrap_or_else(|| Err(late())).or_else(|silent| {
            let known = lock(&self.suffixes.listed).clone();
            known.map(|(_, list)| list).ok_or(silent)
        })
    }

    /// The suffixes, if they are not old.
    fn fresh_suffixes(&self) -> Option<Arc<[String]>> {
        let known = lock(&self.suffixes.listed).clone();
        known.filter(|(at, _)| self.is_fresh(*at)).map(|(_, list)| list)
    }
}

/// The key of an explicit user principal name. No account has an implicit one with a further suffix
/// (MS-ADTS 5.1.1.1.1).
fn principal(text: &str, suffix: &str, suffixes: &[String]) -> Vec<AccountKey> {
    let is_listed = suffixes.iter().any(|one| *one == suffix.to_lowercase());
    is_listed.then(|| AccountKey::Principal(text.to_lowercase().into())).into_iter().collect()
}
