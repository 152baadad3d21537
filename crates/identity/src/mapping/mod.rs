//! The mapping between SIDs of a domain and uids and gids of the host.
//!
//! Start with [`IdMapping`]. Each way gives one id for a SID and one SID for an id, or nothing: an account
//! that no range covers has no id and may not log on.

mod autorid;
mod range;
mod table;
pub mod tdb;

pub use autorid::{Autorid, AutoridError};
pub use range::{IdRange, RidRange};
pub use table::IdTable;

use volume::security::Sid;

/// The kind of an account, for mappings in which a user and a group may have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// A uid.
    User,
    /// A gid.
    Group,
}

/// The reason why a mapping cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// Not a range of ids.
    #[error("`{0}` is not a range of ids; write it as low-high, such as 100000-199999, without 0")]
    Range(String),
    /// Two domains own the same ids.
    #[error("the ranges {0} and {1} overlap; give each domain ids of its own")]
    Overlap(IdRange, IdRange),
    /// A domain with two ranges.
    #[error("the domain {0} has two ranges; give it one")]
    TwoRanges(Sid),
    /// A line of the table that means nothing.
    #[error("line {line} of the id table: {reason}")]
    Table {
        /// The line, from 1.
        line: usize,
        /// The error.
        reason: String,
    },
    /// The database of `autorid` cannot be used.
    #[error(transparent)]
    Autorid(#[from] AutoridError),
}

/// The way from a SID to a uid or gid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdMapping {
    /// The attributes `uidNumber` and `gidNumber` of the directory (RFC 2307), within a range. The range
    /// keeps the directory from naming root or a user of the host.
    Attributes(IdRange),
    /// Samba's `idmap_rid`, one range for each domain.
    Rid(Vec<RidRange>),
    /// A list of SIDs and ids.
    Table(IdTable),
    /// Samba's `idmap_autorid`, from its database.
    Autorid(Autorid),
    /// The uids and gids that the host's own configuration (nsswitch.conf) gives to the names.
    Host,
}

impl IdMapping {
    /// The mapping by `idmap_rid`.
    ///
    /// # Errors
    /// [`MappingError`] if an id or a domain has two owners.
    pub fn rid(ranges: Vec<RidRange>) -> Result<IdMapping, MappingError> {
        range::check_disjoint(&ranges)?;
        Ok(IdMapping::Rid(ranges))
    }

    /// The id of a SID. `attribute` is the directory's number for it, if it was asked.
    #[must_use]
    pub fn id(&self, sid: &Sid, kind: IdKind, attribute: Option<u32>) -> Option<u32> {
        match self {
            IdMapping::Attributes(range) => attribute.filter(|id| range.contains(*id)),
            IdMapping::Rid(ranges) => ranges.iter().find_map(|range| range.id(sid)),
            IdMapping::Table(table) => table.id(sid, kind),
            IdMapping::Autorid(autorid) => autorid.id(sid, kind),
            IdMapping::Host => None,
        }
    }

    /// The SID of an id, if the mapping alone says it.
    #[must_use]
    pub fn sid(&self, id: u32, kind: IdKind) -> Option<Sid> {
        match self {
            IdMapping::Attributes(_) | IdMapping::Host => None,
            IdMapping::Rid(ranges) => ranges.iter().find_map(|range| range.sid(id)),
            IdMapping::Table(table) => table.sid(id, kind),
            IdMapping::Autorid(autorid) => autorid.sid(id, kind),
        }
    }

    /// Whether ids come from the directory's attributes.
    #[must_use]
    pub fn is_by_attributes(&self) -> bool {
        matches!(self, IdMapping::Attributes(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(last: u32) -> Sid {
        Sid::new(5, &[21, 1, 2, last])
    }

    fn rid_range(domain: Sid, range: &str, base_rid: u32) -> RidRange {
        RidRange { domain, range: range.parse().unwrap(), base_rid }
    }

    #[test]
    fn rid_has_the_formula_of_samba() {
        // idmap_rid(8): ID = RID - BASE_RID + LOW_RANGE_ID, and the range is a filter.
        let ranges = vec![rid_range(domain(3), "10000-49999", 0), rid_range(domain(4), "50000-99999", 1000)];
        let mapping = IdMapping::rid(ranges).unwrap();
        let id = |domain: u32, rid| mapping.id(&Sid::new(5, &[21, 1, 2, domain, rid]), IdKind::User, None);
        assert_eq!((id(3, 1104), id(3, 0), id(3, 39_999)), (Some(11_104), Some(10_000), Some(49_999)));
        assert_eq!((id(3, 40_000), id(3, u32::MAX), id(5, 1104)), (None, None, None));
        assert_eq!((id(4, 1104), id(4, 1000), id(4, 999)), (Some(50_104), Some(50_000), None));
        assert_eq!(mapping.sid(11_104, IdKind::Group), domain(3).child(1104));
        assert_eq!(mapping.sid(50_104, IdKind::User), domain(4).child(1104));
        assert_eq!((mapping.sid(9_999, IdKind::User), mapping.sid(100_000, IdKind::User)), (None, None));
        // A deeper identifier is no account of the domain.
        assert_eq!(mapping.id(&Sid::new(5, &[21, 1, 2, 3, 4, 5]), IdKind::User, None), None);
    }

    #[test]
    fn no_id_and_no_domain_has_two_owners() {
        let overlap = vec![rid_range(domain(3), "10-20", 0), rid_range(domain(4), "20-30", 0)];
        assert!(matches!(IdMapping::rid(overlap), Err(MappingError::Overlap(..))));
        let twice = vec![rid_range(domain(3), "10-20", 0), rid_range(domain(3), "30-40", 0)];
        assert_eq!(IdMapping::rid(twice).unwrap_err(), MappingError::TwoRanges(domain(3)));
    }

    #[test]
    fn a_range_never_has_root_or_the_id_that_means_none() {
        for bad in ["", "5", "0-9", "9-5", "1-4294967295", "1-4294967296", "-1-5", "a-b"] {
            assert!(bad.parse::<IdRange>().is_err(), "{bad}");
        }
        assert_eq!("7 - 9".parse::<IdRange>().unwrap(), IdRange { low: 7, high: 9 });
    }

    #[test]
    fn attributes_count_only_within_the_range() {
        let mapping = IdMapping::Attributes("1000-1999".parse().unwrap());
        let id = |number| mapping.id(&domain(1), IdKind::User, number);
        assert_eq!((id(Some(1000)), id(Some(0)), id(Some(2000)), id(None)), (Some(1000), None, None, None));
    }
}
