//! Ranges of uids and gids, and the formula of Samba's `idmap_rid`.

use std::fmt;
use std::str::FromStr;

use volume::security::Sid;

use super::MappingError;

/// A range of uids and gids, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// The smallest id.
    pub low: u32,
    /// The largest id.
    pub high: u32,
}

impl IdRange {
    /// Whether the range has this id.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        (self.low..=self.high).contains(&id)
    }

    fn overlaps(&self, other: &IdRange) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

impl fmt::Display for IdRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.low, self.high)
    }
}

/// `low-high`, as smb.conf has it. 0 is root, and 4294967295 means "no id" to the host.
impl FromStr for IdRange {
    type Err = MappingError;

    fn from_str(text: &str) -> Result<IdRange, MappingError> {
        let bad = || MappingError::Range(text.to_owned());
        let (low, high) = text.split_once('-').ok_or_else(bad)?;
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad());
        let range = IdRange { low: number(low)?, high: number(high)? };
        let usable = range.low > 0 && range.low <= range.high && range.high < u32::MAX;
        if usable { Ok(range) } else { Err(bad()) }
    }
}

/// The ids of one domain by `idmap_rid`: `id = rid - base_rid + low`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RidRange {
    /// The domain's SID.
    pub domain: Sid,
    /// The ids of the domain.
    pub range: IdRange,
    /// The smallest relative identifier with an id.
    pub base_rid: u32,
}

impl RidRange {
    /// The id of an account of the domain.
    pub(super) fn id(&self, sid: &Sid) -> Option<u32> {
        let offset = sid.rid_in(&self.domain)?.checked_sub(self.base_rid)?;
        self.range.low.checked_add(offset).filter(|id| self.range.contains(*id))
    }

    /// The account of an id.
    pub(super) fn sid(&self, id: u32) -> Option<Sid> {
        let offset = id.checked_sub(self.range.low).filter(|_| self.range.contains(id))?;
        self.domain.child(offset.checked_add(self.base_rid)?)
    }
}

/// Checks that no id and no domain has two owners.
///
/// # Errors
/// [`MappingError::Overlap`], [`MappingError::TwoRanges`].
pub(super) fn check_disjoint(ranges: &[RidRange]) -> Result<(), MappingError> {
    for (at, one) in ranges.iter().enumerate() {
        for other in &ranges[at + 1..] {
            if one.domain == other.domain {
                return Err(MappingError::TwoRanges(one.domain));
            }
            if one.range.overlaps(&other.range) {
                return Err(MappingError::Overlap(one.range, other.range));
            }
        }
    }
    Ok(())
}
