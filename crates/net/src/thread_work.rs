//! The work of a thread while time passed: it ran, it waited for something, or a busy host made it wait for a
//! processor.
//!
//! [`crate::offload`] needs this, since only a batch that runs or waits for long delays other connections. A
//! batch during which the host ran other programs is not slow, and would be no faster on the pool.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread::LocalKey;

thread_local! {
    /// The file with the time for which this thread was ready but had no processor (proc(5), schedstat). None
    /// if the host has no such file.
    static SCHEDULING: Option<File> = File::open("/proc/thread-self/schedstat").ok();
    /// The file with the idle time of the host's processors (proc(5)).
    static UPTIME: Option<File> = File::open("/proc/uptime").ok();
}

/// The work of a thread up to some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ThreadWork {
    /// Processor time (ns).
    pub(crate) cpu_ns: u64,
    /// How often it gave up its processor to wait for something.
    pub(crate) waits: u64,
    /// The time for which it was ready while others had the processors (ns), as far as the host reports it.
    pub(crate) put_aside_ns: u64,
    /// Number of files that were read for this.
    pub(crate) reads: u64,
    /// Bytes that were read from them.
    pub(crate) read_bytes: u64,
}

/// The longest line that is read.
const LINE: usize = 64;

/// Reads the line that a file holds now. Returns its length.
fn line(file: &'static LocalKey<Option<File>>, text: &mut [u8; LINE]) -> Option<usize> {
    file.try_with(|file| file.as_ref()?.read_at(text, 0).ok()).ok().flatten()
}

/// Reads one number from such a line.
fn read(file: &'static LocalKey<Option<File>>, number: impl FnOnce(&[u8]) -> Option<u64>) -> Option<u64> {
    let mut text = [0; LINE];
    let len = line(file, &mut text)?;
    text.get(..len).and_then(number)
}

/// The second of three numbers: nanoseconds for which a thread was ready and did not run.
fn put_aside(scheduling: &[u8]) -> Option<u64> {
    std::str::from_utf8(scheduling).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The second number, in seconds and hundredths, converted to nanoseconds. None if it is zero, which means no
/// count.
fn idle(uptime: &[u8]) -> Option<u64> {
    let (seconds, hundredths) =
        std::str::from_utf8(uptime).ok()?.split_ascii_whitespace().nth(1)?.split_once('.')?;
    let idle_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    let idle_ns = idle_ns.checked_add(hundredths.parse::<u64>().ok()?.checked_mul(10_000_000)?)?;
    (idle_ns > 0).then_some(idle_ns)
}

/// The sum of the idle time of the host's processors (ns, in steps of 10 ms). None if the host does not
/// report it.
pub(crate) fn idle_ns() -> Option<u64> {
    read(&UPTIME, idle)
}

/// The time for which the calling thread was ready while others had the processors (ns). None if the host
/// does not report it.
pub(crate) fn put_aside_ns() -> Option<u64> {
    read(&SCHEDULING, put_aside)
}

/// The processor time of the calling thread (ns).
pub(crate) fn cpu_ns() -> u64 {
    let worked = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    worked.tv_sec.max(0) as u64 * 1_000_000_000 + worked.tv_nsec.max(0) as u64
}

impl ThreadWork {
    /// The values of the calling thread.
    pub(crate) fn now() -> ThreadWork {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the host writes one `rusage`, for which there is room; any bytes of it are a valid value.
        #[allow(unsafe_code)]
        let usage = unsafe {
            // It cannot fail with these arguments; otherwise the zeros would remain, which mean no work. Its
            // processor time is not usable here: it stands still between two ticks, of 4 ms with HZ=250, and
            // then jumps.
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        let cpu_ns = cpu_ns();
        let mut text = [0; LINE];
        let read = line(&SCHEDULING, &mut text);
        let len = read.unwrap_or(0);
        ThreadWork {
            cpu_ns,
            waits: usage.ru_nvcsw.max(0) as u64,
            // Zero, which means never, if the host does not report it.
            put_aside_ns: text.get(..len).and_then(put_aside).unwrap_or(0),
            reads: u64::from(read.is_some()),
            read_bytes: len as u64,
        }
    }

    /// The work since `before`, and the reads for both values.
    pub(crate) fn since(self, before: ThreadWork) -> ThreadWork {
        ThreadWork {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waits: self.waits.saturating_sub(before.waits),
            put_aside_ns: self.put_aside_ns.saturating_sub(before.put_aside_ns),
            reads: self.reads + before.reads,
            read_bytes: self.read_bytes + before.read_bytes,
        }
    }

    /// Whether the thread ran for at least `work_ns` of the `took_ns` that passed, or gave up its processor
    /// and waited for at least `wait_ns`. The time for which it was ready without a processor does not count:
    /// on a busy host a short wait for another thread takes long.
    pub(crate) fn exceeds(self, work_ns: u64, wait_ns: u64, took_ns: u64) -> bool {
        let waited_ns = took_ns.saturating_sub(self.cpu_ns).saturating_sub(self.put_aside_ns);
        self.cpu_ns >= work_ns || (self.waits > 0 && waited_ns >= wait_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn work_shows_between_two_ticks_of_the_host() {
        // Measured within a second of work: only a clock that runs all the time shows steps shorter than a
        // tick.
        let mut shortest = u64::MAX;
        let began = ThreadWork::now();
        let mut last = began;
        while last.since(began).cpu_ns < 1_000_000_000 && shortest >= 1_000_000 {
            let now = ThreadWork::now();
            if now.cpu_ns > last.cpu_ns {
                shortest = shortest.min(now.since(last).cpu_ns);
            }
            last = now;
        }
        assert!(shortest < 1_000_000, "{shortest} ns");
    }

    #[test]
    fn what_the_host_says_of_a_ready_thread_is_read() {
        assert_eq!(put_aside(b"19084733 1294021 41\n"), Some(1_294_021));
        assert_eq!((put_aside(b""), put_aside(b"0")), (None, None));
        let told = std::fs::read("/proc/thread-self/schedstat").is_ok_and(|line| put_aside(&line).is_some());
        assert_eq!(SCHEDULING.with(Option::is_some), told);
        // A count of all reads of this thread can leave this out.
        let (one, other) = (ThreadWork::now(), ThreadWork::now());
        assert_eq!((one.reads, one.read_bytes > 0), (u64::from(told), told));
        let both = other.since(one);
        assert_eq!((both.reads, both.read_bytes), (2 * one.reads, one.read_bytes + other.read_bytes));
    }

    #[test]
    fn what_the_host_says_of_idle_processors_is_read() {
        assert_eq!(idle(b"7483.20 12043.07\n"), Some(12_043_070_000_000));
        assert_eq!((idle(b""), idle(b"7483.20 0.00\n"), idle(b"7483.20 x")), (None, None, None));
        assert_eq!(UPTIME.with(Option::is_some), std::fs::exists("/proc/uptime").is_ok_and(|there| there));
    }

    #[test]
    fn a_short_wait_during_which_others_had_the_processor_is_not_long() {
        let waited = ThreadWork { cpu_ns: 5, waits: 1, put_aside_ns: 80, ..ThreadWork::default() };
        assert!(!waited.exceeds(10, 20, 100), "it waited for 15");
        assert!(waited.exceeds(10, 20, 105));
    }

    #[test]
    fn waiting_shows_and_so_does_work() {
        let before = ThreadWork::now();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            let before = ThreadWork::now();
            let _ = receiver.recv();
            ThreadWork::now().since(before)
        });
        let began = Instant::now();
        let mut sum = 0u64;
        // The bound is work done, not elapsed time alone: a busy host lets time pass without a processor.
        while ThreadWork::now().since(before).cpu_ns < 20_000_000 && began.elapsed() < Duration::from_secs(60)
        {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        drop(sender);
        let waited = waiting.join().expect("it only waits");
        assert!(waited.waits > 0, "{waited:?}");
        let busy_ns = waited.cpu_ns + waited.put_aside_ns;
        assert!(waited.exceeds(u64::MAX, 10, busy_ns + 10), "{waited:?}");
        assert!(!waited.exceeds(u64::MAX, 10, busy_ns + 9), "{waited:?}");
        let worked = ThreadWork::now().since(before);
        assert!(ThreadWork { waits: 0, ..worked }.exceeds(10_000_000, 1, u64::MAX), "{worked:?}");
        assert!(
            !ThreadWork { cpu_ns: 10, ..ThreadWork::default() }.exceeds(11, 1, u64::MAX),
            "only put aside"
        );
    }
}
