//! A long, narrow or lossy path for any command: `trunkline link`.
//!
//! [`run()`] creates a network namespace whose only connection is a forwarder of this process, and runs the
//! command there. `ends` creates the namespace and a TUN device on each side. `forward` carries packets
//! between the two. `path` decides for each packet whether and when it arrives, and `flow` which packets
//! belong together. `probe` measures the path as a connection sees it. `report` prints that, and the
//! error that the forwarder itself added.
//!
//! It works on packets because a proxy for connections cannot imitate a long path: the host would
//! complete the client's handshake with the proxy at once, and windows would grow as on a short path. If
//! only rates matter, `proxy` limits connections, without root.

mod args;
mod ends;
mod flow;
mod forward;
mod path;
mod probe;
mod proxy;
mod report;
mod run;

pub use args::LinkArgs;
pub use run::run;
