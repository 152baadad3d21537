//! Ends a connection on which the server has gone silent. The server's host acknowledges data and keep-alive
//! probes long after the server hangs or was stopped. Only a reply shows that the server lives.
//!
//! Requests are not counted for this. The host is asked four times within the allowed silence how much has
//! arrived. A request may wait for any time, as long as the server shows that it lives. So after half of the
//! allowed time the server gets a request that it answers at once ([`Protocol::ask`]).

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::traffic::Sign;
use super::{Protocol, Transport};

/// The number of checks within the allowed silence.
const LOOKS: u32 = 4;

/// Runs until the connection ends. A `silence` of zero disables the checks.
pub(super) async fn run<P: Protocol>(transport: Arc<Transport<P>>, silence: Duration) {
    let period = silence / LOOKS;
    if period.is_zero() {
        return;
    }
    let mut looks = tokio::time::interval(period);
    // A process that was itself stopped has not waited for anybody meanwhile.
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks.tick().await;
    let mut check = SilenceCheck::default();
    loop {
        looks.tick().await;
        // This host does not tell how much has arrived.
        let Some(sign) = transport.meter.sign() else { return };
        let is_awaited = {
            let state = transport.lock();
            if state.failed.is_some() {
                return;
            }
            state.entries.values().any(|entry| !entry.is_done())
        };
        let sign = Sign { is_sending: sign.is_sending || transport.writing.load(Ordering::Relaxed), ..sign };
        match check.observe(is_awaited, sign) {
            Verdict::Well => {}
            // The request may have to wait until something else has been answered.
            Verdict::Ask => drop(tokio::time::timeout(period, P::ask(&transport)).await),
            Verdict::Over => {
                let why = format!("the server has sent nothing for {silence:?}");
                return transport.fail(io::Error::new(io::ErrorKind::TimedOut, why).into());
            }
        }
    }
}

/// The action after a check.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// No action.
    Well,
    /// Ask the server whether it is alive.
    Ask,
    /// The server is not alive.
    Over,
}

/// Counts the checks during which nothing has arrived.
#[derive(Debug, Default)]
struct SilenceCheck {
    last: Sign,
    looks: u32,
}

impl SilenceCheck {
    fn observe(&mut self, is_awaited: bool, sign: Sign) -> Verdict {
        let last = std::mem::replace(&mut self.last, sign);
        // A long message takes its time on a slow path, and no server answers before it has arrived.
        let has_moved = sign.received != last.received || (sign.is_sending && sign.sent != last.sent);
        self.looks = if is_awaited && !has_moved { self.looks + 1 } else { 0 };
        // A request that is pending at the first check may have been sent a moment before.
        match self.looks {
            0..=2 => Verdict::Well,
            3 => Verdict::Ask,
            4..=LOOKS => Verdict::Well,
            _ => Verdict::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(check: &mut SilenceCheck, count: usize, is_awaited: bool, sign: Sign) -> Vec<Verdict> {
        (0..count).map(|_| check.observe(is_awaited, sign)).collect()
    }

    #[test]
    fn silence_is_over_when_it_has_lasted_four_looks_behind_the_first() {
        use Verdict::{Ask, Over, Well};
        let (mut check, sign) = (SilenceCheck::default(), Sign { received: 7, ..Sign::default() });
        assert_eq!(verdicts(&mut check, 6, true, sign), [Well, Well, Well, Ask, Well, Over]);
    }

    #[test]
    fn every_byte_begins_anew_and_so_does_a_time_with_nothing_to_wait_for() {
        let (mut check, sign) = (SilenceCheck::default(), Sign::default());
        assert_eq!(verdicts(&mut check, 4, true, sign).last(), Some(&Verdict::Well));
        let more = Sign { received: 1, ..sign };
        assert_eq!(verdicts(&mut check, 5, true, more).last(), Some(&Verdict::Well));
        assert_eq!(verdicts(&mut check, 100, false, more).last(), Some(&Verdict::Well));
        assert_eq!(verdicts(&mut check, 5, true, more).last(), Some(&Verdict::Over));
    }

    #[test]
    fn what_is_acknowledged_counts_only_while_there_is_more_to_send() {
        for (is_sending, last) in [(true, Verdict::Well), (false, Verdict::Over)] {
            let mut check = SilenceCheck::default();
            let verdicts: Vec<_> =
                (0..5).map(|sent| check.observe(true, Sign { received: 0, sent, is_sending })).collect();
            assert_eq!(verdicts.last(), Some(&last), "{is_sending}");
        }
    }
}
