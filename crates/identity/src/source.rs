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
}

/// A source that is not asked again for some time after it did not answer, so that not every request waits
/// for it.
pub struct Resting {
    source: Arc<dyn AccountSource>,
    clock: Arc<dyn Clock>,
    rest: Duration,
    /// The moment until which the source rests, and its last error.
    silent: Mutex<Option<(Duration, Silent)>>,
}

impl Resting {
    /// The source, with a rest of this length after each silence.
    #[must_use]
    pub fn new(source: Arc<dyn AccountSource>, clock: Arc<dyn Clock>, rest: Duration) -> Resting {
        Resting { source, clock, rest, silent: Mutex::new(None) }
    }

    fn ask<T>(&self, call: impl FnOnce(&dyn AccountSource) -> Result<T, Silent>) -> Result<T, Silent> {
        let resting = crate::sync::lock(&self.silent).clone();
        if let Some((until, silent)) = resting
            && self.clock.now() < until
        {
            return Err(silent);
        }
        let result = call(&*self.source);
        let until = self.clock.now() + self.rest;
        *crate::sync::lock(&self.silent) = result.as_ref().err().map(|silent| (until, silent.clone()));
        result
    }
}

impl AccountSource for Resting {
    fn users(&self, key: &AccountKey, deadline: Instant) -> Result<Vec<SourceUser>, Silent> {
        self.ask(|source| source.users(key, deadline))
    }

    fn groups(&self, keys: &[AccountKey], deadline: Instant) -> Result<Vec<SourceGroup>, Silent> {
        self.ask(|source| source.groups(keys, deadline))
    }
}
