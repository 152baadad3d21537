//! Transactions: the requests to a share, their outcome, their bytes in and out, and their duration.
//!
//! Start with [`Counts`], the counters of one share for one [`Family`] of operations. The protocol crate
//! gives the names of a family; here an operation is a small number. A connection counts its requests in a
//! [`Desk`]. Each thread counts in a [`block`] of its own, and no other thread writes to it. A reader sums
//! the blocks ([`Totals`]). So counting takes no lock, shares no cache line, and allocates nothing once a
//! thread has seen an operation. [`Habits`] is the small set of numbers that is kept for each connection, and
//! [`record`] has records of single requests.

mod block;
mod desk;
mod habits;
mod histogram;
mod of_share;
mod one_writer;
pub mod record;
mod totals;
mod transaction;

pub use desk::{Desk, Place, Visits};
pub use habits::{Habit, Habits, SIZES, size_bound};
pub use histogram::Distribution;
pub use of_share::{Counted, Counts};
pub use record::{About, Record, Recorder, Sampled, path_text, range_text};
pub use totals::{Totals, Transactions};
pub use transaction::{Family, Kind, Noted};
