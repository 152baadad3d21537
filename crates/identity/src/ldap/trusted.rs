//! The directories of the own domain and of those that it trusts, as one source.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::directory::{LdapDirectory, LdapSettings};
use crate::clock::Clock;
use crate::names::AccountKey;
use crate::source::{AccountSource, Resting, SilenceScope, Silent, SourceGroup, SourceUser};

/// The directory of the own domain, and those of trusted ones for accounts of theirs.
///
/// A trusted domain that is silent leaves questions about its accounts without an answer: it must not look as
/// if they had no groups. Its users still log on with tickets, and the own domain is not affected.
pub struct LdapDomains {
    own: LdapDirectory,
    trusted: Vec<(LdapSettings, Resting)>,
}

impl LdapDomains {
    /// The directories. A trusted one that was silent is not asked again for the time `rest`.
    #[must_use]
    pub fn new(
        own: LdapDirectory,
        trusted: Vec<LdapDirectory>,
        clock: &Arc<dyn Clock>,
        rest: Duration,
    ) -> LdapDomains {
        let resting = |one: LdapDirectory| {
            let settings = one.settings().clone();
            (settings, Resting::new(Arc::new(one), Arc::clone(clock), rest))
        };
        LdapDomains { own, trusted: trusted.into_iter().map(resting).collect() }
    }

    /// The trusted domain whose account a key names; none: it is the own domain's to know.
    fn trusted(&self, key: &AccountKey) -> Option<usize> {
        self.trusted.iter().position(|(settings, _)| match key {
            AccountKey::Sid(sid) => settings.domain.is_some_and(|domain| sid.rid_in(&domain).is_some()),
            AccountKey::Name { realm, .. } => realm.as_ref() == Some(&settings.realm),
            AccountKey::Principal(text) => {
                text.rsplit_once('@').is_some_and(|(_, suffix)| settings.realm.eq_ignore_ascii_case(suffix))
            }
            AccountKey::Id(_) => false,
        })
    }
}

/// The silence of a trusted domain.
fn elsewhere(silent: Silent) -> Silent {
    Silent { scope: SilenceScope::OtherDomain, ..silent }
}

impl AccountSource for LdapDomains {
    fn users(&self, key: &AccountKey, deadline: Instant) -> Result<Vec<SourceUser>, Silent> {
        match self.trusted(key) {
            None => self.own.users(key, deadline),
            Some(at) => self.trusted[at].1.users(key, deadline).map_err(elsewhere),
        }
    }

    fn groups(&self, keys: &[AccountKey], deadline: Instant) -> Result<Vec<SourceGroup>, Silent> {
        let of = |wanted| {
            let keys = keys.iter().filter(|key| self.trusted(key) == wanted);
            keys.cloned().collect::<Vec<AccountKey>>()
        };
        let mut groups = self.own.groups(&of(None), deadline)?;
        for (at, (_, directory)) in self.trusted.iter().enumerate() {
            let keys = of(Some(at));
            if !keys.is_empty() {
                groups.extend(directory.groups(&keys, deadline).map_err(elsewhere)?);
            }
        }
        Ok(groups)
    }

    fn upn_suffixes(&self, deadline: Instant) -> Result<Vec<String>, Silent> {
        self.own.upn_suffixes(deadline)
    }
}
