//! Transactions: the requests to a share, their outcome, their bytes in and out, and their duration.
//!
//! Start with [`Counts`], the counters of one share for one [`Family`] of operations. The protocol crate
//! gives the names of a family; here an operation is a small number. A connection counts its requests in a
//! [`ConnectionCounters`]. Each thread counts in a [`block`] of its own, and no other thread writes to it. A
//! reader sums the blocks ([`Totals`]). So counting takes no lock, shares no cache line, and allocates
//! nothing once a thread has seen an operation. [`AccessPatternCounters`] is the small set of numbers that is
//! kept for each connection, and [`record`] has records of single requests.

mod access_pattern;
mod block;
mod connection;
mod histogram;
mod one_writer;
pub mod record;
mod share_counts;
mod totals;
mod transaction;

pub use access_pattern::{AccessPattern, AccessPatternCounters, SIZES, size_bound};
pub use connection::{ConnectionActivity, ConnectionCounters, ShareIndex};
pub use histogram::Distribution;
pub use record::{Record, RecordSink, Recorder, RequestDescription, Sampled, path_text, range_text};
pub use share_counts::{CountedShare, Counts};
pub use totals::{Totals, Transactions};
pub use transaction::{CompletedTransaction, Family, TransactionKind};
