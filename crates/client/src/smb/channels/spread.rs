//! Decides over how many channels the requests are spread: as many as make them faster, and no more.
//!
//! One connection is the cheapest way to carry requests. Pending requests share system calls, and one queue
//! keeps one core warm. More connections are faster if a connection is limited by its path, by a queue of a
//! network interface or by the server's core that serves it. A client cannot see this, so it tries. For a
//! moment it uses more or fewer channels, and it stays with the number that moved more, or as much with
//! fewer.
//!
//! [`Spread`] has two [`Tuner`]s, because the answer depends on the amount in flight. Small amounts begin
//! with one channel, large amounts with all of them. A tuner measures in windows. [`Judge`] draws the
//! conclusions and knows no clock.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The bytes in flight on one channel from which the amount counts as large.
const MUCH: u64 = 256 * 1024;
/// The bytes that a request counts beside its own. Small requests cost by number.
const REQUEST: u64 = 4096;
/// The shortest window.
const WINDOW: Duration = Duration::from_millis(20);
/// A window lasts at least until this many times the requests that were in flight at its start are done, so
/// that it measures its own requests.
const TURNS: u64 = 8;
/// With fewer channels this many times is enough to see that they move far less, which is less than this part
/// of the rate with all channels. The rest of the window would only cost.
const FEW_TURNS: u64 = 2;
const FAR_LESS: f64 = 0.85;
/// With fewer channels this part of the rate is enough.
const KEPT: f64 = 0.95;
/// The number of times in a row that a trial must win.
const WINS: u32 = 3;
/// The number of windows in which a change must prove itself.
const PROBATION: u32 = 4;
/// The most windows between two trials.
const SELDOM: u32 = 1024;

/// The parameters of trials.
#[derive(Debug, Clone, Copy)]
struct TrialParameters {
    /// More channels must move this many times as much to be worth it.
    gain: f64,
    /// The windows between two trials at first. Each failure doubles them.
    soon: u32,
}

const WITH_MUCH: TrialParameters = TrialParameters { gain: 1.15, soon: 4 };
/// A small amount must be limited by its path. A second core of the server that makes it a little faster is
/// not worth the system calls, and a trial costs some too.
const WITH_LITTLE: TrialParameters = TrialParameters { gain: 1.5, soon: 16 };

/// Decides how many channels are used.
#[derive(Debug)]
pub(super) struct Spread {
    little: Tuner,
    much: Tuner,
}

impl Default for Spread {
    /// The spread of a session with one channel.
    fn default() -> Spread {
        Spread { little: Tuner::new(1, 1, WITH_LITTLE), much: Tuner::new(1, 1, WITH_MUCH) }
    }
}

impl Spread {
    /// Begins anew with this number of channels.
    pub(super) fn resize(&self, channels: usize) {
        self.little.restart(1, channels);
        self.much.restart(channels.max(1), channels);
    }

    /// The tuner for a request with which one channel would have `outstanding` bytes in flight.
    pub(super) fn tuner(&self, outstanding: u64) -> &Tuner {
        if outstanding < MUCH { &self.little } else { &self.much }
    }
}

/// Counts requests of one kind and decides how many channels they use.
#[derive(Debug)]
pub(super) struct Tuner {
    width: AtomicUsize,
    under_way: AtomicU64,
    /// Whether no request was in flight at some moment of this window. Its rate is then that of the caller.
    rested: AtomicBool,
    done: AtomicU64,
    moved: AtomicU64,
    /// The number of completed requests from which the clock is read.
    due: AtomicU64,
    judge: Mutex<(Judge, Option<Instant>)>,
}

impl Tuner {
    fn new(width: usize, channels: usize, manner: TrialParameters) -> Tuner {
        Tuner {
            width: AtomicUsize::new(width),
            under_way: AtomicU64::new(0),
            rested: AtomicBool::new(true),
            done: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            due: AtomicU64::new(1),
            judge: Mutex::new((Judge::new(width, channels, manner), None)),
        }
    }

    fn restart(&self, width: usize, channels: usize) {
        let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        *judge = (Judge::new(width, channels, judge.0.manner), None);
        self.rested.store(true, Ordering::Relaxed);
        self.width.store(width, Ordering::Relaxed);
    }

    /// The number of channels to use now.
    pub(super) fn width(&self) -> usize {
        self.width.load(Ordering::Relaxed)
    }

    /// Counts the start of a request.
    pub(super) fn begin(&self) {
        if self.under_way.fetch_add(1, Ordering::Relaxed) == 0 {
            self.rested.store(true, Ordering::Relaxed);
        }
    }

    /// Uncounts a request that was not sent.
    pub(super) fn withdraw(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts the end of a request of `bytes`.
    pub(super) fn end(&self, bytes: u64) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        self.moved.fetch_add(bytes + REQUEST, Ordering::Relaxed);
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if done >= self.due.load(Ordering::Relaxed) {
            self.look(done);
        }
    }

    /// Checks whether the window is over.
    fn look(&self, done: u64) {
        // Another task may be checking.
        let Ok(mut judge) = self.judge.try_lock() else { return };
        let (judge, since) = &mut *judge;
        let now = Instant::now();
        let lasted = since.map_or(Duration::ZERO, |since| now - since);
        let rested = self.rested.swap(false, Ordering::Relaxed);
        let under_way = self.under_way.load(Ordering::Relaxed).max(1);
        let enough = FEW_TURNS * under_way;
        let rate = |moved: u64| moved as f64 / lasted.as_secs_f64();
        let is_lost =
            lasted >= WINDOW && done >= enough && judge.is_lost(rate(self.moved.load(Ordering::Relaxed)));
        // More requests may be in flight than at the start, for example if channels were added during a
        // transfer.
        if !rested && !is_lost && (lasted < WINDOW || done < TURNS * under_way) {
            self.due.store((done * 2).min(TURNS * under_way).max(done + 1), Ordering::Relaxed);
            return;
        }
        let moved = self.moved.swap(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        *since = Some(now);
        if !rested {
            self.width.store(judge.next(rate(moved)), Ordering::Relaxed);
        }
        let due = if judge.tries_fewer() { enough } else { TURNS * under_way };
        self.due.store(due, Ordering::Relaxed);
    }

    /// The width outside of trials.
    #[cfg(test)]
    fn settled(&self) -> usize {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner).0.width
    }
}

/// Draws conclusions from rates, window by window.
#[derive(Debug)]
struct Judge {
    channels: usize,
    manner: TrialParameters,
    /// The width outside of trials.
    width: usize,
    /// The rate of the last window with that width.
    rate: f64,
    /// Windows until the next trial.
    left: u32,
    /// Windows between this trial and the next, unless this one succeeds.
    pause: u32,
    /// Whether the next trial uses more channels.
    widen: bool,
    trial: Option<Trial>,
    /// The width and rate before the last change, and the windows left of its probation.
    before: Option<(usize, f64, u32)>,
}

#[derive(Debug)]
struct Trial {
    width: usize,
    wins: u32,
    /// Whether this window belongs to the trial. Otherwise it is one in between, for comparison.
    is_on: bool,
}

impl Judge {
    fn new(width: usize, channels: usize, manner: TrialParameters) -> Judge {
        Judge {
            channels,
            manner,
            width,
            rate: 0.0,
            left: manner.soon,
            pause: manner.soon,
            widen: width == 1,
            trial: None,
            before: None,
        }
    }

    /// Takes the rate of the finished window. Returns the width of the next one.
    fn next(&mut self, rate: f64) -> usize {
        match &mut self.trial {
            None => {
                if self.is_worse(rate) {
                    return self.width;
                }
                self.rate = rate;
                self.left = self.left.saturating_sub(1);
                if self.left == 0 { self.begin() } else { self.width }
            }
            Some(trial) if !trial.is_on => {
                self.rate = rate;
                trial.is_on = true;
                trial.width
            }
            Some(trial) => {
                let wanted = if trial.width > self.width { self.manner.gain } else { KEPT };
                if rate < self.rate * wanted {
                    return self.end(false);
                }
                trial.wins += 1;
                trial.is_on = false;
                if trial.wins == WINS { self.end(true) } else { self.width }
            }
        }
    }

    /// Whether this window has fewer channels than the width outside of trials.
    fn tries_fewer(&self) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.is_on && trial.width < self.width)
    }

    /// Whether a window at this rate is a trial with fewer channels that cannot succeed.
    fn is_lost(&self, rate: f64) -> bool {
        self.tries_fewer() && rate < self.rate * FAR_LESS
    }

    /// Begins a trial, if there is anything to try.
    fn begin(&mut self) -> usize {
        let wider = (self.width * 2).min(self.channels);
        let narrower = self.width / 2;
        let width = match self.widen {
            true if wider > self.width => wider,
            true => narrower,
            false if narrower > 0 => narrower,
            false => wider,
        };
        if width == 0 || width == self.width {
            self.left = SELDOM;
            return self.width;
        }
        self.trial = Some(Trial { width, wins: 0, is_on: true });
        width
    }

    /// Reverts a change that does not keep its promise. A path may carry more for a moment than it can for
    /// long.
    fn is_worse(&mut self, rate: f64) -> bool {
        let Some((width, before, left)) = self.before.take() else { return false };
        if rate < before * KEPT {
            self.widen = width > self.width;
            self.width = width;
            self.put_off();
            return true;
        }
        if left > 1 {
            self.before = Some((width, before, left - 1));
        } else {
            self.pause = self.manner.soon;
        }
        false
    }

    /// Waits longer for the next trial than for this one.
    fn put_off(&mut self) {
        self.pause = (self.pause * 2).min(SELDOM);
        self.left = self.pause;
    }

    /// Ends a trial. A success is soon tried further, a failure only after some time.
    fn end(&mut self, success: bool) -> usize {
        let Some(trial) = self.trial.take() else { return self.width };
        if success {
            self.before = Some((self.width, self.rate, PROBATION));
            self.widen = trial.width > self.width;
            self.width = trial.width;
            self.left = PROBATION;
        } else {
            self.widen = trial.width < self.width;
            self.put_off();
        }
        self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `windows` in a world where `width` channels move `rate(width)`. Returns the mean rate.
    fn settle(judge: &mut Judge, windows: u32, rate: impl Fn(usize) -> f64) -> f64 {
        let (mut width, mut sum) = (judge.width, 0.0);
        for _ in 0..windows {
            sum += rate(width);
            width = judge.next(rate(width));
        }
        sum / f64::from(windows)
    }

    #[test]
    fn what_is_not_sent_after_all_does_not_count_as_moved() {
        let tuner = Tuner::new(1, 2, WITH_MUCH);
        tuner.begin();
        tuner.withdraw();
        let counts = [&tuner.under_way, &tuner.moved, &tuner.done].map(|it| it.load(Ordering::Relaxed));
        assert_eq!(counts, [0; 3]);
    }

    #[test]
    fn all_channels_are_used_when_each_is_held_up_for_itself() {
        let mut judge = Judge::new(1, 4, WITH_MUCH);
        settle(&mut judge, 30, |width| width as f64);
        assert_eq!(judge.width, 4);
        // Trials with fewer channels cost next to nothing.
        let mean = settle(&mut judge, 1000, |width| width as f64);
        assert!(mean > 0.98 * 4.0, "{mean}");
        assert_eq!(judge.width, 4);
    }

    #[test]
    fn one_channel_is_enough_when_more_are_no_quicker() {
        for start in [1, 4] {
            let mut judge = Judge::new(start, 4, WITH_MUCH);
            settle(&mut judge, 100, |width| if width == 1 { 1.0 } else { 1.02 });
            assert_eq!(judge.width, 1);
        }
        let mut judge = Judge::new(1, 4, WITH_MUCH);
        let mean = settle(&mut judge, 1000, |width| if width == 1 { 1.0 } else { 0.9 });
        assert!(mean > 0.998, "{mean}");
        assert_eq!(judge.width, 1);
    }

    #[test]
    fn what_was_saved_up_does_not_count() {
        // Each channel can carry more for a moment after it has carried less.
        let (mut judge, mut width) = (Judge::new(4, 4, WITH_MUCH), 4);
        let (mut sum, mut saved) = (0.0, 0);
        for _ in 0..1000 {
            saved = if width == 4 { 3 } else { saved - 1 };
            let rate = if saved > 0 { 4.0 } else { width as f64 };
            sum += rate;
            width = judge.next(rate);
        }
        assert!(sum / 1000.0 > 0.97 * 4.0, "{sum}");
    }

    #[test]
    fn what_has_changed_is_noticed() {
        let mut judge = Judge::new(1, 8, WITH_MUCH);
        settle(&mut judge, 4000, |_| 1.0);
        assert_eq!(judge.width, 1);
        settle(&mut judge, 2 * SELDOM, |width| width.min(4) as f64);
        assert_eq!(judge.width, 4);
        settle(&mut judge, 4 * SELDOM, |_| 1.0);
        assert_eq!(judge.width, 1);
    }

    #[test]
    fn a_trial_with_fewer_that_fails_clearly_is_not_waited_for() {
        let mut judge = Judge::new(4, 4, WITH_MUCH);
        settle(&mut judge, WITH_MUCH.soon - 1, |_| 4.0);
        assert!(!judge.is_lost(1.0), "it is no trial");
        assert_eq!(judge.next(4.0), 2);
        assert!(judge.tries_fewer() && judge.is_lost(2.0) && !judge.is_lost(3.9));
        let mut judge = Judge::new(1, 4, WITH_MUCH);
        settle(&mut judge, WITH_MUCH.soon, |_| 1.0);
        assert!(judge.trial.is_some() && !judge.tries_fewer() && !judge.is_lost(0.1), "it tries more");
    }

    #[test]
    fn who_has_never_more_than_one_request_under_way_is_never_judged() {
        let tuner = Tuner::new(1, 4, WITH_MUCH);
        for _ in 0..10_000 {
            tuner.begin();
            tuner.end(4096);
        }
        assert_eq!((tuner.width(), tuner.settled()), (1, 1));
        assert!(tuner.judge.lock().unwrap().0.rate == 0.0);
    }
}
