//! Times that a client keeps under its write delegation (RFC 9754 5, RFC 8881 10.4.3): the state of the file
//! at the grant, the values that the client reports, and the rules for accepting them.

use nfs_wire::attr::{Attr, Fattr};
use share::Info;
use volume::Time;
use wire::Now;

use crate::attributes::time::time_of;

/// The state of a file when its times were delegated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegatedBaseline {
    /// The change attribute. The client reports the same value as long as it holds no modified data.
    change: u64,
    accessed: Time,
    modified: Time,
}

impl DelegatedBaseline {
    /// Takes the values from the file's information.
    #[must_use]
    pub fn of(info: &Info) -> DelegatedBaseline {
        DelegatedBaseline { change: info.version, accessed: info.accessed, modified: info.modified }
    }

    /// The last access time. The client's value counts if it is not before the delegation; a value in the
    /// future counts as now.
    #[must_use]
    pub fn accessed(&self, told: Option<Time>, now: Now) -> Option<Time> {
        within(told, self.accessed, now)
    }

    /// The same for the last modification time.
    #[must_use]
    pub fn modified(&self, told: Option<Time>, now: Now) -> Option<Time> {
        within(told, self.modified, now)
    }
}

/// A time that is no earlier than `first`. A time in the future becomes the present.
fn within(told: Option<Time>, first: Time, now: Now) -> Option<Time> {
    let order = |time: Time| (time.secs, time.nanos);
    let now = Time::from_wall_ns(now.wall_ns);
    let told = told.filter(|told| order(*told) >= order(first))?;
    Some(if order(told) > order(now) { now } else { told })
}

/// The attributes that the holder of a delegation has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HolderAttributes {
    change: Option<u64>,
    size: Option<u64>,
    accessed: Option<Time>,
    modified: Option<Time>,
}

impl HolderAttributes {
    /// Reads them from a reply. None if it holds other attributes than those asked for.
    #[must_use]
    pub fn read(given: &Fattr<'_>) -> Option<HolderAttributes> {
        let mut told = HolderAttributes::default();
        for attribute in given.iter() {
            match attribute.ok()? {
                Attr::Change(change) => told.change = Some(change),
                Attr::Size(size) => told.size = Some(size),
                Attr::TimeDelegAccess(time) => told.accessed = Some(time_of(time).ok()?),
                Attr::TimeDelegModify(time) => told.modified = Some(time_of(time).ok()?),
                _ => return None,
            }
        }
        (told.change.is_some() && told.size.is_some()).then_some(told)
    }

    /// Whether the holder has modified data that the server has not received yet.
    // RFC 8881 10.4.3
    #[must_use]
    pub fn is_news(&self, before: &DelegatedBaseline, info: &Info) -> bool {
        self.change.is_some_and(|change| change != before.change)
            || self.size.is_some_and(|size| size != info.size)
    }

    /// The last modification time.
    #[must_use]
    pub fn modified(&self, before: &DelegatedBaseline, now: Now) -> Option<Time> {
        before.modified(self.modified, now)
    }

    /// Merges the holder's report into the information on the file. `is_news` is the result of the method
    /// above.
    pub fn amend(&self, info: &mut Info, before: &DelegatedBaseline, is_news: bool, now: Now) {
        if is_news {
            info.size = self.size.unwrap_or(info.size);
        }
        info.accessed = before.accessed(self.accessed, now).unwrap_or(info.accessed);
        info.modified = before.modified(self.modified, now).unwrap_or(info.modified);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_time_lies_between_when_it_was_handed_over_and_now() {
        let at = |secs, nanos| Time { secs, nanos };
        let now = Now { mono_ns: 0, wall_ns: 100_000_000_007 };
        let first = at(50, 5);
        for (told, found) in [
            (at(50, 4), None),
            (at(49, 9), None),
            (at(50, 5), Some(at(50, 5))),
            (at(100, 7), Some(at(100, 7))),
            (at(100, 8), Some(at(100, 7))),
            (at(101, 0), Some(at(100, 7))),
        ] {
            assert_eq!(within(Some(told), first, now), found, "{told:?}");
        }
        assert_eq!(within(None, first, now), None);
    }
}
