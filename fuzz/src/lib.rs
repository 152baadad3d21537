//! What the fuzz targets do with their bytes: one function for each entry of hostile bytes.
//!
//! [`TARGETS`] is the list. `cargo fuzz run NAME` tries new bytes on a target; a test of `proving` replays
//! everything in `corpus/NAME` through the same functions with the stable compiler. What made a target fail
//! stays there as `regression-...`.
//!
//! A target panics when something is wrong: a parser that panics, and beyond that what is written and read
//! again must be the same, and a server that was spoken to must have closed everything in the end.

mod auth_tokens;
mod buffers;
mod connection;
mod messages;
mod names;
mod nfs;
mod nfs_server;
mod pipes;
mod texts;

/// One entry of hostile bytes.
pub type FuzzTarget = fn(&[u8]);

/// Every target by its name, which is also that of its corpus.
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
    ("configuration", texts::configuration),
    ("ws_discovery", texts::ws_discovery),
    ("connection", connection::connection),
];

/// Hands `data` to the target called `name`.
///
/// # Panics
/// When there is no such target, and when the target finds something wrong.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a known target");
    target(data);
}
