//! Layer 7: a rate that collapses repeatedly at regular intervals, as when a token bucket empties and is
//! refilled.

use crate::measurements::{Run, RunKind, Sawtooth, median};

/// The shortest part of a run in which a rate is distinguishable from chance (s), and the least
/// operations in it.
const PART_S: f64 = 0.05;
const OPERATIONS: f64 = 8.0;
/// The least number of collapses.
const COLLAPSES: usize = 3;

/// The sawtooth in a run of large blocks, if there is one: several collapses to less than half of the
/// usual rate, at regular intervals.
pub(crate) fn find(run: &Run) -> Option<Sawtooth> {
    let is_large = matches!(run.work, RunKind::Write | RunKind::Read | RunKind::ReadAgain);
    let part_s = run.lasted_s / run.parts.len().max(1) as f64;
    let usual = median(&run.parts)?;
    // A host that is busy with other work has pauses of its own.
    if !is_large || run.idle < 0.1 || part_s < PART_S || usual * part_s < OPERATIONS {
        return None;
    }
    let is_down = |at: usize| run.parts[at] < usual / 2.0;
    let begins: Vec<usize> =
        (0..run.parts.len()).filter(|at| is_down(*at) && (*at == 0 || !is_down(*at - 1))).collect();
    let distances: Vec<f64> = begins.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let every = median(&distances)?;
    // A collapse may fall on either side of the border between two parts.
    let are_even = distances.iter().all(|it| (it - every).abs() <= (every / 4.0).max(1.0));
    (begins.len() >= COLLAPSES && every >= 2.0 && are_even).then_some(Sawtooth {
        work: run.work,
        connections: run.connections,
        collapses: begins.len() as u32,
        every_s: every * part_s,
        usual_per_s: usual,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::tests_support::large;

    /// A run of two seconds with these rates of its parts.
    fn run(parts: impl Iterator<Item = f64>) -> Run {
        Run { lasted_s: 2.0, parts: parts.collect(), ..large(RunKind::Read, 1, 100.0, 1.0) }
    }

    #[test]
    fn a_rate_that_breaks_down_evenly_is_a_sawtooth() {
        let down = |every: usize| move |at: usize| if at % every == every - 1 { 30.0 } else { 400.0 };
        let found = find(&run((0..20).map(down(5)))).unwrap();
        assert_eq!((found.collapses, found.connections, found.usual_per_s), (4, 1, 400.0));
        assert!((found.every_s - 0.5).abs() < 1e-9, "{found:?}");
        // Two collapses are chance.
        assert_eq!(find(&run((0..20).map(down(10)))), None);
        // So are collapses at irregular intervals.
        assert_eq!(find(&run((0..20).map(|at| if [2, 4, 15].contains(&at) { 0.0 } else { 400.0 }))), None);
        assert_eq!(find(&run((0..20).map(|at| 400.0 - f64::from(at)))), None);
        // Two operations in a part, and a host without idle time, say nothing.
        assert_eq!(find(&run((0..20).map(down(5)).map(|it| it / 20.0))), None);
        assert_eq!(find(&Run { idle: 0.05, ..run((0..20).map(down(5))) }), None);
    }
}
