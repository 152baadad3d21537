//! The blocking pool: threads that grow on demand, idle out, and take tasks from one bounded queue.
//!
//! A task that panics is logged and costs nothing but itself; whoever queued it learns of it from what
//! the task dropped. When the queue is full the task is handed back, and the waker that came with it is
//! called once there is room.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// One piece of work.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The pool; threads hold it too, and end when it is closed.
pub(crate) struct Pool {
    state: Mutex<State>,
    work: Condvar,
    ended: Condvar,
    max_threads: usize,
    max_queue: usize,
    idle: Duration,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Task>,
    /// Who was turned away and wants to hear of room.
    turned_away: Vec<Waker>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    pub(crate) fn new(max_threads: usize, max_queue: usize, idle: Duration) -> Arc<Pool> {
        Arc::new(Pool {
            state: Mutex::new(State::default()),
            work: Condvar::new(),
            ended: Condvar::new(),
            max_threads: max_threads.max(1),
            max_queue: max_queue.max(1),
            idle,
        })
    }

    /// Queues `task`.
    ///
    /// # Errors
    /// Hands the task back when the queue is full; `waker` is woken when there is room. A task for a
    /// closed pool is dropped.
    pub(crate) fn submit(self: &Arc<Pool>, task: Task, waker: &Waker) -> Result<(), Task> {
        let mut state = self.state.lock();
        if state.closed {
            return Ok(());
        }
        if state.queue.len() >= self.max_queue {
            state.turned_away.push(waker.clone());
            return Err(task);
        }
        state.queue.push_back(task);
        if state.idle >= state.queue.len() || state.threads >= self.max_threads {
            drop(state);
            self.work.notify_one();
            return Ok(());
        }
        let pool = Arc::clone(self);
        let spawned =
            std::thread::Builder::new().name("trunkline-pool".to_owned()).spawn(move || pool.serve());
        match spawned {
            Ok(_) => state.threads += 1,
            Err(error) => {
                tracing::error!(%error, threads = state.threads, "no thread for the blocking pool");
                if state.threads == 0 {
                    // Nobody would ever run them; dropping tells those who wait.
                    let lost = std::mem::take(&mut state.queue);
                    drop(state);
                    drop(lost);
                }
            }
        }
        Ok(())
    }

    /// A thread's life.
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.queue.pop_front() {
                let woken = if state.queue.len() <= self.max_queue / 2 {
                    std::mem::take(&mut state.turned_away)
                } else {
                    Vec::new()
                };
                drop(state);
                woken.into_iter().for_each(Waker::wake);
                if let Err(panic) = catch_unwind(AssertUnwindSafe(task)) {
                    tracing::error!(reason = reason(&*panic), "a job panicked");
                }
                state = self.state.lock();
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let waited = self.work.wait_for(&mut state, self.idle);
            state.idle -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        drop(state);
        self.ended.notify_all();
    }

    /// Threads that exist now.
    pub(crate) fn threads(&self) -> usize {
        self.state.lock().threads
    }

    /// Drops what is queued and waits up to `grace` for what runs. False when something still runs; its
    /// thread ends with it.
    pub(crate) fn close(&self, grace: Duration) -> bool {
        let until = Instant::now() + grace;
        let mut state = self.state.lock();
        state.closed = true;
        let lost = std::mem::take(&mut state.queue);
        drop(state);
        drop(lost);
        self.work.notify_all();
        let mut state = self.state.lock();
        while state.threads > 0 {
            if self.ended.wait_until(&mut state, until).timed_out() {
                return state.threads == 0;
            }
        }
        true
    }
}

/// What a panic said.
pub(crate) fn reason(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::task::Wake;

    struct Bell(mpsc::Sender<()>);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn threads_grow_with_blocked_tasks_up_to_the_bound() {
        let pool = Pool::new(3, 100, Duration::from_secs(10));
        let gate = Arc::new(std::sync::Barrier::new(4));
        let (done, results) = mpsc::channel();
        for number in 0..6 {
            let (gate, done) = (Arc::clone(&gate), done.clone());
            let task: Task = Box::new(move || {
                if number < 3 {
                    gate.wait();
                }
                let _ = done.send(number);
            });
            assert!(pool.submit(task, Waker::noop()).is_ok());
        }
        assert_eq!(pool.threads(), 3);
        assert!(results.try_recv().is_err());
        gate.wait();
        let mut all: Vec<i32> = (0..6).map(|_| results.recv().unwrap_or(-1)).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
        assert!(pool.close(Duration::from_secs(10)));
    }

    #[test]
    fn a_full_queue_hands_back_and_rings_when_there_is_room() {
        let pool = Pool::new(1, 1, Duration::from_secs(10));
        let (started, running) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let blocker: Task = Box::new(move || {
            let _ = started.send(());
            let _ = gate.recv();
        });
        let (ring, bell) = mpsc::channel();
        let waker = Waker::from(Arc::new(Bell(ring)));
        assert!(pool.submit(blocker, &waker).is_ok());
        assert!(running.recv().is_ok());
        assert!(pool.submit(Box::new(|| {}), &waker).is_ok());
        assert!(pool.submit(Box::new(|| {}), &waker).is_err());
        assert!(release.send(()).is_ok());
        assert!(bell.recv_timeout(Duration::from_secs(10)).is_ok());
        assert!(pool.close(Duration::from_secs(10)));
    }

    #[test]
    fn a_panic_costs_only_its_task_and_idle_threads_end() {
        let pool = Pool::new(2, 10, Duration::from_millis(1));
        let (done, result) = mpsc::channel();
        assert!(pool.submit(Box::new(|| panic!("on purpose")), Waker::noop()).is_ok());
        let task: Task = Box::new(move || {
            let _ = done.send(());
        });
        assert!(pool.submit(task, Waker::noop()).is_ok());
        assert!(result.recv_timeout(Duration::from_secs(10)).is_ok());
        let until = Instant::now() + Duration::from_secs(10);
        while pool.threads() > 0 {
            assert!(Instant::now() < until, "idle threads stay");
            std::thread::yield_now();
        }
    }
}
