//! Layer 5: copies trees between this host, SMB shares and NFS exports, over all channels of a session.
//!
//! [`Args`] are the options, [`Plan`] is the checked copy, and [`run()`] carries it out. It returns a
//! [`Report`], which prints as robocopy's table and as JSON. [`Report::status`] has robocopy's bits.
//!
//! To read on: `run` hands out work. `survey` compares one directory on both sides and decides. `file` copies
//! one file, small ones in compounds and large ones in many pieces at once, and `server_copy` makes a server
//! copy it by itself. `link` copies a symbolic link, `follow` finds the target of one, and `hard_links` keeps
//! the names of one file together. `naming` names new directories. `job` and `survey_result` are the data
//! between these, and `context` is the shared state of all files. `tree` has the operations on a side,
//! `sidecar` has the data beside a file's content, and `channel_count` chooses the number of connections.

mod args;
mod channel;
mod channel_count;
mod concurrency;
mod context;
mod error;
mod file;
mod follow;
mod hard_links;
mod job;
mod link;
mod link_checks;
mod mirror;
mod name;
mod naming;
mod offload;
mod overlap;
mod plan;
mod prescan;
mod preserve;
mod progress;
mod rate_limit;
mod report;
mod retry;
mod run;
mod server_copy;
mod sidecar;
mod staged;
mod survey;
mod survey_result;
mod tally;
#[cfg(test)]
mod tests;
mod tree;
mod window;

pub use args::{Args, Links};
pub use error::Error;
pub use name::Pattern;
pub use plan::Plan;
pub use preserve::PreservedParts;
pub use report::{FATAL, Report};
pub use run::run;
pub use tally::Counts;
