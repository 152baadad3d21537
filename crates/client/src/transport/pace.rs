//! Limits a connection to a rate, separately in each direction. It imitates a narrow or long path, unknown to
//! the server.
//!
//! Bytes are counted when they have passed, and a wait afterwards pays for them. While the reader waits, the
//! server's data fills the buffers of the connection, and then the server's writes wait too.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

/// The time by which an idle direction may be ahead of its rate. A busy host wakes a task this late or later,
/// and a smaller value would lose the time that was overslept.
const BURST: Duration = Duration::from_millis(5);
/// The shortest wait. A wake-up has its price.
const STEP: Duration = Duration::from_micros(250);

/// The rate of a connection in bytes per second. Zero is no limit.
#[derive(Debug, Default)]
pub(crate) struct Rate(AtomicU64);

impl Rate {
    pub(crate) fn set(&self, rate: Option<u64>) {
        self.0.store(rate.unwrap_or(0), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The time at which all that has passed is paid for.
    paid: Option<Instant>,
    timer: Option<Timer>,
}

impl Pace {
    /// Waits until `bytes`, which have just passed, are within `rate`.
    pub(super) async fn after(&mut self, rate: &Rate, bytes: usize) {
        let rate = rate.get();
        if rate == 0 {
            return;
        }
        let now = Instant::now();
        let paid = self.pay(now, rate, bytes);
        if paid > now + STEP && self.sleep(paid - now).await.is_err() {
            // No descriptor is left for a timer of our own.
            tokio::time::sleep(paid - now).await;
        }
    }

    async fn sleep(&mut self, time: Duration) -> io::Result<()> {
        let timer = match &mut self.timer {
            Some(timer) => timer,
            none => none.insert(Timer::new()?),
        };
        timer.sleep(time).await
    }

    /// Counts `bytes`, and returns the time at which they are paid for.
    fn pay(&mut self, now: Instant, rate: u64, bytes: usize) -> Instant {
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let from = self.paid.map_or(earliest, |paid| paid.max(earliest));
        let paid = from + Duration::from_secs_f64(bytes as f64 / rate as f64);
        self.paid = Some(paid);
        paid
    }
}

/// A timer of the host. The runtime's timers have a resolution of a millisecond, in which a fast connection
/// carries more than is in flight on it. The runtime reads this one like a pipe.
#[derive(Debug)]
struct Timer(Receiver);

impl Timer {
    fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timer(Receiver::from_owned_fd_unchecked(timer)?))
    }

    async fn sleep(&mut self, time: Duration) -> io::Result<()> {
        let span = |time: Duration| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let once = Itimerspec { it_interval: span(Duration::ZERO), it_value: span(time) };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        // The number of expirations, which is one.
        self.0.read_exact(&mut [0; 8]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_costs_its_time_and_only_a_little_is_saved_up() {
        let (start, mut pace) = (Instant::now() + Duration::from_secs(60), Pace::default());
        let second = Duration::from_secs(1);
        // A thousand bytes at a thousand for each second.
        assert_eq!(pace.pay(start, 1000, 1000), start + second - BURST);
        assert_eq!(pace.pay(start, 1000, 500), start + second - BURST + second / 2);
        // Waiting too long is made up for, but a long rest is not.
        let late = start + second + second / 2;
        assert_eq!(pace.pay(late, 1000, 500), late - BURST + second / 2);
        let later = late + 60 * second;
        assert_eq!(pace.pay(later, 1000, 500), later - BURST + second / 2);
    }

    #[tokio::test]
    async fn a_direction_waits_until_its_bytes_are_paid_for() {
        let (rate, mut pace) = (Rate::default(), Pace::default());
        let start = Instant::now();
        pace.after(&rate, 1 << 40).await;
        rate.set(Some(1_000_000));
        for _ in 0..20 {
            pace.after(&rate, 1000).await;
        }
        assert!(start.elapsed() >= Duration::from_millis(20) - BURST - STEP);
    }
}
