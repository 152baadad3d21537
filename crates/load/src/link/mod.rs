//! A long, narrow or lossy path for any command: `trunkline link`.
//!
//! [`run`] makes a network namespace whose only way out is a forwarder of ours, and runs the command there. `ends` makes
//! the namespace and a TUN device on each side, `forward` carries packets between the two, `way` decides for each when
//! it arrives and whether, `flow` says which of them belong together, `probe` finds out what a connection sees of it, and
//! `report` says so, with what the forwarder itself added.
//!
//! It is done with packets because a proxy for connections cannot stand in for a long path: the host completes the
//! client's handshake with the proxy at once, and windows grow as on a short one. Where only rates matter `proxy` does it that
//! way, without root.

mod args;
mod ends;
mod flow;
mod forward;
mod probe;
mod proxy;
mod report;
mod run;
mod way;

pub use args::LinkArgs;
pub use run::run;
