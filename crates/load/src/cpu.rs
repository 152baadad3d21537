//! Processor time of a process with its children, from Linux's /proc.
//!
//! The account of a process covers all its threads, including those that have ended, in steps of a clock
//! tick (10 ms). So a measurement should last seconds.

use std::collections::HashMap;
use std::fs;

use serde::{Deserialize, Serialize};

/// The run time of each process of a tree, in clock ticks.
#[derive(Debug, Clone, Default)]
pub struct Account(HashMap<u32, u64>);

impl Account {
    /// The account of `pid` and of all its descendants.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn of_tree(pid: u32) -> Result<Account, String> {
        let mut account = HashMap::from([(pid, ticks(pid)?)]);
        let mut left = vec![pid];
        while let Some(parent) = left.pop() {
            for child in children(parent) {
                // A child may end between the listing and the read.
                if let Ok(ticks) = ticks(child)
                    && account.insert(child, ticks).is_none()
                {
                    left.push(child);
                }
            }
        }
        Ok(Account(account))
    }

    /// The account of this process alone.
    ///
    /// # Errors
    /// If the host does not tell it.
    pub fn own() -> Result<Account, String> {
        let pid = std::process::id();
        Ok(Account(HashMap::from([(pid, ticks(pid)?)])))
    }

    /// Nanoseconds that were spent since `before`. Processes that ended meanwhile do not count.
    #[must_use]
    pub fn since(&self, before: &Account) -> u64 {
        let spent =
            |(pid, ticks): (&u32, &u64)| ticks.saturating_sub(before.0.get(pid).copied().unwrap_or(0));
        let ticks: u64 = self.0.iter().map(spent).sum();
        ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second())
    }
}

/// Nanoseconds that this process has run outside of the kernel.
pub fn own_user_ns() -> Option<u64> {
    let (user, _) = user_and_system(std::process::id()).ok()?;
    Some(user * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

fn ticks(pid: u32) -> Result<u64, String> {
    user_and_system(pid).map(|(user, system)| user + system)
}

/// User and system time of a process (proc(5), fields 14 and 15 of stat).
fn user_and_system(pid: u32) -> Result<(u64, u64), String> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|why| format!("process {pid}: {why}"))?;
    // The name in field 2 may contain anything, including blanks and brackets.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, behind)| behind).split_whitespace().skip(11);
    let mut next = || fields.next().and_then(|field| field.parse::<u64>().ok());
    next().zip(next()).ok_or_else(|| format!("process {pid}: its account cannot be read"))
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists =
        tasks.flatten().map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|it| it.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// The work of each processor of this host, in clock ticks: in user mode, in the kernel, in all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage(
    /// For each processor.
    pub Vec<[u64; 3]>,
);

impl Usage {
    /// The counts so far. Empty if the host does not tell them.
    pub fn read() -> Usage {
        Usage::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The lines `cpuN` (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(stat: &str) -> Usage {
        let processor = |line: &str| {
            let fields =
                line.strip_prefix("cpu")?.split_once(' ').filter(|(number, _)| !number.is_empty())?.1;
            let ticks: Vec<u64> =
                fields.split_whitespace().take(8).filter_map(|it| it.parse().ok()).collect();
            let user = ticks.first()? + ticks.get(1)?;
            let idle = ticks.get(3)? + ticks.get(4)?;
            let all: u64 = ticks.iter().sum();
            Some([user, all - user - idle, all])
        };
        Usage(stat.lines().filter_map(processor).collect())
    }

    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Usage) -> Usage {
        let less = |(after, before): (&[u64; 3], &[u64; 3])| {
            std::array::from_fn(|at| after[at].saturating_sub(before[at]))
        };
        Usage(self.0.iter().zip(&before.0).map(less).collect())
    }

    /// Ticks in which the processors were busy, and all their ticks.
    pub(crate) fn sum(&self) -> (u64, u64) {
        self.0.iter().fold((0, 0), |sum, it| (sum.0 + it[0] + it[1], sum.1 + it[2]))
    }

    /// The idle part of all processors. 1 if the host does not tell it.
    #[must_use]
    pub fn idle(&self) -> f64 {
        let (busy, all) = self.sum();
        if all == 0 { 1.0 } else { 1.0 - busy as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn work_shows_in_the_account() {
        let before = Account::own().unwrap();
        let mut sum = 0u64;
        let shows = (0..10_000).any(|_| {
            sum = (0..100_000u64).fold(sum, |sum, at| std::hint::black_box(sum.wrapping_mul(31) ^ at));
            Account::own().unwrap().since(&before) > 0
        });
        assert!(shows, "{sum}");
        assert!(Account::of_tree(u32::MAX).is_err());
    }

    #[test]
    fn processors_are_told_apart() {
        let usage =
            Usage::parse("cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 0 0 0 7 0 0 0 0\nintr 5\n");
        assert_eq!(usage, Usage(vec![[3, 24, 36], [0, 0, 7]]));
        assert_eq!(usage.since(&usage), Usage(vec![[0; 3]; 2]));
    }

    #[test]
    fn children_count_and_those_that_are_gone_take_nothing_away() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let before = Account::of_tree(std::process::id()).unwrap();
        assert!(before.0.contains_key(&child.id()));
        let with_work = Account(before.0.keys().map(|pid| (*pid, 1_000_000)).collect());
        assert!(with_work.since(&before) > with_work.since(&with_work));
        drop(child.stdin.take());
        child.wait().unwrap();
        let after = Account::of_tree(std::process::id()).unwrap();
        assert!(!after.0.contains_key(&child.id()));
        assert_eq!(Account::default().since(&before), 0);
    }
}
