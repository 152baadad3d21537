//! The sources that the resolver asks: a directory, or the host's own configuration.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use volume::security::Sid;

use crate::clock::Clock;
use crate::names::AccountKey;

/// A user as one source knows it. The resolver adds what other sources and the mapping say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceUser {
    /// The account name.
    pub account: String,
    /// The realm in upper case; none: a user of the host.
    pub realm: Option<Arc<str>>,
    /// The user principal name.
    pub principal: Option<String>,
    /// The SID.
    pub sid: Option<Sid>,
    /// `uidNumber`, or the host's uid.
    pub uid: Option<u32>,
    /// `gidNumber`, or the host's gid.
    pub gid: Option<u32>,
    /// The primary group.
    pub primary_group: Option<Sid>,
    /// The groups that have this user as a member.
    pub groups: Vec<Sid>,
    /// Whether `groups` has the groups of groups too.
    pub nested_included: bool,
    /// The host's gids.
    pub gids: Vec<u32>,
    /// Whether the account is disabled.
    pub disabled: bool,
}

/// A group as one source knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceGroup {
    /// The name.
    pub name: String,
    /// The realm in upper case; none: a group of the host.
    pub realm: Option<Arc<str>>,
    /// The SID.
    pub sid: Option<Sid>,
    /// `gidNumber`, or the host's gid.
    pub gid: Option<u32>,
    /// The groups that have this group as a member.
    pub groups: Vec<Sid>,
}

/// A source did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_name} does not answer: {reason}")]
pub struct Silent {
    /// The source.
    pub source_name: String,
    /// The error, and what to do.
    pub reason: String,
    /// The questions that have no answer.
    pub scope: SilenceScope,
}

/// The questions that a silent source leaves without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SilenceScope {
    /// Those about one account. The source may answer others.
    Account,
    /// Those about the accounts of a trusted domain, whose own directory rests by itself.
    OtherDomain,
    /// All.
    Source,
}

/// A source of users and groups. Its calls block, and return soon after `deadline`.
pub trait AccountSource: Send + Sync {
    /// All users with this key. More than one is an error of the directory, which the resolver refuses.
    ///
    /// # Errors
    /// [`Silent`] if the source does not answer, which is not the same as no user.
    fn users(&self, key: &AccountKey, deadline: Instant) -> Result<Vec<SourceUser>, Silent>;

    /// All groups with one of these keys, in any order.
    ///
    /// # Errors
    /// [`Silent`].
    fn groups(&self, keys: &[AccountKey], deadline: Instant) -> Result<Vec<SourceGroup>, Silent>;

    /// The further suffixes of user principal names in the forest, in lower case (`uPNSuffixes`, MS-ADA3
    /// 2.340).
    ///
    /// # Errors
    /// [`Silent`].
    fn upn_suffixes(&self, _deadline: Instant) -> Result<Vec<String>, Silent> {
        Ok(Vec::new())
    }
}

/// The number of accounts in a row without an answer after which a source counts as silent as a whole.
const SILENT_ACCOUNTS: usize = 3;

/// A source that is not asked again for some time after it did not answer at all, so that not every request
/// waits for it. One account that it does not answer for is no reason.
pub struct Resting {
    source: Arc<dyn AccountSource>,
    clock: Arc<dyn Clock>,
    rest: Duration,
    silence: Mutex<Silence>,
}

#[derive(Default)]
struct Silence {
    /// The moment until which the source rests, and its last error.
    rest: Option<(Duration, Silent)>,
    /// The accounts without an answer since the last answer.
    accounts: Vec<AccountKey>,
}

impl Resting {
    /// The source, with a rest of this length after each silence.
    #[must_use]
    pub fn new(source: Arc<dyn AccountSource>, clock: Arc<dyn Clock>, rest: Duration) -> Resting {
        Resting { source, clock, rest, silence: Mutex::default() }
    }

    /// Asks the source about an account, unless it rests.
    fn ask<T>(
        &self,
        account: Option<&AccountKey>,
        call: impl FnOnce(&dyn AccountSource) -> Result<T, Silent>,
    ) -> Result<T, Silent> {
        let resting = crate::sync::lock(&self.silence).rest.clone();
        if let Some((until, silent)) = resting
            && self.clock.now() < until
        {
            return Err(silent);
        }
        let result = call(&*self.source);
        let mut silence = crate::sync::lock(&self.silence);
        match &result {
            Ok(_) => *silence = Silence::default(),
            Err(silent) => silence.note(account, silent, self.clock.now() + self.rest),
        }
        result
    }
}

impl AccountSource for Resting {
    fn users(&self, key: &AccountKey, deadline: Instant) -> Result<Vec<SourceUser>, Silent> {
        self.ask(Some(key), |source| source.users(key, deadline))
    }

    fn groups(&self, keys: &[AccountKey], deadline: Instant) -> Result<Vec<SourceGroup>, Silent> {
        self.ask(keys.first(), |source| source.groups(keys, deadline))
    }

    fn upn_suffixes(&self, deadline: Instant) -> Result<Vec<String>, Silent> {
        self.ask(None, |source| source.upn_suffixes(deadline))
    }
}

impl Silence {
    fn note(&mut self, account: Option<&AccountKey>, silent: &Silent, until: Duration) {
        if silent.scope == SilenceScope::OtherDomain {
            return;
        }
        self.accounts.extend(account.filter(|account| !self.accounts.contains(account)).cloned());
        let is_whole = silent.scope == SilenceScope::Source || self.accounts.len() >= SILENT_ACCOUNTS;
        if is_whole {
            self.rest = Some((until, silent.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    /// A source that does not answer for the accounts of these numbers, or at all.
    struct Slow(Mutex<(Vec<u32>, bool)>);

    impl AccountSource for Slow {
        fn users(&self, key: &AccountKey, _: Instant) -> Result<Vec<SourceUser>, Silent> {
            let (slow, is_dead) = &*crate::sync::lock(&self.0);
            let is_slow = matches!(key, AccountKey::Id(id) if slow.contains(id));
            let scope = if *is_dead { SilenceScope::Source } else { SilenceScope::Account };
            let silent = || Silent { source_name: "test".to_owned(), reason: "late".to_owned(), scope };
            if is_slow || *is_dead { Err(silent()) } else { Ok(Vec::new()) }
        }

        fn groups(&self, _: &[AccountKey], _: Instant) -> Result<Vec<SourceGroup>, Silent> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn one_slow_account_keeps_no_other_waiting_and_a_dead_source_rests() {
        let clock = Arc::new(ManualClock::default());
        let slow = Arc::new(Slow(Mutex::new(((10..20).collect(), false))));
        let (source, time): (Arc<dyn AccountSource>, Arc<dyn Clock>) =
            (Arc::<Slow>::clone(&slow), Arc::<ManualClock>::clone(&clock));
        let resting = Resting::new(source, time, Duration::from_secs(30));
        let ask = |id| resting.users(&AccountKey::Id(id), Instant::now()).is_ok();
        let set_dead = |is_dead| crate::sync::lock(&slow.0).1 = is_dead;
        // The same account again and again, and others beside it.
        assert_eq!(
            [10, 10, 10, 10, 1, 11, 1, 12].map(ask),
            [false, false, false, false, true, false, true, false]
        );
        assert_eq!([13, 14, 1].map(ask), [false, false, false], "three accounts in a row");
        clock.advance(Duration::from_secs(30));
        assert!(ask(1));
        set_dead(true);
        assert!(!ask(1));
        set_dead(false);
        assert!(!ask(1), "it rests");
        clock.advance(Duration::from_secs(30));
        assert!(ask(1));
    }
}
