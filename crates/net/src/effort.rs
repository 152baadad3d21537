//! What a thread really did while time passed: worked, waited for something, or was put aside by a busy host.
//!
//! [`crate::pace`] asks, since only a turn that works or waits for long is in the way of other connections; one
//! during which the host let others run is not slow, and would be no quicker elsewhere.

/// What a thread has done up to one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Processor time (ns).
    pub(crate) cpu_ns: u64,
    /// How often it gave up its processor to wait for something.
    pub(crate) waits: u64,
}

impl Effort {
    /// That of the calling thread.
    pub(crate) fn now() -> Effort {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the host writes one `rusage`, for which there is room; any bytes of it are a valid value.
        #[allow(unsafe_code)]
        let usage = unsafe {
            // It cannot fail with this argument; zeros, which say nothing was done, would be left.
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        let ns = |time: libc::timeval| {
            let (seconds, micros) = (time.tv_sec.max(0) as u64, time.tv_usec.max(0) as u64);
            seconds * 1_000_000_000 + micros * 1000
        };
        let cpu_ns = ns(usage.ru_utime) + ns(usage.ru_stime);
        Effort { cpu_ns, waits: usage.ru_nvcsw.max(0) as u64 }
    }

    /// What was done since `before`.
    pub(crate) fn since(self, before: Effort) -> Effort {
        let cpu_ns = self.cpu_ns.saturating_sub(before.cpu_ns);
        Effort { cpu_ns, waits: self.waits.saturating_sub(before.waits) }
    }

    /// Whether it waited, or worked for `bound_ns` and longer.
    pub(crate) fn exceeds(self, bound_ns: u64) -> bool {
        self.waits > 0 || self.cpu_ns >= bound_ns
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn waiting_shows_and_so_does_work() {
        let before = Effort::now();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            let before = Effort::now();
            let _ = receiver.recv();
            Effort::now().since(before)
        });
        let began = Instant::now();
        let mut sum = 0u64;
        // Bounded by work done, not by the clock alone: a busy host gives time without a processor.
        while Effort::now().since(before).cpu_ns < 20_000_000 && began.elapsed() < Duration::from_secs(60) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        drop(sender);
        let waited = waiting.join().expect("it only waits");
        assert!(waited.waits > 0 && waited.exceeds(u64::MAX), "{waited:?}");
        let worked = Effort::now().since(before);
        assert!(Effort { waits: 0, ..worked }.exceeds(10_000_000), "{worked:?}");
        assert!(!Effort { waits: 0, cpu_ns: 10 }.exceeds(11));
    }
}
