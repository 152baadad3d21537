//! The measured properties of the path, and the error that the forwarder itself added.

use std::fmt;
use std::time::Duration;

use super::forward::DirectionTraffic;

/// The report that is printed when the command has ended.
#[derive(Debug)]
pub(super) struct LinkReport {
    pub(super) rtt: Duration,
    /// The times that connections took, the shortest first.
    pub(super) connects: Vec<Duration>,
    /// From the command to this machine.
    pub(super) there: DirectionTraffic,
    /// From this machine to the command.
    pub(super) back: DirectionTraffic,
    /// Packets that the host dropped because the forwarder was too slow.
    pub(super) missed: u64,
}

impl fmt::Display for LinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        if let (Some(least), Some(most)) = (self.connects.first(), self.connects.last()) {
            writeln!(
                f,
                "link: a round trip of {:.3} ms was asked for; {} connections took {:.3} ms (median, {:.3} \
                 to {:.3})",
                ms(self.rtt),
                self.connects.len(),
                ms(self.connects[self.connects.len() / 2]),
                ms(*least),
                ms(*most)
            )?;
        }
        for (name, carried) in [("there", &self.there), ("back ", &self.back)] {
            let (counts, late) = (carried.counts, &carried.late_ns);
            let us = |quantile| late.value_at_quantile(quantile) as f64 / 1e3;
            write!(
                f,
                "link: {name} {} packets, {:.1} MB; {} lost as asked for, {} found a queue full",
                counts.carried,
                counts.bytes as f64 / 1e6,
                counts.lost,
                counts.dropped
            )?;
            if late.is_empty() {
                writeln!(f)?;
            } else {
                writeln!(f, "; late by {:.0} us (median), {:.0} us (99 %)", us(0.5), us(0.99))?;
            }
        }
        if self.missed > 0 {
            writeln!(
                f,
                "link: {} packets were dropped because the forwarder did not keep up: the link itself would \
                 give better numbers",
                self.missed
            )?;
        }
        Ok(())
    }
}
