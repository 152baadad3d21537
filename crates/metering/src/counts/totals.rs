//! Counts that were read.

use super::habits::Habit;
use super::histogram::Distribution;
use crate::limits::ResponseType;

/// The transactions of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transactions {
    /// The operation, by its place in its family.
    pub operation: usize,
    /// How who asks was proved, likewise.
    pub authentication: usize,
    /// How many went how, in the order of [`ResponseType::ALL`].
    pub responses: [u64; ResponseType::ALL.len()],
    /// Bytes of requests, with their headers.
    pub ingress: u64,
    /// Bytes of answers, with their headers.
    pub egress: u64,
    /// How long those that succeeded took from when they were taken up until they were answered; also while they were
    /// held by limits or waited for others.
    pub took: Distribution,
    /// The same until the host had taken their answers to send them.
    pub took_with_sending: Distribution,
}

impl Transactions {
    /// How many there were.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.responses.iter().sum()
    }

    /// How many went so.
    #[must_use]
    pub fn with(&self, response: ResponseType) -> u64 {
        self.responses[response as usize]
    }

    /// How many went well, held by limits or not.
    #[must_use]
    pub fn succeeded(&self) -> u64 {
        ResponseType::ALL.iter().filter(|kind| kind.is_success()).map(|kind| self.with(*kind)).sum()
    }
}

/// All that was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Of each operation that was ever seen.
    pub transactions: Vec<Transactions>,
    /// What it works on.
    pub habits: Habit,
}

impl Totals {
    /// The transactions of an operation.
    pub(super) fn of(&mut self, operation: usize, authentication: usize) -> &mut Transactions {
        let is =
            |known: &Transactions| known.operation == operation && known.authentication == authentication;
        let at = self.transactions.iter().position(is).unwrap_or_else(|| {
            self.transactions.push(Transactions { operation, authentication, ..Transactions::default() });
            self.transactions.len() - 1
        });
        &mut self.transactions[at]
    }
}
