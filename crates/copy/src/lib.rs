//! Layer 5: copies trees between this host, SMB shares and NFS exports, over all channels of a session.
//!
//! [`Args`] says what can be asked for, [`Plan`] is what has been checked, and [`run`] does it and answers with a
//! [`Report`], which prints as robocopy's table and as JSON, and whose [`Report::status`] has robocopy's bits.
//!
//! To read on: `run` hands out work; `survey` looks at one directory on both sides and decides; `file` copies one
//! file, small ones in compounds and large ones in many pieces at once, and `inside` has a server copy it by itself; `link`
//! copies a symbolic link, `follow` goes where one leads, and `twins` keeps the names of one file together; `naming` gives a
//! new directory its name; `job` and `found` are what these hand to each other, and `shared` what all files of a copy share;
//! `tree` is what both need of a side, `beside` what files have beside their data, and `widen` gives
//! the copy its connections.

mod args;
mod at_server;
mod beside;
mod channel;
mod crowd;
mod error;
mod file;
mod follow;
mod found;
mod front;
mod glance;
mod inside;
mod job;
mod keep;
mod link;
mod link_checks;
mod mirror;
mod name;
mod naming;
mod pace;
mod patience;
mod place;
mod plan;
mod progress;
mod report;
mod run;
mod shared;
mod survey;
mod tally;
#[cfg(test)]
mod tests;
mod tree;
mod twins;
mod unnamed;
mod widen;

pub use args::{Args, Links};
pub use error::Error;
pub use keep::Keep;
pub use name::Pattern;
pub use plan::Plan;
pub use report::{FATAL, Report};
pub use run::run;
pub use tally::Counts;
