//! Chooses how a connection sends the data of large reads: copied into the reply, or from the page cache by
//! the host (sendfile).
//!
//! No rule fits all cases. If the page cache has large pages, sendfile costs a quarter less. If it has pages
//! of 4 KiB, a quick client wakes for each piece of 64 KiB, which doubles the cost on both sides. A
//! connection that reads much therefore tries both methods in turn, and keeps the cheaper one. Until then,
//! and if the two make no clear difference, data is copied.
//!
//! [`SendMethodChoice`] counts bytes, processor time and time. It reads no clock itself.

use wire::transfer::{Cost, Transfer, Trial};

const MIB: u64 = 1 << 20;
/// Bytes of large reads before the first trial, and between two trials.
const BEFORE_FIRST: u64 = 64 * MIB;
const BETWEEN: u64 = 16 << 30;
/// Number of phases of a trial, half of them for each method.
const PHASES: usize = 6;
/// Bytes of a phase. The first of them are not measured: meanwhile the data that the phase before has queued
/// is sent, and the caches fill with what this method needs.
const PHASE_BYTES: u64 = 48 * MIB;
const SKIPPED: u64 = 16 * MIB;
/// A pause of this length (ns) between large reads ends the trial.
const IDLE_NS: u64 = 50_000_000;
/// Limits for sendfile, in hundredths of the processor time and of the elapsed time that copying takes. The
/// elapsed time of a phase says little on a busy host, but it shows a client that reads at half the rate.
const CPU_PERCENT: u64 = 90;
const TIME_PERCENT: u64 = 125;
/// A trial ends after its first two phases if sendfile takes more than this, in hundredths of what copying
/// takes.
const TOO_MUCH_PERCENT: u64 = 130;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct SendMethodChoice {
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// No trial before this many more bytes.
    Settled { left: u64 },
    /// A trial is in progress. `before`: whether sendfile was used before it.
    Trying { costs: Vec<Cost>, phase: TrialPhase, before: bool },
}

/// A phase of a trial, with one method.
#[derive(Debug, Default)]
struct TrialPhase {
    bytes: u64,
    cpu_ns: u64,
    /// The start of the measurement, and the time of the client's last request (monotonic ns).
    began_ns: u64,
    last_ns: u64,
    /// Other threads have done some of the work, and their time is unknown.
    is_void: bool,
}

impl TrialPhase {
    fn begin(now_ns: u64) -> TrialPhase {
        TrialPhase { last_ns: now_ns, ..TrialPhase::default() }
    }

    /// Whether the phase is useless: the client has paused, or other threads have worked.
    fn is_over(&self, now_ns: u64) -> bool {
        self.is_void || now_ns.saturating_sub(self.last_ns) > IDLE_NS
    }

    /// Adds the work until `now_ns`. Returns the cost once the phase is complete.
    fn count(&mut self, bytes: u64, cpu_ns: u64, now_ns: u64) -> Option<Cost> {
        if bytes > 0 {
            self.last_ns = now_ns;
        }
        let is_measured = self.bytes >= SKIPPED;
        self.bytes += bytes;
        if !is_measured {
            self.began_ns = now_ns;
            return None;
        }
        self.cpu_ns += cpu_ns;
        let each_mib = |ns: u64| ns.saturating_mul(MIB) / (self.bytes - SKIPPED).max(1);
        let time_ns = now_ns.saturating_sub(self.began_ns);
        (self.bytes >= PHASE_BYTES)
            .then(|| Cost { cpu_ns: each_mib(self.cpu_ns), time_ns: each_mib(time_ns) })
    }
}

impl Default for SendMethodChoice {
    fn default() -> SendMethodChoice {
        SendMethodChoice { phase: Phase::Settled { left: BEFORE_FIRST } }
    }
}

impl SendMethodChoice {
    /// Whether to measure processor time around the work of the connection.
    pub(crate) fn measures(&self) -> bool {
        matches!(self.phase, Phase::Trying { .. })
    }

    /// Notes that threads work for the connection whose time is not measured.
    pub(crate) fn disturb(&mut self) {
        if let Phase::Trying { phase, .. } = &mut self.phase {
            phase.is_void = true;
        }
    }

    /// Adds the work of the connection until `now_ns`, with its processor time `cpu_ns` if that was measured.
    pub(crate) fn note(&mut self, transfer: &Transfer, cpu_ns: u64, now_ns: u64) {
        let bytes = transfer.take_chosen();
        match &mut self.phase {
            Phase::Settled { left } => {
                *left = left.saturating_sub(bytes);
                if *left == 0 {
                    let (costs, phase) = (Vec::with_capacity(PHASES), TrialPhase::begin(now_ns));
                    self.phase = Phase::Trying { costs, phase, before: transfer.is_uncopied() };
                    transfer.set_uncopied(false);
                }
            }
            Phase::Trying { phase, before, .. } if phase.is_over(now_ns) => {
                transfer.set_uncopied(*before);
                self.phase = Phase::Settled { left: BEFORE_FIRST };
            }
            Phase::Trying { costs, phase, .. } => {
                let Some(cost) = phase.count(bytes, cpu_ns, now_ns) else { return };
                costs.push(cost);
                *phase = TrialPhase::begin(now_ns);
                let trial = result(costs);
                if costs.len() < PHASES && !(costs.len() == 2 && is_far_too_dear(&trial)) {
                    transfer.set_uncopied(costs.len() % 2 == 1);
                    return;
                }
                transfer.set_uncopied(is_worth_it(&trial));
                transfer.set_trial(trial);
                self.phase = Phase::Settled { left: BETWEEN };
            }
        }
    }
}

/// The result of the phases. The first, the third and so on are of copying.
fn result(costs: &[Cost]) -> Trial {
    let of = |method: usize| {
        let phases = || costs.iter().skip(method).step_by(2);
        Cost {
            cpu_ns: median(phases().map(|cost| cost.cpu_ns)),
            time_ns: median(phases().map(|cost| cost.time_ns)),
        }
    };
    Trial { copied: of(0), uncopied: of(1) }
}

/// The median.
fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut all: Vec<u64> = values.collect();
    all.sort_unstable();
    all.get(all.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

/// Whether sendfile costs clearly less, and the client does not wait for it.
fn is_worth_it(Trial { copied, uncopied }: &Trial) -> bool {
    uncopied.cpu_ns * 100 <= copied.cpu_ns * CPU_PERCENT
        && uncopied.time_ns * 100 <= copied.time_ns * TIME_PERCENT
}

/// Whether sendfile costs so much more that one phase is enough to know it.
fn is_far_too_dear(Trial { copied, uncopied }: &Trial) -> bool {
    let is_far = |uncopied: u64, copied: u64| uncopied * 100 > copied * TOO_MUCH_PERCENT;
    is_far(uncopied.cpu_ns, copied.cpu_ns) || is_far(uncopied.time_ns, copied.time_ns)
}

#[cfg(test)]
mod tests {
    use wire::transfer::SendFile;

    use super::*;

    /// A client that reads one MiB after the other, with the cost of each: processor time and elapsed time,
    /// copied and not.
    struct ReadingClient {
        choice: SendMethodChoice,
        transfer: Transfer,
        now_ns: u64,
        costs: [Cost; 2],
    }

    impl ReadingClient {
        fn new(copied: (u64, u64), uncopied: (u64, u64)) -> ReadingClient {
            let of = |(cpu_ns, time_ns)| Cost { cpu_ns, time_ns };
            let costs = [of(copied), of(uncopied)];
            ReadingClient {
                choice: SendMethodChoice::default(),
                transfer: Transfer::default(),
                now_ns: 1,
                costs,
            }
        }

        /// Reads this many MiB. Returns how many were not copied.
        fn read(&mut self, mib: u64) -> u64 {
            (0..mib).map(|_| u64::from(self.one())).sum()
        }

        fn one(&mut self) -> bool {
            let uncopied = self.transfer.chooses(SendFile::Auto, MIB as usize);
            let cost = self.costs[usize::from(uncopied)];
            self.now_ns += cost.time_ns;
            let cpu_ns = if self.choice.measures() { cost.cpu_ns } else { 0 };
            self.choice.note(&self.transfer, cpu_ns, self.now_ns);
            uncopied
        }
    }

    const TRIAL: u64 = PHASES as u64 * PHASE_BYTES / MIB;

    #[test]
    fn the_cheaper_way_is_kept_and_looked_at_again() {
        let mut client = ReadingClient::new((150_000, 150_000), (110_000, 120_000));
        assert_eq!(client.read(BEFORE_FIRST / MIB), 0, "copied at first");
        assert_eq!(client.read(TRIAL), TRIAL / 2, "both in turns");
        assert_eq!(client.read(100), 100);
        let trial = client.transfer.trial().unwrap();
        assert_eq!((trial.copied.cpu_ns, trial.uncopied.cpu_ns), (150_000, 110_000));
        assert_eq!((trial.copied.time_ns, trial.uncopied.time_ns), (150_000, 120_000));
        client.costs[1].cpu_ns = 300_000;
        client.read(BETWEEN / MIB - 100 + TRIAL);
        assert_eq!(client.read(100), 0, "the path has changed");
    }

    #[test]
    fn data_is_copied_where_the_other_way_is_dearer_or_slower_or_the_same() {
        for uncopied in [(300_000, 150_000), (110_000, 300_000), (145_000, 150_000)] {
            let mut client = ReadingClient::new((150_000, 150_000), uncopied);
            let uncopied_mib = client.read(BEFORE_FIRST / MIB + TRIAL);
            assert_eq!(client.read(100), 0, "{uncopied:?}");
            assert!(client.transfer.trial().is_some());
            let is_far = uncopied.0 == 300_000 || uncopied.1 == 300_000;
            assert_eq!(uncopied_mib, if is_far { PHASE_BYTES / MIB } else { TRIAL / 2 }, "{uncopied:?}");
        }
    }

    #[test]
    fn a_client_that_pauses_ends_the_trial_and_keeps_the_way_that_it_had() {
        for in_turn in 0..PHASES as u64 {
            let mut client = ReadingClient::new((150_000, 150_000), (110_000, 120_000));
            client.read(BEFORE_FIRST / MIB + in_turn * PHASE_BYTES / MIB + 20);
            assert!(client.choice.measures());
            client.now_ns += 2 * IDLE_NS;
            client.one();
            assert!(!client.choice.measures() && client.transfer.trial().is_none());
            assert_eq!(client.read(10), 0, "turn {in_turn}");
        }
        let mut client = ReadingClient::new((150_000, 150_000), (110_000, 120_000));
        client.read(BEFORE_FIRST / MIB + TRIAL + BETWEEN / MIB + 20);
        assert!(client.choice.measures() && client.transfer.trial().is_some());
        client.choice.disturb();
        client.one();
        assert_eq!((client.choice.measures(), client.read(10)), (false, 10));
    }

    #[test]
    fn work_without_large_reads_does_not_keep_a_trial_alive() {
        let mut client = ReadingClient::new((150_000, 150_000), (110_000, 120_000));
        client.read(BEFORE_FIRST / MIB + PHASE_BYTES / MIB + 20);
        assert!(client.choice.measures());
        for _ in 0..60 {
            client.now_ns += 1_000_000;
            client.choice.note(&client.transfer, 900_000, client.now_ns);
        }
        assert!(!client.choice.measures() && !client.transfer.is_uncopied());
    }

    #[test]
    fn who_has_said_how_is_not_asked() {
        let transfer = Transfer::default();
        assert!(transfer.chooses(SendFile::Always, 1));
        assert!(!transfer.chooses(SendFile::Never, 1));
        assert_eq!(transfer.take_chosen(), 0);
        assert!(!transfer.chooses(SendFile::Auto, 7));
        assert_eq!((transfer.take_chosen(), transfer.take_chosen()), (7, 0));
    }
}
