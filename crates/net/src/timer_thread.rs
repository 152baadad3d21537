//! A thread that calls a function at a time that can be moved earlier. It serves work that belongs to no
//! connection and must not wait for the next tick of a timer.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use wire::Now;

use crate::clock;

/// The shortest time between two calls. Everything that becomes due within it is done together.
const GRAIN_NS: u64 = 250_000;
/// The longest sleep. After it the thread wakes for nothing and sleeps again.
const LONGEST_NS: u64 = 3600 * 1_000_000_000;

#[derive(Default)]
struct TimerSetting {
    /// The time of the next call (monotonic ns).
    at_ns: Option<u64>,
    ends: bool,
}

#[derive(Default)]
struct TimerShared {
    state: Mutex<TimerSetting>,
    changed: Condvar,
}

/// The handle of the thread, which ends when this is dropped.
pub struct TimerThread {
    shared: Arc<TimerShared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for TimerThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimerThread").finish_non_exhaustive()
    }
}

impl TimerThread {
    /// Starts a thread that calls `ring`. The result of `ring` is the time of the next call, if there is one.
    ///
    /// # Errors
    /// The host has no thread left.
    pub fn start(ring: impl FnMut(Now) -> Option<u64> + Send + 'static) -> std::io::Result<TimerThread> {
        let shared = Arc::new(TimerShared::default());
        let own = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("trunkline-alarm".to_owned()).spawn(move || own.run(ring))?;
        Ok(TimerThread { shared, thread: Some(thread) })
    }

    /// Asks for a call at this time (monotonic ns) or soon after, unless an earlier one is set.
    pub fn set(&self, at_ns: u64) {
        let mut state = self.shared.state.lock();
        if state.at_ns.is_none_or(|set| at_ns < set) {
            state.at_ns = Some(at_ns);
            drop(state);
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for TimerThread {
    fn drop(&mut self) {
        self.shared.state.lock().ends = true;
        self.shared.changed.notify_one();
        // The thread itself may drop the last reference.
        let is_elsewhere = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(is_elsewhere) {
            // The thread holds nothing to release, and nobody is left to handle a panic.
            let _ = thread.join();
        }
    }
}

impl TimerShared {
    fn run(&self, mut ring: impl FnMut(Now) -> Option<u64>) {
        let mut earliest_ns = 0;
        let mut state = self.state.lock();
        while !state.ends {
            let now_ns = clock::mono_ns();
            let at_ns = state.at_ns.map(|at_ns| at_ns.max(earliest_ns));
            match at_ns {
                None => self.changed.wait(&mut state),
                Some(at_ns) if at_ns > now_ns => {
                    let left = Duration::from_nanos((at_ns - now_ns).min(LONGEST_NS));
                    self.changed.wait_for(&mut state, left);
                }
                Some(_) => {
                    state.at_ns = None;
                    drop(state);
                    earliest_ns = now_ns + GRAIN_NS;
                    let next = ring(clock::now());
                    state = self.state.lock();
                    state.at_ns = state.at_ns.into_iter().chain(next).min();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn it_rings_when_it_was_set_to_and_then_as_it_is_told() {
        let (rang, rings) = channel();
        let mut again = true;
        let alarm = TimerThread::start(move |now| {
            rang.send(now.mono_ns).expect("somebody listens");
            std::mem::take(&mut again).then_some(now.mono_ns + 2_000_000)
        })
        .expect("a thread");
        let now = clock::mono_ns();
        alarm.set(now + LONGEST_NS);
        alarm.set(now + 3_000_000);
        alarm.set(now + 60_000_000_000);
        let patience = Duration::from_secs(30);
        let first = rings.recv_timeout(patience).expect("it rings");
        assert!(first >= now + 3_000_000);
        let second = rings.recv_timeout(patience).expect("it rings again");
        assert!(second >= first + 2_000_000);
        drop(alarm);
        assert!(rings.recv().is_err(), "no more than it was told");
    }
}
