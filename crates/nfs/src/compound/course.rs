//! Transactions: each operation of a COMPOUND is one. A COMPOUND may be done on other threads than its connection's, so
//! it takes along what is to be noted ([`Course`]), and its connection notes it with the answer.

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use share::counts::{CompletedTransaction, Sampled, TransactionKind};
use share::limits::ResponseType;
use smallvec::SmallVec;

use crate::counting::{Count, count};

/// Operations of the usual COMPOUND.
const USUAL: usize = 8;

/// An operation that was done.
#[derive(Debug)]
pub(crate) struct Done {
    /// The share's number; zero for none.
    pub share: u64,
    /// What is counted.
    pub noted: CompletedTransaction,
    /// How it ended.
    pub status: NfsStat,
    /// What its record says further; none: it is not recorded.
    pub sample: Option<Box<Sample>>,
}

/// What is known of an operation that is recorded.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// The version of the protocol.
    pub version: Option<&'static str>,
    /// The path of what it was done with.
    pub path: Option<String>,
    /// Numbers by their names in the record.
    pub numbers: Vec<(&'static str, u64)>,
    /// Words by their names in the record.
    pub words: Vec<(&'static str, String)>,
}

/// What is known of a COMPOUND until it is answered.
#[derive(Debug, Default)]
pub struct Course {
    /// When it was taken up (monotonic ns).
    pub(crate) arrived_ns: u64,
    pub(super) authentication: u8,
    /// Its operations, in their order.
    pub(crate) done: SmallVec<[Done; USUAL]>,
    /// Something in it has counted among the operations on data or metadata.
    has_counted: bool,
    /// Which of its operations are recorded.
    pub(crate) sampled: Option<Sampled>,
    /// Bytes of data that the operation which is done now has read or written.
    pub data: usize,
}

impl Course {
    /// Of a COMPOUND that begins.
    #[must_use]
    pub fn new(arrived_ns: u64, is_sys: bool) -> Course {
        Course { arrived_ns, authentication: u8::from(!is_sys), ..Course::default() }
    }

    /// The operation that was done last has met a limit after all.
    pub fn last_has_met(&mut self, met: ResponseType) {
        if let Some(last) = self.done.last_mut()
            && last.noted.response.is_success()
        {
            last.noted.response = met;
        }
    }

    /// What kind of transaction the operation is that is done now.
    pub(super) fn kind(&mut self, number: OpNum) -> TransactionKind {
        let kind = match (number, count(number)) {
            (OpNum::Read | OpNum::ReadPlus, _) => TransactionKind::Read,
            (OpNum::Write, _) => TransactionKind::Write,
            (_, Count::Always) => TransactionKind::Metadata,
            (_, Count::Alone) if !self.has_counted => TransactionKind::Metadata,
            (_, Count::Alone | Count::No) => TransactionKind::Other,
        };
        self.has_counted |= kind != TransactionKind::Other;
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_along_with_something_else_counts_once() {
        let mut course = Course::default();
        assert_eq!(
            [OpNum::Sequence, OpNum::PutFh].map(|number| course.kind(number)),
            [TransactionKind::Other; 2]
        );
        assert_eq!(course.kind(OpNum::Lookup), TransactionKind::Metadata);
        assert_eq!(course.kind(OpNum::GetAttr), TransactionKind::Other);
        assert_eq!(course.kind(OpNum::Open), TransactionKind::Metadata);
        assert_eq!(course.kind(OpNum::Write), TransactionKind::Write);
    }
}
