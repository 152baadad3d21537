//! The examination of one server: its measured values, and everything that was created on it.

pub(crate) mod bench;
mod examine;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use client::Url;
use client::remote::RemoteSession;

use crate::args::{Args, MeasurementBudget};
use crate::cleanup::CreatedNames;
use crate::existing::Existing;
use crate::measurements::{Cause, Stage, Stopped, TargetMeasurements};
use crate::protocol::ClientOptions;
use crate::tcp::{self, TcpInfo};

/// One server under examination.
pub(crate) struct Examination<'a> {
    pub(crate) target: &'a Url,
    pub(crate) args: &'a Args,
    pub(crate) course: &'a MeasurementBudget,
    pub(crate) how: ClientOptions,
    pub(crate) measurements: TargetMeasurements,
    /// The sessions: one, or several if each takes a single connection.
    pub(crate) sessions: Vec<RemoteSession>,
    /// The name of the directory of the test files, after its creation was requested.
    pub(crate) scratch: Option<String>,
    /// The names in it.
    pub(crate) made: CreatedNames,
    /// An existing file that may be read, if nothing is written.
    pub(crate) existing: Option<Existing>,
    /// The number of bytes of the test file that were written.
    pub(crate) written: u64,
    pub(crate) sizes: Option<Sizes>,
    /// The addresses of further connections (SMB).
    addresses: Vec<SocketAddr>,
    begun: Instant,
    /// The end of the work.
    until: Instant,
}

/// The two ends of each connection of a session, the local one first.
fn ends(session: &RemoteSession) -> Vec<(SocketAddr, SocketAddr)> {
    session.channels().iter().map(|it| (it.local, it.peer)).collect()
}

/// The kernel's counters of these connections. Connections that it does not report are missing.
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

/// The common parameters of the large runs. The blocks are decided once, so that operations a second can
/// be compared. The number under way may grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Block and depth of writes, and of reads.
    write: (u32, u32),
    read: (u32, u32),
    extent: u64,
    /// The time that one connection needs for a block, of the slower of reads and writes.
    block_time: Duration,
}

/// The end of an examination from outside, with the step that it had reached.
pub(crate) fn cut(measurements: &TargetMeasurements, cause: Cause, limit: Duration) -> Stopped {
    let stage = match measurements {
        TargetMeasurements { route: None, .. } => Stage::Name,
        TargetMeasurements { transport: None, .. } => Stage::Connect,
        TargetMeasurements { protocol: None, .. } => Stage::Negotiate,
        TargetMeasurements { connections: None, .. } => Stage::Share,
        TargetMeasurements { metadata: None, .. } => Stage::Data,
        _ => Stage::Metadata,
    };
    let why = match cause {
        Cause::Interrupted => "it was interrupted".to_owned(),
        _ => format!("the time of {:.1} s was over", limit.as_secs_f64()),
    };
    Stopped { stage, why, stalled: false, cause }
}
