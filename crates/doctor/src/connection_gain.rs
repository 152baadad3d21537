//! The gain of several connections, from runs in turns, and the merging of turns into one run.

use load::comparison::{GainVerdict, Range, Uncertainty, count_to_take};

use crate::measurements::{Data, Run, RunKind, Traffic};

/// The least factor that is worth a change.
pub(crate) const WORTH: f64 = 1.25;

/// The gain of several connections over one, for one kind of work.
#[derive(Debug, Clone, Copy)]
pub struct Gain<'a> {
    /// The run with one connection.
    pub one: &'a Run,
    /// The run with the recommended number of connections.
    pub many: &'a Run,
    /// The factor between the two. `None` if the turns are not clear.
    pub range: Option<Range>,
}

impl Gain<'_> {
    /// The median factor. Without turns, the factor of the rates.
    #[must_use]
    pub fn times(&self) -> f64 {
        self.range.map_or_else(|| self.many.per_s / self.one.per_s, |it| it.middle)
    }

    /// Whether more connections are certainly worth a change: the whole range says so.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.range.is_some_and(|it| it.says(WORTH) == GainVerdict::More)
    }
}

impl Data {
    /// The gain of several connections over one, for the kind of `works` that gains most. `None` without
    /// runs with several connections: one point says nothing about more.
    #[must_use]
    pub fn gain(&self, works: &[RunKind]) -> Option<Gain<'_>> {
        let of = |work: &RunKind| {
            let one = self.run(*work, 1).filter(|it| it.per_s > 0.0)?;
            let runs = || self.runs.iter().filter(|it| it.work == *work);
            let all: Vec<(u32, &[f64])> = runs().map(|it| (it.connections, it.turns.as_slice())).collect();
            let best = self.best(*work, u32::MAX).filter(|_| runs().any(|it| it.connections > 1))?;
            let doubt = self.doubt(one, best);
            let many = count_to_take(&all, doubt).and_then(|it| self.run(*work, it)).unwrap_or(best);
            Some(Gain { one, many, range: Range::of(&one.turns, &many.turns, self.doubt(one, many)) })
        };
        works.iter().filter_map(of).max_by(|a, b| a.times().total_cmp(&b.times()))
    }

    /// The uncertainty of the comparison of two runs. A server elsewhere does not wait for the processors
    /// of this host. Other programs then matter only as far as the doctor waited for a processor. A
    /// server on this host waits as well, and that cannot be seen.
    fn doubt(&self, one: &Run, many: &Run) -> Uncertainty {
        let part = self
            .others
            .map_or(0.0, |it| if it.is_server_here { it.part } else { it.part.min(waited(one, many)) });
        Uncertainty { others: part, cut: one.cut.max(many.cut).min(1.0) }
    }
}

/// The part of the time in which the doctor waited for a processor, in the run where it was larger. 1 if
/// it is unknown.
fn waited(one: &Run, many: &Run) -> f64 {
    one.waited.zip(many.waited).map_or(1.0, |(one, many)| one.max(many))
}

/// The parts that one turn adds to a run. A shorter part would have too few operations.
const PARTS_OF_TURN: usize = 5;

impl Run {
    /// The same run as the first of several turns.
    pub(crate) fn in_turn(mut self) -> Run {
        let size = self.parts.len().div_ceil(PARTS_OF_TURN).max(1);
        self.parts = self.parts.chunks(size).map(|it| it.iter().sum::<f64>() / it.len() as f64).collect();
        self
    }

    /// Whether `other` is a further turn of the same work.
    pub(crate) fn is_same(&self, other: &Run) -> bool {
        let what = |it: &Run| (it.work, it.connections, it.block);
        what(self) == what(other)
    }

    /// Adds one more turn. Rates are those of all turns together, the interval is their spread, and
    /// latencies are the mean over all turns, weighted by their operations.
    pub(crate) fn add_turn(&mut self, other: &Run) {
        let seconds = self.lasted_s + other.lasted_s;
        let by_time = |own: f64, more: f64| (own * self.lasted_s + more * other.lasted_s) / seconds.max(1e-9);
        let all = (self.operations + other.operations).max(1) as f64;
        let by_count =
            |own: f64, more: f64| (own * self.operations as f64 + more * other.operations as f64) / all;
        let (own_processors, idle) =
            (by_time(self.own_processors, other.own_processors), by_time(self.idle, other.idle));
        let waited = self.waited.zip(other.waited).map(|(own, more)| by_time(own, more));
        let per_s = by_time(self.per_s, other.per_s);
        let (median_ms, p99_ms) =
            (by_count(self.median_ms, other.median_ms), by_count(self.p99_ms, other.p99_ms));
        self.tcp = self.tcp.zip(other.tcp).map(|(own, more)| own.and(&more));
        (self.own_processors, self.idle, self.waited) = (own_processors, idle, waited);
        (self.median_ms, self.p99_ms, self.per_s) = (median_ms, p99_ms, per_s);
        (self.lasted_s, self.operations) = (seconds, self.operations + other.operations);
        self.cut = self.cut.max(other.cut);
        self.mib_s = per_s * f64::from(self.block) / 1_048_576.0;
        self.depth = other.depth;
        self.parts.extend_from_slice(&other.parts);
        self.turns.extend_from_slice(&other.turns);
        let least = self.turns.iter().copied().fold(f64::INFINITY, f64::min);
        self.interval = [least, self.turns.iter().copied().fold(0.0, f64::max)];
    }
}

impl Traffic {
    /// The sum of both counts.
    fn and(&self, other: &Traffic) -> Traffic {
        Traffic {
            sent: self.sent + other.sent,
            sent_again: self.sent_again + other.sent_again,
            came: self.came + other.came,
            out_of_order: self.out_of_order + other.out_of_order,
            rtt_ms: (self.rtt_ms + other.rtt_ms) / 2.0,
            held_by_peer_window: (self.held_by_peer_window + other.held_by_peer_window) / 2.0,
            held_by_send_buffer: (self.held_by_send_buffer + other.held_by_send_buffer) / 2.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurements::Others;
    use crate::rules::tests_support::large;

    fn data(one: &[f64], four: &[f64]) -> Data {
        let run = |connections, turns: &[f64]| {
            let mean = turns.iter().sum::<f64>() / turns.len() as f64;
            Run { turns: turns.to_vec(), ..large(RunKind::Read, connections, mean / 4.0, 0.1) }
        };
        Data { runs: vec![run(1, one), run(4, four)], ..Data::default() }
    }

    #[test]
    fn turns_are_compared_with_those_that_belong_to_them() {
        // The host was twice as fast in the second half, for both numbers alike.
        let drift = data(&[100.0, 100.0, 200.0, 200.0], &[300.0, 300.0, 600.0, 600.0]);
        let gain = drift.gain(&[RunKind::Read]).unwrap();
        let range = gain.range.unwrap();
        assert!(gain.is_sure() && range.least > 2.8 && range.most < 3.2, "{range:?}");
        // A turn without any progress must not give a factor of billions.
        let still = data(&[100.0, 0.0, 100.0, 100.0], &[300.0; 4]);
        let gain = still.gain(&[RunKind::Read]).unwrap();
        assert!(gain.range.is_none() && !gain.is_sure() && gain.times() < 10.0, "{gain:?}");
    }

    #[test]
    fn other_programs_make_a_range_wider_or_refuse_it() {
        let range = |part, is_server_here, waited| {
            let mut data = data(&[100.0; 4], &[300.0; 4]);
            data.others = Some(Others { part, processors: 2, is_server_here });
            data.runs.iter_mut().for_each(|run| run.waited = waited);
            data.gain(&[RunKind::Read]).unwrap().range
        };
        let free = range(0.0, true, Some(0.0)).unwrap();
        let wider = |it: Option<Range>| it.unwrap().most / free.most;
        assert!((wider(range(0.5, true, Some(0.0))) - 2.0).abs() < 1e-9);
        // A server elsewhere has its own processors, and the doctor did not wait for one here.
        assert!((wider(range(0.5, false, Some(0.01))) - 1.0).abs() < 1e-9);
        assert!(wider(range(0.5, false, None)) > 1.9);
        assert_eq!(range(0.9, true, Some(0.0)), None);
    }

    #[test]
    fn a_run_takes_up_turns() {
        let mut run = large(RunKind::Read, 1, 10.0, 1.0).in_turn();
        assert_eq!(run.parts.len(), PARTS_OF_TURN);
        (run.turns, run.waited) = (vec![40.0], Some(0.1));
        let other =
            Run { turns: vec![80.0], waited: Some(0.3), ..large(RunKind::Read, 1, 20.0, 3.0).in_turn() };
        assert!(run.is_same(&other) && !run.is_same(&large(RunKind::Read, 2, 20.0, 1.0)));
        run.add_turn(&other);
        assert_eq!(
            (run.turns.as_slice(), run.interval, run.parts.len()),
            (&[40.0, 80.0][..], [40.0, 80.0], 10)
        );
        assert_eq!((run.per_s, run.mib_s, run.lasted_s, run.operations), (60.0, 15.0, 2.0, 120));
        assert!((run.waited.unwrap() - 0.2).abs() < 1e-9 && run.tcp.unwrap().rtt_ms == 2.0, "{run:?}");
    }
}
