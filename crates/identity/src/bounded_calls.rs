//! Calls of libraries that nothing can interrupt. Each runs on a thread of its own, and the caller waits for
//! a bounded time.

use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::Instant;

use crate::quota::{Quota, QuotaExceeded};
use crate::sync::lock;

/// A bounded number of calls at a time, with those that nobody waits for any more.
#[derive(Debug, Clone)]
pub struct BoundedCalls {
    thread_name: &'static str,
    running: Arc<RunningCalls>,
}

/// The calls that run.
#[derive(Debug)]
struct RunningCalls {
    quota: Mutex<Quota>,
    /// Notified when a call ends.
    ended: Condvar,
}

/// The reason why a call has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// As many calls run as may, or the host gives no thread.
    Busy,
    /// As many calls run for the client's address as may for one.
    BusyForAddress,
    /// The deadline came first. The call ends by itself.
    Late,
}

/// A running call. The drop of this value ends it.
struct RunningCall {
    running: Arc<RunningCalls>,
    from: Option<IpAddr>,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        lock(&self.running.quota).give_back(self.from);
        self.running.ended.notify_all();
    }
}

impl BoundedCalls {
    /// At most `limit` calls, of which the requests of one address make at most `share`.
    #[must_use]
    pub fn new(thread_name: &'static str, limit: usize, share: usize) -> BoundedCalls {
        let running = RunningCalls { quota: Mutex::new(Quota::new(limit, share)), ended: Condvar::new() };
        BoundedCalls { thread_name, running: Arc::new(running) }
    }

    /// The result of `call`, which counts for the client of the current thread's request.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallFailure> {
        self.begin(Instant::now(), deadline, call)
    }

    /// As [`Self::run`], but waits until the deadline for calls that run, where [`Self::run`] refuses.
    ///
    /// # Errors
    /// [`CallFailure`].
    pub fn run_in_turn<T: Send + 'static>(
        &self,
        deadline: Instant,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallFailure> {
        self.begin(deadline, deadline, call)
    }

    /// Takes a place, for which it waits until `place_by`.
    fn place(&self, place_by: Instant) -> Result<RunningCall, CallFailure> {
        let from = share::requester();
        let mut quota = lock(&self.running.quota);
        while let Err(exceeded) = quota.take(from) {
            let left = place_by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(match exceeded {
                    QuotaExceeded::Limit => CallFailure::Busy,
                    QuotaExceeded::Share => CallFailure::BusyForAddress,
                });
            }
            let waited = self.running.ended.wait_timeout(quota, left);
            quota = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(RunningCall { running: Arc::clone(&self.running), from })
    }

    fn begin<T: Send + 'static>(
        &self,
        place_by: Instant,
        deadline: Instant,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallFailure> {
        let running = self.place(place_by)?;
        let (send, result) = mpsc::channel();
        let work = move || {
            let value = call();
            // Whoever has the result may make the next call.
            drop(running);
            // Nobody may wait any more.
            let _ = send.send(value);
        };
        let thread = std::thread::Builder::new().name(self.thread_name.to_owned());
        thread.spawn(work).map_err(|_| CallFailure::Busy)?;
        let left = deadline.saturating_duration_since(Instant::now());
        result.recv_timeout(left).map_err(|_| CallFailure::Late)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn nobody_waits_beyond_the_deadline_and_one_address_leaves_room_for_others() {
        let calls = BoundedCalls::new("test", 4, 2);
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let hang = |from: &str| {
            let _scope = share::RequesterScope::enter(from.parse().unwrap());
            let held = Arc::clone(&held);
            calls.run(Instant::now(), move || lock(&held).recv().unwrap_or(()))
        };
        let one = "192.0.2.1";
        assert_eq!(
            [one, one, one].map(hang),
            [Err(CallFailure::Late), Err(CallFailure::Late), Err(CallFailure::BusyForAddress)]
        );
        assert_eq!(calls.run(soon(), || 7), Ok(7));
        let other = "192.0.2.2";
        assert_eq!(
            [other, other, other].map(hang),
            [Err(CallFailure::Late), Err(CallFailure::Late), Err(CallFailure::Busy)]
        );
        assert_eq!(calls.run(soon(), || 7), Err(CallFailure::Busy));
        drop(release);
        while lock(&calls.running.quota).take(None).is_err() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_call_in_turn_waits_for_those_that_run() {
        let calls = BoundedCalls::new("test", 1, 1);
        let (release, held) = mpsc::channel::<()>();
        assert_eq!(calls.run(Instant::now(), move || held.recv().is_ok()), Err(CallFailure::Late));
        assert_eq!(calls.run_in_turn(Instant::now(), || 7), Err(CallFailure::Busy));
        let waits = std::thread::scope(|scope| {
            let next = scope.spawn(|| calls.run_in_turn(soon(), || 7));
            drop(release);
            next.join().unwrap()
        });
        assert_eq!(waits, Ok(7));
    }

    #[test]
    fn a_call_that_panics_gives_its_place_back() {
        let calls = BoundedCalls::new("test", 1, 1);
        assert_eq!(calls.run(soon(), || panic!("of the test")), Err::<(), _>(CallFailure::Late));
        while calls.run(soon(), || 7) == Err(CallFailure::Busy) {
            std::thread::yield_now();
        }
    }
}
