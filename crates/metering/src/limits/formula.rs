//! The operations and bytes a second of a share: the formulas of Azure Files as data.
//!
//! Sources: the pages "Understand Azure Files billing" in their editions of January 2021, December 2021 and
//! 2025/26, and "Azure Files scalability and performance targets". All sizes are in GiB and all rates in
//! units a second.

/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// How long a full bucket of burst credits lasts at the highest rate, in seconds.
pub const BURST_TIME_S: u64 = 3600;
/// Metadata operations of a share on SSD without cached metadata.
pub const METADATA: u64 = 12_000;
/// Metadata operations with cached metadata, or if NFS clients are served. A share does not buy either. The
/// code that knows the settings of the share replaces the number of the formula by this one.
pub const METADATA_CACHED: u64 = 35_000;

/// The formula that turns a share's size into rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Formula {
    /// Premium, provisioned v1, before the middle of 2021.
    V1Of2020,
    /// Premium, provisioned v1, from December 2021 on.
    V1Of2021,
    /// Premium, provisioned v1, as it is now.
    V1,
    /// Premium, provisioned v2: operations and throughput are bought apart.
    V2,
    /// Standard, provisioned v2.
    V2Standard,
    /// Standard, pay as you go, with large shares.
    Large,
    /// Standard, pay as you go, as shares were before there were large ones.
    Small,
}

/// The amounts that are bought for a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProvisionRequest {
    /// The size in GiB.
    pub gib: Option<u64>,
    /// Operations a second, where they are bought apart.
    pub operations: Option<u64>,
    /// MiB a second, where they are bought apart.
    pub mib_s: Option<u64>,
}

/// One of the fields of [`ProvisionRequest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProvisionField {
    /// The size.
    Gib,
    /// Operations a second.
    Operations,
    /// MiB a second.
    MibS,
}

impl std::fmt::Display for ProvisionField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ProvisionField::Gib => "the size in GiB",
            ProvisionField::Operations => "operations a second",
            ProvisionField::MibS => "MiB a second",
        })
    }
}

/// The reason why amounts cannot be bought.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProvisionError {
    /// The size decides, and none was given.
    #[error("the size decides what the share may do; set it")]
    NoSize,
    /// The limits are fixed but for the size.
    #[error("the limits of this kind are fixed; leave it out")]
    Fixed,
    /// The size alone decides.
    #[error("the size alone decides it by this formula; leave it out, or take provisioned v2")]
    BySize,
    /// A number out of range.
    #[error("{number} must be from {least} to {most}")]
    OutOfRange {
        /// The number.
        number: ProvisionField,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
}

/// Bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throughput {
    /// In both directions together.
    Together(u64),
    /// In each direction.
    Apart {
        /// Written by clients.
        ingress: u64,
        /// Read by clients.
        egress: u64,
    },
}

impl Throughput {
    /// In both directions together.
    #[must_use]
    pub fn in_all(self) -> u64 {
        match self {
            Throughput::Together(rate) => rate,
            Throughput::Apart { ingress, egress } => ingress.saturating_add(egress),
        }
    }
}

/// The provisioned limits of a share. They are plain numbers, and any may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provision {
    /// Reads and writes a second, without a time limit.
    pub operations: u64,
    /// Reads and writes a second while there are credits.
    pub burst: u64,
    /// The most credits. One credit pays for one operation above [`Provision::operations`].
    pub burst_credits: u64,
    /// The throughput of data.
    pub throughput: Throughput,
    /// Operations a second that do not transfer data.
    pub metadata: u64,
    /// Reads and writes a second of one file.
    pub file_operations: u64,
    /// Bytes a second of one file, in both directions together.
    pub file_bytes: u64,
    /// The most bytes that one file has.
    pub file_size: u64,
}

/// The provisioned limits of all shares of an account together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountProvision {
    /// Reads and writes a second.
    pub operations: u64,
    /// The throughput of data.
    pub throughput: Throughput,
}

/// `base + per_hundred_gib × GiB / 100`, rounded up, and not above `most`.
#[derive(Debug, Clone, Copy)]
struct LinearRate {
    base: u64,
    per_hundred_gib: u64,
    most: u64,
}

impl LinearRate {
    const fn at(self, gib: u64) -> u64 {
        let rate = self.base + (gib * self.per_hundred_gib).div_ceil(100);
        if rate < self.most { rate } else { self.most }
    }
}

/// The constants of burst. The vendor itself treats them as parameters.
#[derive(Debug, Clone, Copy)]
struct Burst {
    /// The least burst rate.
    floor: u64,
    /// The factor by which the size or the operations are multiplied.
    scalar: u64,
    /// Whether the factor applies to the size rather than to the operations.
    by_size: bool,
    most: u64,
}

impl Burst {
    fn at(self, gib: u64, operations: u64) -> u64 {
        let from = if self.by_size { gib } else { operations };
        (from * self.scalar).max(self.floor).min(self.most).max(operations)
    }
}

/// The limits of single files and of metadata on one kind of disk.
#[derive(Debug, Clone, Copy)]
struct Media {
    file_operations: u64,
    file_mib_s: u64,
    file_tib: u64,
    metadata: u64,
}

const SSD: Media = Media { file_operations: 8000, file_mib_s: 1024, file_tib: 4, metadata: METADATA };
const HDD: Media = Media { file_operations: 1000, file_mib_s: 60, file_tib: 4, metadata: METADATA };

/// A formula in which the size decides everything.
struct BySize {
    operations: LinearRate,
    burst: Burst,
    /// In MiB. If both directions count together, these are two summands, each rounded.
    ingress: LinearRate,
    egress: LinearRate,
    /// The most that both directions may have together; none if they count apart.
    together: Option<u64>,
    account: u64,
}

static V1_OF_2020: BySize = BySize {
    operations: LinearRate { base: 400, per_hundred_gib: 100, most: 100_000 },
    // The page said three times the operations, and its table gave three times the size. The table counts.
    burst: Burst { floor: 4000, scalar: 3, by_size: true, most: 100_000 },
    ingress: LinearRate { base: 40, per_hundred_gib: 4, most: 4136 },
    egress: LinearRate { base: 60, per_hundred_gib: 6, most: 6204 },
    together: None,
    account: 100_000,
};

static V1_OF_2021: BySize = BySize {
    operations: LinearRate { base: 3000, per_hundred_gib: 100, most: 100_000 },
    burst: Burst { floor: 10_000, scalar: 3, by_size: true, most: 100_000 },
    ingress: LinearRate { base: 100, per_hundred_gib: 4, most: u64::MAX },
    egress: LinearRate { base: 0, per_hundred_gib: 6, most: u64::MAX },
    together: Some(10_340),
    account: 100_000,
};

static V1: BySize = BySize {
    operations: LinearRate { base: 3000, per_hundred_gib: 100, most: 102_400 },
    burst: Burst { floor: 10_000, scalar: 3, by_size: true, most: 102_400 },
    ingress: LinearRate { base: 100, per_hundred_gib: 4, most: u64::MAX },
    egress: LinearRate { base: 0, per_hundred_gib: 6, most: u64::MAX },
    together: Some(10_340),
    account: 102_400,
};

/// The sizes that v1 has, in GiB.
const V1_SIZES: (u64, u64) = (100, 102_400);

/// A formula in which operations and throughput are bought apart.
struct Apart {
    sizes: (u64, u64),
    operations: (u64, u64),
    mib_s: (u64, u64),
    /// The recommended amount for a size.
    advised_operations: LinearRate,
    advised_mib_s: LinearRate,
    burst: Burst,
    media: Media,
}

static V2: Apart = Apart {
    sizes: (32, 262_144),
    operations: (3000, 102_400),
    mib_s: (100, 10_340),
    advised_operations: LinearRate { base: 3000, per_hundred_gib: 100, most: 102_400 },
    advised_mib_s: LinearRate { base: 100, per_hundred_gib: 10, most: 10_340 },
    burst: Burst { floor: 10_000, scalar: 3, by_size: false, most: 102_400 },
    media: SSD,
};

static V2_STANDARD: Apart = Apart {
    sizes: (32, 262_144),
    operations: (500, 50_000),
    mib_s: (60, 5120),
    advised_operations: LinearRate { base: 1000, per_hundred_gib: 20, most: 50_000 },
    advised_mib_s: LinearRate { base: 60, per_hundred_gib: 2, most: 5120 },
    burst: Burst { floor: 5000, scalar: 3, by_size: false, most: 50_000 },
    media: HDD,
};

const STANDARD_ACCOUNT: AccountProvision = AccountProvision {
    operations: 20_000,
    throughput: Throughput::Apart { ingress: 3200 * MIB, egress: 6400 * MIB },
};

/// The parameters of a formula.
enum Terms {
    BySize(&'static BySize),
    Apart(&'static Apart),
    Fixed { operations: u64, throughput: Throughput, sizes: (u64, u64) },
}

impl Formula {
    fn terms(self) -> Terms {
        match self {
            Formula::V1Of2020 => Terms::BySize(&V1_OF_2020),
            Formula::V1Of2021 => Terms::BySize(&V1_OF_2021),
            Formula::V1 => Terms::BySize(&V1),
            Formula::V2 => Terms::Apart(&V2),
            Formula::V2Standard => Terms::Apart(&V2_STANDARD),
            Formula::Large => Terms::Fixed {
                operations: STANDARD_ACCOUNT.operations,
                throughput: STANDARD_ACCOUNT.throughput,
                sizes: (1, 102_400),
            },
            Formula::Small => Terms::Fixed {
                operations: 1000,
                throughput: Throughput::Together(60 * MIB),
                sizes: (1, 5120),
            },
        }
    }

    /// The limits of a share for which `wanted` was bought.
    ///
    /// # Errors
    /// [`ProvisionError`] with the reason.
    pub fn provision(self, wanted: ProvisionRequest) -> Result<Provision, ProvisionError> {
        match self.terms() {
            Terms::BySize(terms) => terms.provision(wanted),
            Terms::Apart(terms) => terms.provision(wanted),
            Terms::Fixed { .. } if wanted.operations.or(wanted.mib_s).is_some() => Err(ProvisionError::Fixed),
            Terms::Fixed { operations, throughput, sizes } => {
                // The size is only the most that the share may hold. It decides nothing else.
                wanted.gib.map(|gib| within(ProvisionField::Gib, gib, sizes)).transpose()?;
                Ok(HDD.provision(operations, operations, throughput))
            }
        }
    }

    /// The limits of all shares of an account together.
    #[must_use]
    pub fn account(self) -> AccountProvision {
        match self.terms() {
            Terms::BySize(terms) => AccountProvision {
                operations: terms.account,
                throughput: match terms.together {
                    Some(most) => Throughput::Together(most * MIB),
                    None => Throughput::Apart {
                        ingress: terms.ingress.most * MIB,
                        egress: terms.egress.most * MIB,
                    },
                },
            },
            Terms::Apart(terms) => AccountProvision {
                operations: terms.operations.1,
                throughput: Throughput::Together(terms.mib_s.1 * MIB),
            },
            Terms::Fixed { .. } => STANDARD_ACCOUNT,
        }
    }

    /// The most shares that an account may have; none if there is no bound.
    #[must_use]
    pub fn most_shares(self) -> Option<usize> {
        match self {
            Formula::V1Of2020 | Formula::V1Of2021 | Formula::V1 => Some(1024),
            Formula::V2 | Formula::V2Standard => Some(50),
            Formula::Large | Formula::Small => None,
        }
    }

    /// Whether the shares together may be provisioned with more than the account. The account's limits then
    /// hold them back.
    #[must_use]
    pub fn may_overprovision(self) -> bool {
        !matches!(self.terms(), Terms::Apart(_))
    }
}

impl Media {
    fn provision(self, operations: u64, burst: u64, throughput: Throughput) -> Provision {
        Provision {
            operations,
            burst,
            burst_credits: (burst - operations) * BURST_TIME_S,
            throughput,
            metadata: self.metadata,
            file_operations: self.file_operations,
            file_bytes: self.file_mib_s * MIB,
            file_size: self.file_tib << 40,
        }
    }
}

impl BySize {
    fn provision(&self, wanted: ProvisionRequest) -> Result<Provision, ProvisionError> {
        if wanted.operations.is_some() || wanted.mib_s.is_some() {
            return Err(ProvisionError::BySize);
        }
        let gib = within(ProvisionField::Gib, wanted.gib.ok_or(ProvisionError::NoSize)?, V1_SIZES)?;
        let operations = self.operations.at(gib);
        let (ingress, egress) = (self.ingress.at(gib), self.egress.at(gib));
        let throughput = match self.together {
            Some(most) => Throughput::Together((ingress + egress).min(most) * MIB),
            None => Throughput::Apart { ingress: ingress * MIB, egress: egress * MIB },
        };
        Ok(SSD.provision(operations, self.burst.at(gib, operations), throughput))
    }
}

impl Apart {
    fn provision(&self, wanted: ProvisionRequest) -> Result<Provision, ProvisionError> {
        let gib = within(ProvisionField::Gib, wanted.gib.ok_or(ProvisionError::NoSize)?, self.sizes)?;
        let operations = wanted.operations.unwrap_or_else(|| self.advised_operations.at(gib));
        let operations = within(ProvisionField::Operations, operations, self.operations)?;
        let mib_s = wanted.mib_s.unwrap_or_else(|| self.advised_mib_s.at(gib));
        let mib_s = within(ProvisionField::MibS, mib_s, self.mib_s)?;
        let throughput = Throughput::Together(mib_s * MIB);
        Ok(self.media.provision(operations, self.burst.at(gib, operations), throughput))
    }
}

fn within(which: ProvisionField, number: u64, (least, most): (u64, u64)) -> Result<u64, ProvisionError> {
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(ProvisionError::OutOfRange { number: which, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(formula: Formula, gib: u64) -> Provision {
        formula.provision(ProvisionRequest { gib: Some(gib), ..ProvisionRequest::default() }).unwrap()
    }

    fn mib(bytes: u64) -> u64 {
        assert_eq!(bytes % MIB, 0);
        bytes / MIB
    }

    /// The table of January 2021: operations, burst, egress, ingress.
    #[test]
    fn the_first_generation_gives_the_published_values() {
        for (gib, operations, burst, out, into) in [
            (100, 500, 4000, 66, 44),
            (500, 900, 4000, 90, 60),
            (1024, 1424, 4000, 122, 81),
            (10_240, 10_640, 30_720, 675, 450),
            (102_400, 100_000, 100_000, 6204, 4136),
        ] {
            let got = sized(Formula::V1Of2020, gib);
            let Throughput::Apart { ingress, egress } = got.throughput else { panic!("{got:?}") };
            let all = (got.operations, got.burst, mib(egress), mib(ingress));
            assert_eq!(all, (operations, burst, out, into), "{gib} GiB");
        }
    }

    /// The table of 2025/26. Rows that were not computed anew for the higher bound are corrected here.
    #[test]
    fn the_current_generation_gives_the_published_values() {
        for (gib, operations, burst, most, rate) in [
            (100, 3100, 10_000, 24_840_000, 110),
            (500, 3500, 10_000, 23_400_000, 150),
            (1024, 4024, 10_000, 21_513_600, 203),
            (5120, 8120, 15_360, 26_064_000, 613),
            (10_240, 13_240, 30_720, 62_928_000, 1125),
            (33_792, 36_792, 101_376, 232_502_400, 3480),
            (51_200, 54_200, 102_400, 173_520_000, 5220),
            (102_400, 102_400, 102_400, 0, 10_340),
        ] {
            let got = sized(Formula::V1, gib);
            let Throughput::Together(bytes) = got.throughput else { panic!("{got:?}") };
            let all = (got.operations, got.burst, got.burst_credits, mib(bytes));
            assert_eq!(all, (operations, burst, most, rate), "{gib} GiB");
        }
        let older = sized(Formula::V1Of2021, 51_200);
        assert_eq!((older.burst, older.burst_credits), (100_000, 164_880_000));
    }

    #[test]
    fn what_is_bought_apart_counts_and_else_what_is_advised() {
        let bought = |formula: Formula, gib, operations, mib_s| {
            let got = formula.provision(ProvisionRequest { gib: Some(gib), operations, mib_s }).unwrap();
            let Throughput::Together(bytes) = got.throughput else { panic!("{got:?}") };
            (got.operations, got.burst, got.burst_credits, mib(bytes))
        };
        assert_eq!(bought(Formula::V2, 32, Some(3000), None), (3000, 10_000, 25_200_000, 104));
        assert_eq!(bought(Formula::V2, 32, Some(10_000), Some(100)), (10_000, 30_000, 72_000_000, 100));
        assert_eq!(bought(Formula::V2, 262_144, Some(50_000), None), (50_000, 102_400, 188_640_000, 10_340));
        assert_eq!(bought(Formula::V2, 1024, None, None), (4024, 12_072, 28_972_800, 203));
        assert_eq!(bought(Formula::V2Standard, 1024, None, None), (1205, 5000, 13_662_000, 81));
        assert_eq!(bought(Formula::V2Standard, 32, Some(500), Some(60)), (500, 5000, 16_200_000, 60));
    }

    #[test]
    fn what_cannot_be_bought_is_refused_with_the_reason() {
        let refused = |formula: Formula, gib, operations, mib_s| {
            formula.provision(ProvisionRequest { gib, operations, mib_s }).unwrap_err().to_string()
        };
        assert_eq!(refused(Formula::V1, Some(99), None, None), "the size in GiB must be from 100 to 102400");
        assert_eq!(refused(Formula::V1, None, None, None), "the size decides what the share may do; set it");
        assert!(refused(Formula::V1, Some(100), Some(5000), None).starts_with("the size alone decides it"));
        assert!(
            refused(Formula::V1Of2020, Some(100), None, Some(5)).starts_with("the size alone decides it")
        );
        assert_eq!(
            refused(Formula::V2, Some(100), Some(2999), None),
            "operations a second must be from 3000 to 102400"
        );
        assert_eq!(
            refused(Formula::V2Standard, Some(100), None, Some(5121)),
            "MiB a second must be from 60 to 5120"
        );
        assert_eq!(
            refused(Formula::V2, Some(262_145), None, None),
            "the size in GiB must be from 32 to 262144"
        );
        assert!(refused(Formula::Large, None, Some(100), None).contains("fixed"));
        assert!(refused(Formula::Large, Some(100), None, Some(1)).contains("fixed"));
        assert_eq!(
            refused(Formula::Large, Some(102_401), None, None),
            "the size in GiB must be from 1 to 102400"
        );
        assert_eq!(refused(Formula::Small, Some(5121), None, None), "the size in GiB must be from 1 to 5120");
    }

    #[test]
    fn fixed_kinds_have_their_limits() {
        let large = Formula::Large.provision(ProvisionRequest::default()).unwrap();
        assert_eq!((large.operations, large.burst, large.burst_credits), (20_000, 20_000, 0));
        assert_eq!((large.file_operations, large.file_bytes, large.file_size), (1000, 60 * MIB, 4 << 40));
        let small = Formula::Small.provision(ProvisionRequest::default()).unwrap();
        assert_eq!((small.operations, small.throughput), (1000, Throughput::Together(60 * MIB)));
        let sized =
            Formula::Small.provision(ProvisionRequest { gib: Some(5120), ..ProvisionRequest::default() });
        assert_eq!(sized, Ok(small), "the size bounds what lies there and nothing else");
        assert_eq!(Formula::Large.account().operations, 20_000);
        assert_eq!(Formula::V1Of2020.account().operations, 100_000);
        assert_eq!(Formula::V2.account().throughput, Throughput::Together(10_340 * MIB));
        assert!(Formula::V1.may_overprovision() && !Formula::V2.may_overprovision());
    }
}
