//! Layer 5: workloads, histograms and reports.
//!
//! [`Args`] says what can be asked for, with the names that fio gives its options; [`Plan`] is what has been
//! checked; [`run`] makes the files that are needed, drives the server, and answers with a [`Report`], which is
//! printed as diskspd prints its own or as fio's JSON.
//!
//! One thread with a runtime of its own serves each connection, so that nothing is shared while it is measured
//! but the tickets of a fixed amount of work. What is counted are the operations that began in the measured
//! time, each once, when it is done.
//!
//! [`link`] puts a long, narrow or lossy path in front of any command.

mod args;
mod cpu;
mod error;
pub mod link;
mod measure;
mod peer;
mod plan;
mod report;
mod run;
mod target;
mod units;
mod work;

pub use args::{Args, Encryption, Metadata, Pattern, Signing, Version};
pub use error::Error;
pub use plan::Plan;
pub use report::{Report, json};
pub use run::run;
pub use target::{Scheme, Target};
