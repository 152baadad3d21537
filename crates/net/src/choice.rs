//! Chooses for one connection how the data of large reads leaves: copied into the reply, or sent by the host from its page cache
//! (sendfile).
//!
//! No rule fits all. Where the page cache has large pages, sendfile costs a quarter less. Where it has pages of 4 KiB, a quick client
//! wakes for each piece of 64 KiB, which doubles what both sides pay. So a connection that reads much tries both ways in turns, and
//! keeps the one that costs less. Data is copied until then, and wherever the two cannot be told apart.
//!
//! [`Choice`] counts bytes, processor time and time. It reads no clock itself.

use wire::transfer::{Cost, Transfer, Trial};

const MIB: u64 = 1 << 20;
/// Bytes of large reads before both ways are tried for the first time, and between two trials.
const BEFORE_FIRST: u64 = 64 * MIB;
const BETWEEN: u64 = 16 << 30;
/// Turns of a trial, half of them for each way.
const TURNS: usize = 6;
/// Bytes of a turn, and how many of them at its begin are not measured: what the turn before has queued leaves meanwhile, and the
/// caches fill with what this way needs.
const TURN: u64 = 48 * MIB;
const SKIPPED: u64 = 16 * MIB;
/// A client that reads nothing large for so long (ns) ends the trial.
const IDLE_NS: u64 = 50_000_000;
/// Sending from the page cache may cost so many hundredths of the processor time and of the time that copying takes. The time of a
/// turn says little on a busy host, but a client that reads at half the rate shows.
const CPU_PERCENT: u64 = 90;
const TIME_PERCENT: u64 = 125;
/// A trial ends with its first two turns where sending from the page cache takes so many hundredths of what copying does.
const TOO_MUCH_PERCENT: u64 = 130;

/// The state of one connection's choice.
#[derive(Debug)]
pub(crate) struct Choice {
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Nothing is tried before so many more bytes.
    Settled { left: u64 },
    /// Both ways are tried. `before`: whether data was not copied before that.
    Trying { costs: Vec<Cost>, turn: Turn, before: bool },
}

/// A turn of one way.
#[derive(Debug, Default)]
struct Turn {
    bytes: u64,
    cpu_ns: u64,
    /// When measuring began, and when the client asked last (monotonic ns).
    began_ns: u64,
    last_ns: u64,
    /// Something was done by other threads, whose time is not known.
    is_void: bool,
}

impl Turn {
    fn begin(now_ns: u64) -> Turn {
        Turn { last_ns: now_ns, ..Turn::default() }
    }

    /// Whether it says nothing: the client has paused, or others have worked.
    fn is_over(&self, now_ns: u64) -> bool {
        self.is_void || now_ns.saturating_sub(self.last_ns) > IDLE_NS
    }

    /// Takes in what was done until `now_ns`; tells the cost when the turn is complete.
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
        (self.bytes >= TURN).then(|| Cost { cpu_ns: each_mib(self.cpu_ns), time_ns: each_mib(time_ns) })
    }
}

impl Default for Choice {
    fn default() -> Choice {
        Choice { phase: Phase::Settled { left: BEFORE_FIRST } }
    }
}

impl Choice {
    /// Whether processor time is to be read around what is done on the connection.
    pub(crate) fn measures(&self) -> bool {
        matches!(self.phase, Phase::Trying { .. })
    }

    /// Something is done for the connection by threads whose time is not read.
    pub(crate) fn disturb(&mut self) {
        if let Phase::Trying { turn, .. } = &mut self.phase {
            turn.is_void = true;
        }
    }

    /// Takes in what was done on the connection until `now_ns`, in `cpu_ns` of processor time where that was read.
    pub(crate) fn note(&mut self, transfer: &Transfer, cpu_ns: u64, now_ns: u64) {
        let bytes = transfer.take_chosen();
        match &mut self.phase {
            Phase::Settled { left } => {
                *left = left.saturating_sub(bytes);
                if *left == 0 {
                    let (costs, turn) = (Vec::with_capacity(TURNS), Turn::begin(now_ns));
                    self.phase = Phase::Trying { costs, turn, before: transfer.is_uncopied() };
                    transfer.set_uncopied(false);
                }
            }
            Phase::Trying { turn, before, .. } if turn.is_over(now_ns) => {
                transfer.set_uncopied(*before);
                self.phase = Phase::Settled { left: BEFORE_FIRST };
            }
            Phase::Trying { costs, turn, .. } => {
                let Some(cost) = turn.count(bytes, cpu_ns, now_ns) else { return };
                costs.push(cost);
                *turn = Turn::begin(now_ns);
                let trial = result(costs);
                if costs.len() < TURNS && !(costs.len() == 2 && is_far_too_dear(&trial)) {
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

/// What the turns have shown, of which the first, the third and so on were of copying.
fn result(costs: &[Cost]) -> Trial {
    let of = |way: usize| {
        let turns = || costs.iter().skip(way).step_by(2);
        Cost {
            cpu_ns: median(turns().map(|cost| cost.cpu_ns)),
            time_ns: median(turns().map(|cost| cost.time_ns)),
        }
    };
    Trial { copied: of(0), uncopied: of(1) }
}

/// The one in the middle.
fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut all: Vec<u64> = values.collect();
    all.sort_unstable();
    all.get(all.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

/// Whether sending from the page cache costs clearly less, and the client does not wait for it.
fn is_worth_it(Trial { copied, uncopied }: &Trial) -> bool {
    uncopied.cpu_ns * 100 <= copied.cpu_ns * CPU_PERCENT
        && uncopied.time_ns * 100 <= copied.time_ns * TIME_PERCENT
}

/// Whether sending from the page cache costs so much more that one turn is enough to know it.
fn is_far_too_dear(Trial { copied, uncopied }: &Trial) -> bool {
    let is_far = |uncopied: u64, copied: u64| uncopied * 100 > copied * TOO_MUCH_PERCENT;
    is_far(uncopied.cpu_ns, copied.cpu_ns) || is_far(uncopied.time_ns, copied.time_ns)
}

#[cfg(test)]
mod tests {
    use wire::transfer::SendFile;

    use super::*;

    /// A client that reads MiB after MiB, and what each costs: processor time and time, copied and not.
    struct Client {
        choice: Choice,
        transfer: Transfer,
        now_ns: u64,
        costs: [Cost; 2],
    }

    impl Client {
        fn new(copied: (u64, u64), uncopied: (u64, u64)) -> Client {
            let of = |(cpu_ns, time_ns)| Cost { cpu_ns, time_ns };
            let costs = [of(copied), of(uncopied)];
            Client { choice: Choice::default(), transfer: Transfer::default(), now_ns: 1, costs }
        }

        /// Reads so many MiB; of how many the data was not copied.
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

    const TRIAL: u64 = TURNS as u64 * TURN / MIB;

    #[test]
    fn the_cheaper_way_is_kept_and_looked_at_again() {
        let mut client = Client::new((150_000, 150_000), (110_000, 120_000));
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
            let mut client = Client::new((150_000, 150_000), uncopied);
            let uncopied_mib = client.read(BEFORE_FIRST / MIB + TRIAL);
            assert_eq!(client.read(100), 0, "{uncopied:?}");
            assert!(client.transfer.trial().is_some());
            let is_far = uncopied.0 == 300_000 || uncopied.1 == 300_000;
            assert_eq!(uncopied_mib, if is_far { TURN / MIB } else { TRIAL / 2 }, "{uncopied:?}");
        }
    }

    #[test]
    fn a_client_that_pauses_ends_the_trial_and_keeps_the_way_that_it_had() {
        for in_turn in 0..TURNS as u64 {
            let mut client = Client::new((150_000, 150_000), (110_000, 120_000));
            client.read(BEFORE_FIRST / MIB + in_turn * TURN / MIB + 20);
            assert!(client.choice.measures());
            client.now_ns += 2 * IDLE_NS;
            client.one();
            assert!(!client.choice.measures() && client.transfer.trial().is_none());
            assert_eq!(client.read(10), 0, "turn {in_turn}");
        }
        let mut client = Client::new((150_000, 150_000), (110_000, 120_000));
        client.read(BEFORE_FIRST / MIB + TRIAL + BETWEEN / MIB + 20);
        assert!(client.choice.measures() && client.transfer.trial().is_some());
        client.choice.disturb();
        client.one();
        assert_eq!((client.choice.measures(), client.read(10)), (false, 10));
    }

    #[test]
    fn work_without_large_reads_does_not_keep_a_trial_alive() {
        let mut client = Client::new((150_000, 150_000), (110_000, 120_000));
        client.read(BEFORE_FIRST / MIB + TURN / MIB + 20);
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
