//! The start times of operations: planned in advance, or limited to a number a second.
//!
//! With planned starts each job begins a fixed number of operations a second, whether or not earlier ones
//! are done. A generator that waits for one reply before it begins the next operation leaves out exactly the
//! operations that a slow server would delay. Here each operation has a planned start that does not move,
//! and its latency counts from that time.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::unix::AsyncFd;

use crate::measure::MeasurementWindow;

const SECOND: u128 = 1_000_000_000;

/// The planned starts of all jobs.
#[derive(Debug)]
pub(crate) struct ArrivalSchedule {
    /// Operations a second of each job.
    rate: u32,
    /// The number of starts that were handed out, for each job.
    given: Vec<AtomicU64>,
}

impl ArrivalSchedule {
    pub(crate) fn new(rate: u32, jobs: u32) -> ArrivalSchedule {
        ArrivalSchedule { rate, given: (0..jobs).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The planned start of the next operation of `job`, as a time after the start of the load.
    pub(crate) fn next(&self, job: u32) -> Duration {
        let number = self.given[job as usize].fetch_add(1, Ordering::Relaxed);
        self.first(job) + nanoseconds(u128::from(number) * SECOND / u128::from(self.rate))
    }

    /// The start of a job's first operation. Jobs do not all start at once.
    fn first(&self, job: u32) -> Duration {
        nanoseconds(SECOND * u128::from(job) / (u128::from(self.rate) * self.given.len() as u128))
    }

    /// The number of operations of all jobs with a planned start within the first `time`.
    pub(crate) fn planned_within(&self, time: Duration) -> u64 {
        let of_job = |job: u32| {
            let time = time.saturating_sub(self.first(job)).as_nanos();
            (time * u128::from(self.rate)).div_ceil(SECOND) as u64
        };
        (0..self.given.len() as u32).map(of_job).sum()
    }
}

fn nanoseconds(count: u128) -> Duration {
    Duration::from_nanos(u64::try_from(count).unwrap_or(u64::MAX))
}

/// The interval at which a waiting operation checks whether the measurement has ended.
const GLANCE: Duration = Duration::from_millis(100);

/// Waits for points in time, much more exactly than the runtime with its resolution of a millisecond.
#[derive(Debug)]
pub(crate) enum Timer {
    /// For a thread that does one thing at a time.
    Thread,
    /// For a thread that does many things.
    Descriptor(AsyncFd<OwnedFd>),
    /// For waits that need no more precision than a millisecond.
    Runtime,
}

/// The rule by which operations wait before they begin.
#[derive(Debug)]
pub(crate) enum Pacing<'a> {
    /// The next planned start of the job. The latency counts from there.
    Planned { pace: &'a ArrivalSchedule, job: u32, timer: Timer },
    /// The limit of operations a second.
    Bounded(&'a Bound),
}

/// A limit of operations that begin in a second.
#[derive(Debug)]
pub(crate) struct Bound {
    next: Mutex<Instant>,
    step: Duration,
}

impl Bound {
    pub(crate) fn new(most_per_s: f64) -> Bound {
        let step = Duration::from_secs_f64(1.0 / most_per_s.max(0.01));
        Bound { next: Mutex::new(Instant::now()), step }
    }

    fn next(&self) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = (*next).max(Instant::now());
        *next = begin + self.step;
        begin
    }
}

impl Pacing<'_> {
    /// Waits until an operation may begin, and returns that time. `None` if it is too late for one.
    pub(crate) async fn next(&self, window: &MeasurementWindow) -> io::Result<Option<Instant>> {
        let (begin, timer) = match self {
            Pacing::Planned { pace, job, timer } => (window.start() + pace.next(*job), timer),
            Pacing::Bounded(bound) => (bound.next(), &Timer::Runtime),
        };
        if window.is_over(begin) {
            return Ok(None);
        }
        timer.until(begin, window).await?;
        let now = Instant::now();
        let begin = if matches!(self, Pacing::Planned { .. }) { begin } else { now };
        Ok(Some(begin).filter(|_| !window.is_over(now)))
    }
}

impl Timer {
    /// A timer for a task of a runtime that can wait for descriptors.
    #[allow(
        deprecated,
        reason = "what takes its place is unsafe, and an owned descriptor keeps what that asks for"
    )]
    pub(crate) fn descriptor() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timer::Descriptor(AsyncFd::new(timer)?))
    }

    /// Waits until `then`, or until the window has ended.
    pub(crate) async fn until(&self, then: Instant, window: &MeasurementWindow) -> io::Result<()> {
        loop {
            let now = Instant::now();
            let left = then.saturating_duration_since(now).min(GLANCE);
            if left.is_zero() || window.is_over(now) {
                return Ok(());
            }
            match self {
                Timer::Thread => thread::sleep(left),
                Timer::Descriptor(timer) => wait(timer, left).await?,
                Timer::Runtime => tokio::time::sleep(left).await,
            }
        }
    }
}

async fn wait(timer: &AsyncFd<OwnedFd>, time: Duration) -> io::Result<()> {
    let it_value = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    rustix::time::timerfd_settime(timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
    loop {
        let mut ready = timer.readable().await?;
        let read = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut [0; 8])?));
        if let Ok(read) = read {
            return read.map(drop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_are_even_and_jobs_take_turns() {
        let pace = ArrivalSchedule::new(1000, 2);
        let first: Vec<_> = (0..3).map(|_| pace.next(0).as_micros()).collect();
        let second: Vec<_> = (0..3).map(|_| pace.next(1).as_micros()).collect();
        assert_eq!((first, second), (vec![0, 1000, 2000], vec![500, 1500, 2500]));
    }

    #[tokio::test]
    async fn a_turn_that_waits_is_let_go_at_the_end_and_one_that_comes_later_does_not_wait() {
        let (begun, hour) = (Instant::now(), Duration::from_secs(3600));
        let bound = Bound { next: Mutex::new(begun), step: hour };
        let (pacing, window) = (Pacing::Bounded(&bound), MeasurementWindow::opened_later(2 * hour));
        assert!(pacing.next(&window).await.unwrap().is_some());
        let ending = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            window.stop();
        };
        let (waited, ()) = tokio::join!(pacing.next(&window), ending);
        assert!(waited.unwrap().is_none() && pacing.next(&window).await.unwrap().is_none());
        assert!(begun.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn as_many_are_planned_as_begin() {
        for (rate, jobs, time) in [(1000, 2, 2001), (3, 1, 10_000), (7, 3, 1234), (1, 5, 0)] {
            let pace = ArrivalSchedule::new(rate, jobs);
            let time = Duration::from_millis(time);
            let begun = |job| std::iter::repeat_with(|| pace.next(job)).take_while(|at| *at < time).count();
            let begun: usize = (0..jobs).map(begun).sum();
            assert_eq!(pace.planned_within(time), begun as u64, "{rate} {jobs} {time:?}");
        }
    }

    #[test]
    fn a_timer_waits_as_long_as_it_must_and_not_for_what_is_over() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let window = MeasurementWindow::new(Duration::ZERO, None, None);
            let begin = Instant::now();
            window.begin(begin);
            for timer in [Timer::Thread, Timer::descriptor().unwrap()] {
                let then = Instant::now() + Duration::from_micros(300);
                timer.until(then, &window).await.unwrap();
                assert!(Instant::now() >= then);
            }
            window.stop();
            Timer::Thread.until(begin + Duration::from_secs(3600), &window).await.unwrap();
        });
    }
}
