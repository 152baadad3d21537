//! The blocking pool: threads that start on demand, end when idle, and take tasks from one bounded queue.
//!
//! The queue is served round-robin by address: each gives one task in turn, however many of its tasks wait.
//! The last threads are reserved for addresses of which no task runs, so an address with much long work
//! delays no other.
//!
//! A task that panics is logged and affects nothing else. The connection that queued it learns of the panic
//! from the values that the task dropped. If the queue is full, the task is handed back, and the waker that
//! came with it is called once there is room.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::memory;

/// One piece of work.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The pool. Its threads hold it too, and end when it is closed.
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    work: Condvar,
    ended: Condvar,
    max_threads: usize,
    max_queue: usize,
    idle: Duration,
}

/// This fraction of the threads only takes tasks of addresses of which none runs.
const KEPT_PART: usize = 8;

/// The tasks that wait, and the number of running ones for each address.
#[derive(Default)]
struct Queue {
    /// The addresses with waiting tasks, in round-robin order.
    round_robin: VecDeque<IpAddr>,
    addresses: HashMap<IpAddr, OfAddress>,
    waiting: usize,
    running: usize,
}

/// The tasks of one address. The entry exists as long as there are any.
#[derive(Default)]
struct OfAddress {
    waiting: VecDeque<Task>,
    running: usize,
}

impl Queue {
    fn push(&mut self, from: IpAddr, task: Task) {
        let own = self.addresses.entry(from).or_default();
        if own.waiting.is_empty() {
            self.round_robin.push_back(from);
        }
        own.waiting.push_back(task);
        self.waiting += 1;
    }

    fn has(&self, from: IpAddr) -> bool {
        self.addresses.get(&from).is_some_and(|own| !own.waiting.is_empty())
    }

    /// The next task. From `shared` running tasks on, it must be of an address of which none runs.
    fn pop(&mut self, shared: usize) -> Option<(IpAddr, Task)> {
        let is_free = |from: &IpAddr| self.addresses.get(from).is_some_and(|own| own.running == 0);
        let at = if self.running < shared { 0 } else { self.round_robin.iter().position(is_free)? };
        let from = self.round_robin.remove(at)?;
        let own = self.addresses.get_mut(&from)?;
        let task = own.waiting.pop_front()?;
        own.running += 1;
        if !own.waiting.is_empty() {
            self.round_robin.push_back(from);
        }
        self.waiting -= 1;
        self.running += 1;
        Some((from, task))
    }

    fn done(&mut self, from: IpAddr) {
        self.running -= 1;
        let Some(own) = self.addresses.get_mut(&from) else { return };
        own.running -= 1;
        if own.running == 0 && own.waiting.is_empty() {
            self.addresses.remove(&from);
        }
    }

    /// Removes all waiting tasks, which will not run any more.
    fn clear(&mut self) -> Vec<Task> {
        let lost = self.addresses.values_mut().flat_map(|own| std::mem::take(&mut own.waiting)).collect();
        self.addresses.retain(|_, own| own.running > 0);
        self.round_robin.clear();
        self.waiting = 0;
        lost
    }
}

#[derive(Default)]
struct PoolState {
    queue: Queue,
    /// The wakers of connections that found the queue full.
    turned_away: Vec<Waker>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    pub(crate) fn new(max_threads: usize, max_queue: usize, idle: Duration) -> Arc<Pool> {
        Arc::new(Pool {
            state: Mutex::new(PoolState::default()),
            work: Condvar::new(),
            ended: Condvar::new(),
            max_threads: max_threads.max(1),
            max_queue: max_queue.max(1),
            idle,
        })
    }

    /// Queues `task` for a client at `from`.
    ///
    /// # Errors
    /// Hands the task back if the queue is full and already has one of the address. `waker` is called when
    /// there is room. A task for a closed pool is dropped.
    pub(crate) fn submit(self: &Arc<Pool>, from: IpAddr, task: Task, waker: &Waker) -> Result<(), Task> {
        let mut state = self.state.lock();
        if state.closed {
            return Ok(());
        }
        if state.queue.waiting >= self.max_queue && state.queue.has(from) {
            state.turned_away.push(waker.clone());
            return Err(task);
        }
        state.queue.push(from, task);
        if state.idle >= state.queue.waiting || state.threads >= self.max_threads {
            drop(state);
            self.work.notify_one();
            return Ok(());
        }
        let pool = Arc::clone(self);
        let serve = move || {
            memory::join_arena();
            pool.serve();
        };
        let spawned = std::thread::Builder::new().name("trunkline-pool".to_owned()).spawn(serve);
        match spawned {
            Ok(_) => state.threads += 1,
            Err(error) => {
                tracing::error!(%error, threads = state.threads, "no thread for the blocking pool");
                if state.threads == 0 {
                    // No thread would ever run them. Dropping them informs the connections that wait.
                    let lost = state.queue.clear();
                    drop(state);
                    drop(lost);
                }
            }
        }
        Ok(())
    }

    /// Runs tasks until the thread ends.
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some((from, task)) = state.queue.pop(self.shared_threads()) {
                let woken = if state.queue.waiting <= self.max_queue / 2 {
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
                state.queue.done(from);
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let waited = self.work.wait_for(&mut state, self.idle);
            state.idle -= 1;
            if waited.timed_out() && state.queue.waiting == 0 {
                break;
            }
        }
        state.threads -= 1;
        drop(state);
        self.ended.notify_all();
    }

    /// Number of threads that take any task.
    fn shared_threads(&self) -> usize {
        self.max_threads - self.max_threads / KEPT_PART
    }

    /// Number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.state.lock().threads
    }

    /// Drops the waiting tasks and waits up to `grace` for the running ones. Returns false if a task still
    /// runs; its thread ends with it.
    pub(crate) fn close(&self, grace: Duration) -> bool {
        let until = Instant::now() + grace;
        let mut state = self.state.lock();
        state.closed = true;
        let lost = state.queue.clear();
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

/// The message of a panic.
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

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

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
            assert!(pool.submit(HOME, task, Waker::noop()).is_ok());
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
        assert!(pool.submit(HOME, blocker, &waker).is_ok());
        assert!(running.recv().is_ok());
        assert!(pool.submit(HOME, Box::new(|| {}), &waker).is_ok());
        assert!(pool.submit(HOME, Box::new(|| {}), &waker).is_err());
        assert!(release.send(()).is_ok());
        assert!(bell.recv_timeout(Duration::from_secs(10)).is_ok());
        assert!(pool.close(Duration::from_secs(10)));
    }

    #[test]
    fn a_panic_costs_only_its_task_and_idle_threads_end() {
        let pool = Pool::new(2, 10, Duration::from_millis(1));
        let (done, result) = mpsc::channel();
        assert!(pool.submit(HOME, Box::new(|| panic!("on purpose")), Waker::noop()).is_ok());
        let task: Task = Box::new(move || {
            let _ = done.send(());
        });
        assert!(pool.submit(HOME, task, Waker::noop()).is_ok());
        assert!(result.recv_timeout(Duration::from_secs(10)).is_ok());
        let until = Instant::now() + Duration::from_secs(10);
        while pool.threads() > 0 {
            assert!(Instant::now() < until, "idle threads stay");
            std::thread::yield_now();
        }
    }

    #[test]
    fn addresses_have_their_turns_however_much_one_has_waiting() {
        let pool = Pool::new(1, 100, Duration::from_secs(10));
        let (release, gate) = mpsc::channel::<()>();
        let (done, results) = mpsc::channel();
        let (started, running) = mpsc::channel();
        let blocker: Task = Box::new(move || {
            let _ = started.send(());
            let _ = gate.recv();
        });
        assert!(pool.submit(HOME, blocker, Waker::noop()).is_ok());
        assert!(running.recv().is_ok());
        for (from, name) in [(HOME, "a1"), (HOME, "a2"), (HOME, "a3"), (OTHER, "b1"), (OTHER, "b2")] {
            let done = done.clone();
            let task: Task = Box::new(move || done.send(name).unwrap_or(()));
            assert!(pool.submit(from, task, Waker::noop()).is_ok());
        }
        assert!(release.send(()).is_ok());
        let order: Vec<&str> = (0..5).filter_map(|_| results.recv().ok()).collect();
        assert_eq!(order, ["a1", "b1", "a2", "b2", "a3"]);
        assert!(pool.close(Duration::from_secs(10)));
        assert!(pool.state.lock().queue.addresses.is_empty());
    }

    #[test]
    fn the_last_threads_and_a_place_in_the_queue_are_for_an_address_that_has_none() {
        let pool = Pool::new(8, 4, Duration::from_secs(10));
        let (done, result) = mpsc::channel();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let blocker = || -> Task {
            let gate = Arc::clone(&gate);
            Box::new(move || gate.lock().recv().unwrap_or(()))
        };
        let submit = |from, task| pool.submit(from, task, Waker::noop());
        let until = Instant::now() + Duration::from_secs(10);
        let mut given = 0;
        // Seven run, four wait.
        while given < 11 {
            given += usize::from(submit(HOME, blocker()).is_ok());
            assert!(Instant::now() < until, "the queue stays full");
        }
        assert!(submit(HOME, blocker()).is_err());
        assert!(submit(OTHER, Box::new(move || done.send(()).unwrap_or(()))).is_ok());
        assert!(result.recv_timeout(Duration::from_secs(10)).is_ok());
        while pool.state.lock().queue.running != 7 {
            assert!(Instant::now() < until, "others run than seven");
            std::thread::yield_now();
        }
        drop(release);
        assert!(pool.close(Duration::from_secs(10)));
    }
}
