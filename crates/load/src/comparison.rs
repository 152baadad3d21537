//! Compares numbers of connections that were measured in turns (A B C, A B C, ...).
//!
//! A host, its storage and a path change from one second to the next. Consecutive runs differ by these
//! changes too, and the parts of one run do not show them. Turns do: each turn gives one factor, and the
//! spread of the factors is the range. A statement is made only if the whole range lies on one side.

use serde::Serialize;

/// The number of turns from which the spread alone is the range. Of two sets of four values in random
/// order, one lies completely above the other in 2 of 70 cases (8 choose 4). So two ranges overlap in 97
/// of 100 pairs; with three turns it would be 90.
pub const ENOUGH_TURNS: usize = 4;

/// The least relative error of one turn, however even its rates were: its ends cut the operations that
/// are under way.
const CUT_PART: f64 = 0.04;

/// The largest factor by which other programs may widen a range. A wider range says nothing.
const WIDEST_FACTOR: f64 = 2.5;

/// The part of the processors below which other programs cannot be distinguished from the host's own
/// work.
pub const UNFELT_PART: f64 = 0.06;

/// The factor between the rates of two numbers of connections.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The lower end, over all turns and with the possible share of other programs.
    pub least: f64,
    /// The median turn.
    pub middle: f64,
    /// The upper end.
    pub most: f64,
}

/// The conclusion about more connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GainVerdict {
    /// The whole range lies above the factor that is worth a change.
    More,
    /// The whole range lies below it.
    Enough,
    /// The range lies on both sides.
    Unsure,
}

/// The uncertainties that make a range wider than its turns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Uncertainty {
    /// The part of the processors that other programs used meanwhile. Either side may have lost it.
    pub others: f64,
    /// The relative error from the ends of a turn.
    pub cut: f64,
}

impl Range {
    /// The factor between the rates of `many` and `one` connections, from pairs of turns. `None` if there
    /// are fewer than two turns, if a turn has a rate of zero, or if others used so much that the range
    /// would say nothing.
    #[must_use]
    pub fn of(one: &[f64], many: &[f64], doubt: Uncertainty) -> Option<Range> {
        let mut factors: Vec<f64> = one.iter().zip(many).map(|(one, many)| many / one).collect();
        let are_told = factors.iter().all(|it| it.is_finite() && *it > 0.0);
        if factors.len() < 2 || !are_told {
            return None;
        }
        factors.sort_by(f64::total_cmp);
        let (least, most) = (factors[0], factors[factors.len() - 1]);
        // With fewer turns, each missing turn adds half of the spread on both sides.
        let missing = ENOUGH_TURNS.saturating_sub(factors.len()) as f64;
        let wider =
            (most / least).powf(missing / 2.0) * (1.0 + doubt.cut.max(CUT_PART)) * widened_by(doubt.others)?;
        Some(Range { least: least / wider, middle: middle(&factors), most: most * wider })
    }

    /// The conclusion, if a factor of `worth_it` is worth a change.
    #[must_use]
    pub fn says(&self, worth_it: f64) -> GainVerdict {
        match (self.least >= worth_it, self.most < worth_it) {
            (true, _) => GainVerdict::More,
            (_, true) => GainVerdict::Enough,
            _ => GainVerdict::Unsure,
        }
    }
}

/// The factor by which a range is wider when other programs used this part of the processors. `None` if
/// that is too much.
fn widened_by(others: f64) -> Option<f64> {
    if others < UNFELT_PART {
        return Some(1.0);
    }
    let factor = 1.0 / (1.0 - others.min(0.999));
    (factor <= WIDEST_FACTOR).then_some(factor)
}

/// The median of sorted values.
fn middle(sorted: &[f64]) -> f64 {
    let at = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[at - 1] + sorted[at]) / 2.0 } else { sorted[at] }
}

/// The recommended number of connections: the [usual one](USUAL_COUNT), or the largest tried one below
/// it. Another is chosen if more connections are certainly better, or fewer are certainly as good.
/// `rates` has the turns of each number.
#[must_use]
pub fn count_to_take(rates: &[(u32, &[f64])], doubt: Uncertainty) -> Option<u32> {
    let several = || rates.iter().filter(|(count, _)| *count > 1);
    let usual = several().filter(|(count, _)| *count <= USUAL_COUNT).max_by_key(|(count, _)| *count);
    let (mut taken, mut turns) = *usual.or_else(|| several().min_by_key(|(count, _)| *count))?;
    for (count, more) in several().filter(|(count, _)| *count > USUAL_COUNT) {
        if Range::of(turns, more, doubt).is_some_and(|it| it.least > LITTLE_MORE) {
            (taken, turns) = (*count, more);
        }
    }
    let is_as_good = |fewer: &[f64]| Range::of(fewer, turns, doubt).is_some_and(|it| it.most < LITTLE_MORE);
    let fewer = several().filter(|(count, fewer)| *count < taken && is_as_good(fewer));
    Some(fewer.map(|(count, _)| *count).min().unwrap_or(taken))
}

/// The default of clients, and the number that vendors publish.
pub const USUAL_COUNT: u32 = 4;

/// The factor up to which more connections gain little.
const LITTLE_MORE: f64 = 1.15;

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers, the same in each run (Marsaglia's xorshift).
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> f64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }

        /// A factor around 1 that differs by at most `part`.
        fn around(&mut self, part: f64) -> f64 {
            1.0 + (self.next() * 2.0 - 1.0) * part
        }
    }

    /// Simulates a measurement of a target on which four connections are worth `gain`. Another program
    /// uses one of two processors every other second. Each turn lasts 0.3 s, with one, two and four
    /// connections one after the other. Both sides need processors, so the rate falls by a third, and not
    /// evenly.
    fn simulated(chance: &mut Chance, gain: f64, is_disturbed: bool) -> (Vec<Vec<f64>>, f64) {
        let (mut at_s, mut others_s, mut all_s) = (chance.next() * 2.0, 0.0, 0.0);
        let mut rates = vec![Vec::new(); 3];
        for _ in 0..ENOUGH_TURNS {
            for (rates, factor) in rates.iter_mut().zip([1.0, gain.sqrt(), gain]) {
                let is_on = is_disturbed && at_s % 2.0 < 1.0;
                let part = if is_on { 0.67 * chance.around(0.15) } else { chance.around(0.04) };
                rates.push(1000.0 * factor * part);
                others_s += if is_on { 0.15 } else { 0.0 };
                (at_s, all_s) = (at_s + 0.3, all_s + 0.3);
            }
        }
        (rates, others_s / all_s)
    }

    fn by(others: f64) -> Uncertainty {
        Uncertainty { others, ..Uncertainty::default() }
    }

    fn overlap(a: Option<Range>, b: Option<Range>) -> bool {
        // A refused range claims nothing.
        a.zip(b).is_none_or(|(a, b)| a.least <= b.most && b.least <= a.most)
    }

    #[test]
    fn twenty_runs_beside_another_program_do_not_contradict_each_other() {
        let mut chance = Chance(7);
        for gain in [1.0, 1.3, 1.7, 3.0] {
            let runs: Vec<_> = (0..20).map(|_| simulated(&mut chance, gain, true)).collect();
            let ranges: Vec<_> =
                runs.iter().map(|(rates, others)| Range::of(&rates[0], &rates[2], by(*others))).collect();
            let pairs = || (0..20).flat_map(|a| (a + 1..20).map(move |b| (a, b)));
            let met = pairs().filter(|(a, b)| overlap(ranges[*a], ranges[*b])).count();
            assert!(
                met * 100 >= pairs().count() * 95,
                "{gain}: {met} of {} pairs: {ranges:?}",
                pairs().count()
            );
            let said: Vec<_> = ranges.iter().flatten().map(|it| it.says(1.25)).collect();
            let is_opposite = said.contains(&GainVerdict::More) && said.contains(&GainVerdict::Enough);
            assert!(!is_opposite, "{gain}: {said:?}");
        }
    }

    #[test]
    fn three_times_as_much_is_found_and_known_within_a_factor_of_one_and_a_half() {
        let mut chance = Chance(11);
        let found = |(rates, others): (Vec<Vec<f64>>, f64)| {
            let it = Range::of(&rates[0], &rates[2], by(others)).unwrap();
            it.says(1.25) == GainVerdict::More && it.most / it.least < 1.5
        };
        let count = (0..20).filter(|_| found(simulated(&mut chance, 3.0, false))).count();
        assert!(count >= 19, "{count} of 20");
    }

    #[test]
    fn a_turn_that_brought_nothing_and_a_host_that_is_taken_say_nothing() {
        assert_eq!(Range::of(&[1.0, 0.0], &[3.0, 3.0], by(0.0)), None);
        assert_eq!(Range::of(&[1.0, 2.0], &[0.0, 3.0], by(0.0)), None);
        assert_eq!(Range::of(&[1.0], &[3.0], by(0.0)), None);
        assert_eq!(Range::of(&[1.0; 4], &[3.0; 4], by(0.7)), None);
        let free = Range::of(&[1.0; 4], &[3.0; 4], by(0.0)).unwrap();
        let taken = Range::of(&[1.0; 4], &[3.0; 4], by(0.5)).unwrap();
        assert!((taken.most / free.most - 2.0).abs() < 1e-9 && (free.least / taken.least - 2.0).abs() < 1e-9);
        // Two turns that differ say less than four.
        let two = Range::of(&[1.0, 1.0], &[2.0, 3.0], by(0.0)).unwrap();
        let four = Range::of(&[1.0; 4], &[2.0, 3.0, 2.5, 2.5], by(0.0)).unwrap();
        assert!(two.least < four.least && two.most > four.most, "{two:?} {four:?}");
    }

    #[test]
    fn the_number_to_take_is_the_usual_one_unless_another_is_surely_better_or_as_good() {
        let even = |rate: f64| vec![rate; 4];
        let take = |all: &[(u32, Vec<f64>)]| {
            let all: Vec<(u32, &[f64])> = all.iter().map(|(count, turns)| (*count, &turns[..])).collect();
            count_to_take(&all, Uncertainty::default())
        };
        let curve = |two: f64, four: f64, eight: f64| {
            vec![(1, even(100.0)), (2, even(two)), (4, even(four)), (8, even(eight))]
        };
        assert_eq!(take(&curve(200.0, 400.0, 410.0)), Some(4));
        assert_eq!(take(&curve(390.0, 400.0, 410.0)), Some(2));
        assert_eq!(take(&curve(200.0, 400.0, 790.0)), Some(8));
        // A difference that changes from turn to turn is not certain.
        let uneven = vec![(1, even(100.0)), (2, vec![390.0, 200.0, 300.0, 390.0]), (4, even(400.0))];
        assert_eq!(take(&uneven), Some(4));
        assert_eq!(take(&[(1, even(100.0))]), None);
    }
}
