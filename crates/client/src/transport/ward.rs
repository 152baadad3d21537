//! Ends a connection on which the server has gone silent. Its host acknowledges what is sent, and keep-alive probes too,
//! long after the server hangs or was stopped; only an answer shows that it lives.
//!
//! Nothing is counted for this while requests go by: four times in the time that silence may last, the host is asked
//! how much has come. When half of the time is over, so is the server, in a way that it answers at once
//! ([`Protocol::ask`]), for a request may wait as long as it likes where the server says no more than that it lives.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::traffic::Sign;
use super::{Protocol, Transport};

/// How often it is looked within the time that silence may last.
const LOOKS: u32 = 4;

/// Runs until the connection ends. With a `silence` of zero nothing is looked at.
pub(super) async fn run<P: Protocol>(transport: Arc<Transport<P>>, silence: Duration) {
    let period = silence / LOOKS;
    if period.is_zero() {
        return;
    }
    let mut looks = tokio::time::interval(period);
    // A process that was stopped itself has not waited for anybody meanwhile.
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks.tick().await;
    let mut quiet = Quiet::default();
    loop {
        looks.tick().await;
        // A host that does not say what has come.
        let Some(sign) = transport.meter.sign() else { return };
        let is_awaited = {
            let state = transport.lock();
            if state.failed.is_some() {
                return;
            }
            state.entries.values().any(|entry| !entry.is_done())
        };
        let sign = Sign { is_sending: sign.is_sending || transport.writing.load(Ordering::Relaxed), ..sign };
        match quiet.look(is_awaited, sign) {
            Verdict::Well => {}
            // It may have to wait until something else has been answered.
            Verdict::Ask => drop(tokio::time::timeout(period, P::ask(&transport)).await),
            Verdict::Over => {
                let why = format!("the server has sent nothing for {silence:?}");
                return transport.fail(io::Error::new(io::ErrorKind::TimedOut, why).into());
            }
        }
    }
}

/// What is to be done after a look.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing.
    Well,
    /// Ask the server whether it is there.
    Ask,
    /// It is not.
    Over,
}

/// For how many looks nothing has come.
#[derive(Debug, Default)]
struct Quiet {
    last: Sign,
    looks: u32,
}

impl Quiet {
    fn look(&mut self, is_awaited: bool, sign: Sign) -> Verdict {
        let last = std::mem::replace(&mut self.last, sign);
        // On a slow path a long message takes its time, and no server answers before it is there.
        let has_moved = sign.received != last.received || (sign.is_sending && sign.sent != last.sent);
        self.looks = if is_awaited && !has_moved { self.looks + 1 } else { 0 };
        // What is awaited at the first of them may have been sent a moment before.
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

    fn verdicts(quiet: &mut Quiet, count: usize, is_awaited: bool, sign: Sign) -> Vec<Verdict> {
        (0..count).map(|_| quiet.look(is_awaited, sign)).collect()
    }

    #[test]
    fn silence_is_over_when_it_has_lasted_four_looks_behind_the_first() {
        use Verdict::{Ask, Over, Well};
        let (mut quiet, sign) = (Quiet::default(), Sign { received: 7, ..Sign::default() });
        assert_eq!(verdicts(&mut quiet, 6, true, sign), [Well, Well, Well, Ask, Well, Over]);
    }

    #[test]
    fn every_byte_begins_anew_and_so_does_a_time_with_nothing_to_wait_for() {
        let (mut quiet, sign) = (Quiet::default(), Sign::default());
        assert_eq!(verdicts(&mut quiet, 4, true, sign).last(), Some(&Verdict::Well));
        let more = Sign { received: 1, ..sign };
        assert_eq!(verdicts(&mut quiet, 5, true, more).last(), Some(&Verdict::Well));
        assert_eq!(verdicts(&mut quiet, 100, false, more).last(), Some(&Verdict::Well));
        assert_eq!(verdicts(&mut quiet, 5, true, more).last(), Some(&Verdict::Over));
    }

    #[test]
    fn what_is_acknowledged_counts_only_while_there_is_more_to_send() {
        for (is_sending, last) in [(true, Verdict::Well), (false, Verdict::Over)] {
            let mut quiet = Quiet::default();
            let verdicts: Vec<_> =
                (0..5).map(|sent| quiet.look(true, Sign { received: 0, sent, is_sending })).collect();
            assert_eq!(verdicts.last(), Some(&last), "{is_sending}");
        }
    }
}
