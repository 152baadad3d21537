//! Carries packets from one device to the other, each at its due time.

use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::Instant;

use hdrhistogram::Histogram;
use net::tun::Tun;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::path::{Counts, PathDirection, Shape};
use crate::Error;

/// The largest IP packet.
const PACKET_MAX: usize = 65_536;

/// Packets that are read before the due ones are sent.
const AT_ONCE: usize = 32;

/// The traffic of one direction.
#[derive(Debug, Clone)]
pub(super) struct DirectionTraffic {
    pub(super) counts: Counts,
    /// The delay of packets beyond their due time, in nanoseconds.
    pub(super) late_ns: Histogram<u64>,
}

/// Carries packets from `from` to `to` until the other end of `until` is closed.
pub(super) fn forward(
    from: &Tun,
    to: &Tun,
    shape: Shape,
    seed: u64,
    until: &OwnedFd,
) -> Result<DirectionTraffic, Error> {
    // Without this the host may add 50 us to each wait. If it fails, the report shows the effect.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let begin = Instant::now();
    let now = || u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let failed = |why: std::io::Error| Error::host("carry packets over the link", why);
    let mut late_ns = Histogram::new_with_bounds(1, 60_000_000_000, 3)
        .map_err(|why| Error::host("make a histogram", why))?;
    let mut way = PathDirection::new(shape, seed);
    let mut packet = vec![0; PACKET_MAX];
    loop {
        let mut at = now();
        while let Some((due, arrived)) = way.arrive(at) {
            // A device that is down accepts nothing, like a cut cable.
            let _ = to.write(&arrived);
            way.reuse(arrived);
            at = now();
            late_ns.saturating_record((at - due).max(1));
        }
        let mut more = false;
        for _ in 0..AT_ONCE {
            match from.read(&mut packet) {
                Ok(length) => way.offer(now(), &packet[..length]),
                Err(why) if why.kind() == ErrorKind::WouldBlock => {
                    more = false;
                    break;
                }
                Err(why) => return Err(failed(why)),
            }
            more = true;
        }
        let wait = way.due_ns().map(|due| due.saturating_sub(now()));
        if more || wait == Some(0) {
            continue;
        }
        let wait = wait.map(|ns| Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        let mut ready = [PollFd::new(from, PollFlags::IN), PollFd::new(until, PollFlags::IN)];
        match poll(&mut ready, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(failed(why.into())),
        }
        if !ready[1].revents().is_empty() {
            return Ok(DirectionTraffic { counts: way.counts(), late_ns });
        }
    }
}
