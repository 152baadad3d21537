//! This process as a node of a virtual server, which moves between machines.

#[allow(dead_code, unused_imports, reason = "the commands of a node come with the next change")]
pub mod store;
