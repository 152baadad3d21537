//! Layer 5: workloads, histograms and reports.
//!
//! [`Args`] says what can be asked for, with the names that fio gives its options, or diskspd's flags
//! ([`diskspd`]); [`Plan`] is what has been checked; [`run`] makes the files that are needed, drives the server, and
//! answers with a [`Report`], which is printed as diskspd prints its own, as fio's JSON, or drawn ([`html`]).
//!
//! A runtime of its own drives each session, with one thread or, for large blocks over several channels, more (`threads`):
//! nothing is shared between sessions while it is measured but the tickets of a fixed amount of work. A path of this host
//! has a thread for each operation under way instead. What is counted are the operations that began in the measured time, each once, when it is done.
//!
//! [`engine`] is what measures, here and in the doctor. [`agents`] lets several machines load together.
//!
//! [`link`] puts a long, narrow or lossy path in front of any command.

pub mod agents;
mod args;
mod channel;
pub mod cpu;
pub mod diskspd;
pub mod engine;
mod error;
mod in_turns;
pub mod link;
mod measure;
pub mod null;
mod pace;
mod peer;
mod plan;
mod progress;
pub mod quiet;
mod random;
mod report;
mod run;
mod target;
mod threads;
pub mod turns;
pub mod units;
mod work;

pub use args::{Args, Encryption, Metadata, Pattern, Signing};
pub use error::Error;
pub use in_turns::run_all;
pub use measure::Stop;
pub use plan::Plan;
pub use report::{Report, html, json, plots};
pub use run::{run, run_until};
pub use target::{LoadTarget, target};
pub use work::data::noise;
