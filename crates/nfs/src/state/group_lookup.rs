//! The outcome of the look-up of a user's groups by the server (`manage_gids`), and the status of requests
//! until the next one.

use nfs_wire::NfsStat;

use crate::config::NoGroups;

const SECOND_NS: u64 = 1_000_000_000;
/// The time after which groups are looked up again.
const FRESH_NS: u64 = 30 * SECOND_NS;
/// The time after which a look-up that failed is tried again.
const RETRY_NS: u64 = SECOND_NS;
/// The time for which a client is told to come again while no groups are known. Then it is refused, so that
/// its programs do not hang.
const DELAY_NS: u64 = 60 * SECOND_NS;

/// A look-up that has ended, successfully or not. Times are mono ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLookup {
    /// The end.
    at: u64,
    /// The first of the failures in a row.
    failed: Option<u64>,
    /// Whether the sources refuse the user.
    is_refused: bool,
}

impl GroupLookup {
    /// The outcome of a look-up, after that of the last one. The source itself remembers groups while a
    /// directory is silent, so a failure here means that none are known.
    #[must_use]
    pub fn after<T>(
        result: &Result<T, NoGroups>,
        last: Option<GroupLookup>,
        at: u64,
        uid: u32,
    ) -> GroupLookup {
        let failed = last.and_then(|last| last.failed);
        let why = match result {
            Ok(_) => return GroupLookup { at, failed: None, is_refused: false },
            Err(why) => why,
        };
        let is_refused = matches!(why, NoGroups::Refused(_));
        let this = GroupLookup { at, failed: failed.or(Some(at)), is_refused };
        match this.status() {
            status if failed.is_some() && last.is_some_and(|last| last.status() == status) => {}
            NfsStat::Delay => tracing::warn!(uid, "an NFS user waits until its groups are known: {why}"),
            _ => tracing::warn!(uid, "an NFS user has no access, since its groups are not known: {why}"),
        }
        this
    }

    /// Whether no further look-up is due.
    #[must_use]
    pub fn is_recent(&self, now: u64) -> bool {
        let is_final = self.failed.is_none() || self.is_refused;
        now.saturating_sub(self.at) < if is_final { FRESH_NS } else { RETRY_NS }
    }

    /// The status of an operation that needs the groups.
    // RFC 8881 15.1.1.3
    #[must_use]
    pub fn status(&self) -> NfsStat {
        match self.failed {
            None => NfsStat::Ok,
            Some(failed) if !self.is_refused && self.at.saturating_sub(failed) < DELAY_NS => NfsStat::Delay,
            Some(_) => NfsStat::Access,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_is_silent_delays_and_then_refuses() {
        let silent = || Err::<(), _>(NoGroups::Unavailable("late".to_owned()));
        let after = |result: Result<(), NoGroups>, last, at| GroupLookup::after(&result, last, at, 7);
        let first = after(silent(), None, 7);
        assert_eq!(first.status(), NfsStat::Delay);
        assert!(first.is_recent(7 + RETRY_NS - 1) && !first.is_recent(7 + RETRY_NS));
        let later = after(silent(), Some(first), 7 + DELAY_NS - 1);
        assert_eq!(later.status(), NfsStat::Delay);
        let refused = after(silent(), Some(later), 7 + DELAY_NS);
        assert_eq!(refused.status(), NfsStat::Access);
        assert!(!refused.is_recent(7 + DELAY_NS + RETRY_NS), "the source may answer again");
        let found = after(Ok(()), Some(refused), 8 + DELAY_NS);
        assert_eq!(found.status(), NfsStat::Ok);
        assert!(found.is_recent(8 + DELAY_NS + FRESH_NS - 1));
        let again = after(silent(), Some(found), 9 + 2 * DELAY_NS);
        assert_eq!(again.status(), NfsStat::Delay, "the time begins anew");
        let refused = after(Err(NoGroups::Refused("two users".to_owned())), Some(found), 9 + 2 * DELAY_NS);
        assert_eq!(refused.status(), NfsStat::Access);
        assert!(refused.is_recent(9 + 2 * DELAY_NS + FRESH_NS - 1));
    }
}
