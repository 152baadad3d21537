//! The transactions of a COMPOUND: each operation counts as one. A COMPOUND may run on other threads than its
//! connection's. It therefore collects its transactions in [`CompoundTransactions`], and its connection
//! counts them when the reply is sent.

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use share::counts::{CompletedTransaction, Sampled, TransactionKind};
use share::limits::ResponseType;
use smallvec::SmallVec;

use crate::counting::{Count, count};

/// Number of operations in a common COMPOUND.
const USUAL: usize = 8;

/// An operation that has ended.
#[derive(Debug)]
pub(crate) struct CountedOperation {
    /// The share's number; zero for none.
    pub share: u64,
    /// The values to count.
    pub noted: CompletedTransaction,
    /// The status with which it ended.
    pub status: NfsStat,
    /// Further values for its record. None if the operation is not recorded.
    pub sample: Option<Box<Sample>>,
}

/// The details of an operation that is recorded.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// The version of the protocol.
    pub version: Option<&'static str>,
    /// The path of the object that it worked on.
    pub path: Option<String>,
    /// Numeric fields of the record, by name.
    pub numbers: Vec<(&'static str, u64)>,
    /// Text fields of the record, by name.
    pub words: Vec<(&'static str, String)>,
}

/// The transactions of a COMPOUND that is not answered yet.
#[derive(Debug, Default)]
pub struct CompoundTransactions {
    /// The time at which the COMPOUND was received (monotonic ns).
    pub(crate) arrived_ns: u64,
    pub(super) authentication: u8,
    /// The operations that have ended, in order.
    pub(crate) done: SmallVec<[CountedOperation; USUAL]>,
    /// True once an operation of the COMPOUND has counted as data or metadata.
    has_counted: bool,
    /// Selects the operations to record.
    pub(crate) sampled: Option<Sampled>,
    /// Bytes of data that the current operation has read or written.
    pub data: usize,
}

impl CompoundTransactions {
    /// Begins the log of a new COMPOUND.
    #[must_use]
    pub fn new(arrived_ns: u64, is_sys: bool) -> CompoundTransactions {
        CompoundTransactions {
            arrived_ns,
            authentication: u8::from(!is_sys),
            ..CompoundTransactions::default()
        }
    }

    /// Marks the last operation as throttled by a limit, although it has ended already.
    pub fn last_has_met(&mut self, met: ResponseType) {
        if let Some(last) = self.done.last_mut()
            && last.noted.response.is_success()
        {
            last.noted.response = met;
        }
    }

    /// The kind of transaction that the current operation counts as.
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
        let mut transactions = CompoundTransactions::default();
        assert_eq!(
            [OpNum::Sequence, OpNum::PutFh].map(|number| transactions.kind(number)),
            [TransactionKind::Other; 2]
        );
        assert_eq!(transactions.kind(OpNum::Lookup), TransactionKind::Metadata);
        assert_eq!(transactions.kind(OpNum::GetAttr), TransactionKind::Other);
        assert_eq!(transactions.kind(OpNum::Open), TransactionKind::Metadata);
        assert_eq!(transactions.kind(OpNum::Write), TransactionKind::Write);
    }
}
