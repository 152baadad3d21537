//! The counters of one thread. No other thread writes to them, so plain loads and stores are enough.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use super::access_pattern::{AccessPattern, AccessPatternCounters};
use super::histogram::Histogram;
use super::one_writer::{add, get};
use super::totals::{Totals, Transactions};
use super::transaction::{CompletedTransaction, Family};
use crate::limits::ResponseType;

/// The counters of one operation with one kind of authentication.
#[derive(Debug, Default)]
struct Row {
    responses: [AtomicU64; ResponseType::ALL.len()],
    ingress: AtomicU64,
    egress: AtomicU64,
    took: Histogram,
    took_with_sending: Histogram,
}

/// The counters of one thread, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Block {
    operations: usize,
    /// By authentication, then by operation. A row is allocated when its operation is first seen.
    rows: Box<[OnceLock<Box<Row>>]>,
    pattern: AccessPatternCounters,
}

impl Block {
    pub fn new(family: &Family) -> Block {
        let operations = family.operations.len();
        let rows = (0..operations * family.authentications.len()).map(|_| OnceLock::new()).collect();
        Block { operations, rows, pattern: AccessPatternCounters::default() }
    }

    #[inline]
    fn row(&self, operation: u8, authentication: u8) -> Option<&Row> {
        if usize::from(operation) >= self.operations {
            return None;
        }
        let row = self.rows.get(usize::from(authentication) * self.operations + usize::from(operation))?;
        Some(row.get_or_init(Box::default))
    }

    #[inline]
    pub fn note(&self, noted: &CompletedTransaction) {
        let Some(row) = self.row(noted.operation, noted.authentication) else { return };
        add(&row.responses[noted.response as usize], 1);
        add(&row.ingress, noted.ingress);
        add(&row.egress, noted.egress);
        self.pattern.note(noted.kind, noted.data);
    }

    #[inline]
    pub fn took(&self, operation: u8, authentication: u8, ns: u64) {
        if let Some(row) = self.row(operation, authentication) {
            row.took.note(ns);
        }
    }

    #[inline]
    pub fn took_with_sending(&self, operation: u8, authentication: u8, ns: u64) {
        if let Some(row) = self.row(operation, authentication) {
            row.took_with_sending.note(ns);
        }
    }

    pub fn add_pattern_to(&self, sum: &mut AccessPattern) {
        sum.add(&self.pattern.read());
    }

    pub fn add_to(&self, totals: &mut Totals) {
        self.add_pattern_to(&mut totals.pattern);
        for (at, row) in self.rows.iter().enumerate() {
            let Some(row) = row.get() else { continue };
            let (authentication, operation) = (at / self.operations, at % self.operations);
            let sum = totals.of(operation, authentication);
            row.add_to(sum);
        }
    }
}

impl Row {
    fn add_to(&self, sum: &mut Transactions) {
        for (sum, own) in sum.responses.iter_mut().zip(&self.responses) {
            *sum += get(own);
        }
        sum.ingress += get(&self.ingress);
        sum.egress += get(&self.egress);
        self.took.add_to(&mut sum.took);
        self.took_with_sending.add_to(&mut sum.took_with_sending);
    }
}
