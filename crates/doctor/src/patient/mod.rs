//! One server under examination: what is known of it, and what was made on it.

pub(crate) mod bench;
mod examine;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use client::Url;
use client::remote::RemoteSession;

use crate::args::{Args, Course};
use crate::clear::Made;
use crate::existing::Existing;
use crate::facts::{Cause, Facts, Stage, Stopped};
use crate::protocol::How;
use crate::tcp::{self, TcpInfo};

/// One server under examination.
pub(crate) struct Patient<'a> {
    pub(crate) target: &'a Url,
    pub(crate) args: &'a Args,
    pub(crate) course: &'a Course,
    pub(crate) how: How,
    pub(crate) facts: Facts,
    /// Sessions: one, or several where one takes a single connection.
    pub(crate) lines: Vec<RemoteSession>,
    /// The directory of the test files, once it was asked for.
    pub(crate) scratch: Option<String>,
    /// What lies in it.
    pub(crate) made: Made,
    /// A file of the server's that may be read, where nothing is written.
    pub(crate) existing: Option<Existing>,
    /// How far the test file was written.
    pub(crate) written: u64,
    pub(crate) sizes: Option<Sizes>,
    /// Where further connections go (SMB).
    ways: Vec<SocketAddr>,
    begun: Instant,
    /// When the work ends.
    until: Instant,
}

/// The two ends of each connection of a session, ours first.
fn ends(session: &RemoteSession) -> Vec<(SocketAddr, SocketAddr)> {
    session.channels().iter().map(|it| (it.local, it.peer)).collect()
}

/// The kernel's account of these connections; fewer where it does not tell.
pub(crate) fn accounts_of(ours: &[(SocketAddr, SocketAddr)]) -> Vec<(SocketAddr, SocketAddr, TcpInfo)> {
    let mut peers: Vec<SocketAddr> = ours.iter().map(|(_, peer)| *peer).collect();
    peers.sort_unstable();
    peers.dedup();
    let mut found = Vec::new();
    for peer in peers {
        for (local, info) in tcp::to(peer).unwrap_or_default() {
            if ours.contains(&(local, peer)) {
                found.push((local, peer, info));
            }
        }
    }
    found
}

/// What the large runs have in common. The blocks are decided once, so that operations for a second can be compared; how many
/// are under way may grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Block and depth of writes, and of reads.
    write: (u32, u32),
    read: (u32, u32),
    extent: u64,
    /// How long one connection needs for a block, of reads or writes whichever are slower.
    block_time: Duration,
}

/// What ended an examination from outside, and where it was then.
pub(crate) fn cut(facts: &Facts, cause: Cause, limit: Duration) -> Stopped {
    let stage = match facts {
        Facts { route: None, .. } => Stage::Name,
        Facts { transport: None, .. } => Stage::Connect,
        Facts { protocol: None, .. } => Stage::Negotiate,
        Facts { connections: None, .. } => Stage::Share,
        Facts { metadata: None, .. } => Stage::Data,
        _ => Stage::Metadata,
    };
    let why = match cause {
        Cause::Interrupted => "it was interrupted".to_owned(),
        _ => format!("the time of {:.1} s was over", limit.as_secs_f64()),
    };
    Stopped { stage, why, stalled: false, cause }
}
