//! The functions of the fuzz targets: one for each entry point for untrusted bytes.
//!
//! [`TARGETS`] is the list. `cargo fuzz run NAME` tries new bytes on a target. A test of `proving` runs
//! everything in `corpus/NAME` through the same functions with the stable compiler. Inputs that made a target
//! fail stay there as `regression-...`.
//!
//! A target panics on an error: if a parser panics, if a value differs after it was written and read again,
//! or if a server has not closed everything at the end.

mod auth_tokens;
mod buffers;
mod connection;
mod messages;
mod names;
mod nfs;
mod nfs_server;
mod pipes;
mod texts;

/// An entry point for untrusted bytes.
pub type FuzzTarget = fn(&[u8]);

/// Every target by its name, which is also the name of its corpus.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    ("smb_request", messages::request),
    ("smb_response", messages::response),
    ("create_contexts", buffers::create_contexts),
    ("negotiate_contexts", buffers::negotiate_contexts),
    ("fscc", buffers::fscc),
    ("security_descriptor", buffers::security_descriptor),
    ("names", names::names),
    ("rpc_pipe", pipes::rpc),
    ("nfs_call", nfs::call),
    ("nfs_reply", nfs::reply),
    ("nfs_attributes", nfs::attributes),
    ("nfs_server", nfs_server::server),
    ("ntlm", auth_tokens::ntlm),
    ("spnego", auth_tokens::spnego),
    ("pac", auth_tokens::pac),
    ("configuration", texts::configuration),
    ("ws_discovery", texts::ws_discovery),
    ("connection", connection::connection),
];

/// Passes `data` to the target `name`.
///
/// # Panics
/// There is no such target, or the target finds an error.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a known target");
    target(data);
}
