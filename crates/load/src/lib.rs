//! Layer 5: workloads, histograms and reports.
//!
//! [`Args`] has the options, with the names that fio gives them, or diskspd's flags ([`diskspd`]).
//! [`Plan`] is a checked load. [`run()`] creates the necessary files, drives the server, and returns a
//! [`Report`]. A report can be printed in the form of diskspd, written as fio's JSON, or drawn
//! ([`html`]).
//!
//! Each session has its own runtime with one thread, or with more for large blocks over several channels
//! (`threads`). During the measurement sessions share nothing but the counter of a fixed number of
//! operations. For a path of this host each operation under way has its own thread. An operation counts
//! if it began in the measured time, and it counts once, when it is done.
//!
//! [`engine`] does the measurement, here and in the doctor. [`agents`] lets several machines load
//! together. [`link`] puts a long, narrow or lossy path in front of any command.

pub mod agents;
mod args;
mod channel;
pub mod comparison;
pub mod cpu;
pub mod diskspd;
pub mod engine;
mod error;
pub mod host_activity;
pub mod link;
mod measure;
pub mod null;
mod pace;
mod peer;
mod plan;
mod progress;
mod random;
mod report;
mod round_robin;
mod run;
mod target;
mod threads;
pub mod units;
mod work;

pub use args::{Args, Encryption, Metadata, Pattern, Signing};
pub use error::Error;
pub use measure::Stop;
pub use plan::Plan;
pub use report::{Report, html, json, plots};
pub use round_robin::run_all;
pub use run::{run, run_until};
pub use target::{LoadTarget, target};
pub use work::data::noise;
