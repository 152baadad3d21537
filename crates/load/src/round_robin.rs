//! Loads that differ only in the number of channels, measured in turns (A B C, A B C, ...). A change of
//! conditions over time affects all of them, and the spread between turns shows how certain a comparison
//! is ([`crate::comparison`]).

use std::time::Duration;

use crate::comparison::ENOUGH_TURNS;
use crate::host_activity::{self, ActivitySample, HostActivity};
use crate::report::{Measured, Turns};
use crate::run::{clear, measure};
use crate::{Error, Plan, Report, Stop};

/// The shortest counted time of a turn. The start dominates a shorter one.
const TURN_AT_LEAST: Duration = Duration::from_millis(500);

/// Runs the plans of [`Plan::all`]. Adjacent plans that differ only in their channels form a group. Each
/// plan of a group runs in every turn for a part of its time, after a first turn that does not count.
///
/// # Errors
/// The first error.
pub fn run_all(plans: Vec<Plan>) -> Result<Vec<Report>, Error> {
    let mut reports = Vec::new();
    for group in groups(plans) {
        match turn_of(&group) {
            Some(turn) => reports.extend(in_turns(&group, turn)?),
            None => reports.extend(group.into_iter().map(crate::run).collect::<Result<Vec<_>, _>>()?),
        }
    }
    Ok(reports)
}

/// Groups adjacent plans that differ only in their channels.
fn groups(plans: Vec<Plan>) -> Vec<Vec<Plan>> {
    let mut groups: Vec<Vec<Plan>> = Vec::new();
    let first = plans.first().map(|it| it.channels);
    for plan in plans {
        match groups.last_mut().filter(|_| Some(plan.channels) != first) {
            Some(group) => group.push(plan),
            None => groups.push(vec![plan]),
        }
    }
    groups
}

/// The length of each turn. `None` if there is nothing to compare, or if the time cannot be divided.
fn turn_of(group: &[Plan]) -> Option<Duration> {
    let first = group.first().filter(|it| group.len() > 1 && it.operations.is_none())?;
    Some(first.runtime? / ENOUGH_TURNS as u32).filter(|it| *it >= TURN_AT_LEAST)
}

fn in_turns(group: &[Plan], turn: Duration) -> Result<Vec<Report>, Error> {
    let (mut quiet, mut all) = (HostActivity::default(), vec![None::<Measured>; group.len()]);
    let mut turns = vec![Turns::default(); group.len()];
    // The first turn creates the files and warms up.
    for number in 0..=ENOUGH_TURNS {
        for (at, plan) in group.iter().enumerate() {
            let counts = number > 0;
            let time = if counts { turn } else { turn.min(TURN_AT_LEAST) };
            let plan = Plan { runtime: Some(time), ..plan.clone() };
            let measured = measure(&plan, &Stop::default(), || Ok(()))?;
            clear(&plan)?;
            if counts {
                turns[at].per_s.push(measured.per_s());
                match &mut all[at] {
                    Some(all) => all.then(measured),
                    none => *none = Some(measured),
                }
            }
            let look = ActivitySample::begin();
            std::thread::sleep(host_activity::SAMPLE_TIME);
            quiet.add(&look);
        }
    }
    let one = turns.first().map(|it| it.per_s.clone()).unwrap_or_default();
    let of = |((plan, measured), mut turns): ((&Plan, Option<Measured>), Turns)| {
        turns.beside = (plan.channels != group[0].channels).then(|| (group[0].channels, one.clone()));
        turns.others = quiet.others().unwrap_or(0.0);
        Report::new(plan, measured.unwrap_or_default()).with_turns(turns)
    };
    Ok(group.iter().zip(all).zip(turns).map(of).collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: crate::Args,
    }

    fn plans(options: &str) -> Vec<Plan> {
        let words = ["load"].into_iter().chain(options.split(' ')).chain(["smb://ann@127.0.0.1/docs"]);
        Plan::all(&Command::parse_from(words).args, "x").unwrap()
    }

    #[test]
    fn numbers_of_channels_are_measured_in_turns_and_nothing_else_is() {
        let grouped = groups(plans("--bs 4k,1m --channels 1,2,4 --runtime 8"));
        let channels: Vec<Vec<u32>> =
            grouped.iter().map(|group| group.iter().map(|it| it.channels).collect()).collect();
        assert_eq!(channels, [[1, 2, 4], [1, 2, 4]]);
        assert!(grouped.iter().all(|group| turn_of(group) == Some(Duration::from_secs(2))));
        for alone in
            ["--bs 4k,1m --runtime 8", "--channels 1,2 --number-ios 100", "--channels 1,2 --runtime 1"]
        {
            assert!(groups(plans(alone)).iter().all(|group| turn_of(group).is_none()), "{alone}");
        }
    }
}
