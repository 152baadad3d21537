//! Sums of counters, as a reader sees them.

use super::access_pattern::AccessPattern;
use super::histogram::Distribution;
use crate::limits::ResponseType;

/// The transactions of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transactions {
    /// The index of the operation in its family.
    pub operation: usize,
    /// The index of the authentication in its family.
    pub authentication: usize,
    /// The number of transactions by outcome, in the order of [`ResponseType::ALL`].
    pub responses: [u64; ResponseType::ALL.len()],
    /// Bytes of requests, with their headers.
    pub ingress: u64,
    /// Bytes of replies, with their headers.
    pub egress: u64,
    /// The durations of successful transactions, from the time when a request was taken up until its reply.
    /// The time that a request was held by limits or waited for others is included.
    pub took: Distribution,
    /// The durations until the host had taken the replies for sending.
    pub took_with_sending: Distribution,
}

impl Transactions {
    /// The number of transactions.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.responses.iter().sum()
    }

    /// The number of transactions with this outcome.
    #[must_use]
    pub fn with(&self, response: ResponseType) -> u64 {
        self.responses[response as usize]
    }

    /// The number of successful transactions, whether limits held them or not.
    #[must_use]
    pub fn succeeded(&self) -> u64 {
        ResponseType::ALL.iter().filter(|kind| kind.is_success()).map(|kind| self.with(*kind)).sum()
    }
}

/// All transactions that were counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// One entry for each operation that was ever seen.
    pub transactions: Vec<Transactions>,
    /// The access pattern.
    pub pattern: AccessPattern,
}

impl Totals {
    /// The transactions of an operation. An operation that is new here gets an entry.
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
