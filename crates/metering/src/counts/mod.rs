//! Transactions: what was asked of a share, how that went, how much went in and out, and how long it took.
//!
//! Start with [`Counts`], the counts of one share for one [`Family`] of operations, whose names the protocol crate gives;
//! here an operation is a small number. A connection notes its requests at its [`Desk`]. Each thread counts in a [`block`]
//! of its own, which nobody else writes to, and whoever reads sums the blocks ([`Totals`]): no lock, no shared cache line
//! and no allocation once a thread has seen an operation. [`Habits`] is the little that is known of each connection by
//! itself, and [`record`] has single requests.

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
