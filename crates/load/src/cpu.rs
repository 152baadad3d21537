//! Processor time of a process with all its threads and children, in nanoseconds, from Linux's /proc.

use std::fs;

/// The time that `pid`, its threads, and the processes it started have run. Those that have ended are not
/// counted.
///
/// # Errors
/// When there is no such process, or the kernel keeps no such account.
pub(crate) fn of_tree(pid: u32) -> Result<u64, String> {
    let mut total = 0;
    let mut left = vec![pid];
    while let Some(pid) = left.pop() {
        let tasks = match fs::read_dir(format!("/proc/{pid}/task")) {
            Ok(tasks) => tasks,
            // A child may end between being listed and being read; the process that was asked for may not.
            Err(_) if total > 0 => continue,
            Err(why) => return Err(format!("process {pid}: {why}")),
        };
        for task in tasks.flatten() {
            let path = task.path();
            let read = |name: &str| fs::read_to_string(path.join(name));
            let Ok(statistics) = read("schedstat") else { continue };
            total += statistics.split(' ').next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
            let children = read("children").unwrap_or_default();
            left.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    if total == 0 { Err(format!("process {pid}: this kernel does not count its time")) } else { Ok(total) }
}

/// The time that this process has run.
pub(crate) fn own() -> Result<u64, String> {
    of_tree(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_the_account() {
        let before = own().unwrap();
        // The kernel brings the account up to date at every tick; many ticks' worth of work is enough.
        let mut sum = 0u64;
        let shows = (0..10_000).any(|_| {
            sum = (0..100_000u64).fold(sum, |sum, at| std::hint::black_box(sum.wrapping_mul(31) ^ at));
            own().unwrap() > before
        });
        assert!(shows, "{sum}");
        assert!(of_tree(u32::MAX).is_err());
    }
}
