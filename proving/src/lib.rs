//! Tests that need several crates or foreign peers. Start with README.md in this folder.
//!
//! [`raw`] is a client with a blocking socket. It sends prepared frames, so that a test measures the server
//! and not its client. [`server_process`] runs the program as a process.

pub mod raw;
pub mod server_process;
