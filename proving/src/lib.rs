//! Tests that need several crates or foreign peers; start at README.md in this folder.
//!
//! [`raw`] is what its programs share: a client with a blocking socket, which sends frames that were made
//! beforehand, so that what a test counts is the server and not its client. [`server_process`] is the program as a
//! process of its own.

pub mod raw;
pub mod server_process;
