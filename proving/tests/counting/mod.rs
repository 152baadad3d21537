//! Counters of the server's threads in this process: allocations, by the global allocator of the program;
//! bytes that the program's own code copies in pieces of 2 KiB and more, by its `memcpy` and `memmove`; calls
//! on files, by the host.
//!
//! It is for programs with one test, since it replaces these functions for the whole process. Start with
//! [`undisturbed`] and [`MeasuredRun`].

#![allow(unsafe_code)]
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testkit::allocations::{ALLOCATIONS, ServerAllocationCounter, is_server};

#[global_allocator]
static COUNTING: ServerAllocationCounter = ServerAllocationCounter;

/// The bytes that the server's threads copied.
static COPIED: AtomicU64 = AtomicU64::new(0);

/// The size from which a copy counts as a copy of data: half of the data of a reply. Smaller copies are
/// headers, and moved lists of buffers.
const PIECE: usize = 2048;

/// Replaces the function of the C library for all code of this program that is not in a shared library.
///
/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    // SAFETY: what may be copied at once may be copied as if it overlapped.
    unsafe { memmove(to, from, len) }
}

/// Replaces the function of the C library, like [`memcpy`].
///
/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    if len >= PIECE && is_server() {
        COPIED.fetch_add(len as u64, Relaxed);
    }
    let is_backward = (to as usize).wrapping_sub(from as usize) < len;
    // SAFETY: both pieces are `len` bytes by the caller's promise, and these instructions touch nothing else;
    // written this way the compiler does not make a call of `memmove` of it.
    unsafe {
        if is_backward {
            std::arch::asm!(
                "std", "rep movsb", "cld",
                inout("rcx") len => _,
                inout("rdi") to.cast::<u8>().wrapping_add(len).wrapping_sub(1) => _,
                inout("rsi") from.cast::<u8>().wrapping_add(len).wrapping_sub(1) => _,
                options(nostack),
            );
        } else {
            std::arch::asm!(
                "rep movsb",
                inout("rcx") len => _,
                inout("rdi") to => _,
                inout("rsi") from => _,
                options(nostack, preserves_flags),
            );
        }
    }
    to
}

/// The time for attempts to get an undisturbed run. Each takes a fraction of a second.
const ATTEMPTS_FOR: Duration = Duration::from_secs(30);

/// The work of the server for a run of requests.
pub struct MeasuredRun {
    allocations: u64,
    copied: u64,
    /// The transport's counters before and after it.
    totals: (net::Totals, net::Totals),
    /// The host's counters before and after it, for the only worker.
    host: Option<(HostCounts, HostCounts)>,
}

/// The allowed costs of requests of one kind.
pub struct Expected<'a> {
    pub name: &'a str,
    /// The number of requests in a run.
    pub count: u64,
    /// The bytes that each reads from a file.
    pub from_file: u64,
    /// The maximum number of system calls for each.
    pub most: f64,
}

/// The first run that shows only the costs of the requests, and no effect of the host. In such a run no
/// request came in two pieces, of which the first is set aside. Nor was the worker suspended for so long that
/// it moved its batches away as slow ones. On a busy host it is suspended in every run. The bytes that it
/// reads in /proc to find that out are counted separately.
pub fn undisturbed(mut run: impl FnMut() -> MeasuredRun) -> MeasuredRun {
    let quiet = |run: &MeasuredRun| run.grown(|totals| totals.bytes_copied + totals.hops) == 0;
    let (begun, mut runs) = (Instant::now(), 0);
    while begun.elapsed() < ATTEMPTS_FOR {
        let found = run();
        if quiet(&found) {
            return found;
        }
        runs += 1;
    }
    panic!("in each of {runs} runs a request came in pieces or left its thread")
}

impl MeasuredRun {
    /// Counts the work of a server with one worker while `work` sends requests and receives the answers.
    pub fn of<S: wire::endpoint::Service>(server: &net::Handle<S>, work: impl FnOnce()) -> MeasuredRun {
        let thread = only_worker();
        let (before, host) = (server.totals(), HostCounts::of(thread));
        let (allocations, copied) = (ALLOCATIONS.load(Relaxed), COPIED.load(Relaxed));
        work();
        MeasuredRun {
            allocations: ALLOCATIONS.load(Relaxed) - allocations,
            copied: COPIED.load(Relaxed) - copied,
            totals: (before, server.totals()),
            host: host.zip(HostCounts::of(thread)),
        }
    }

    /// The number of allocations.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }

    /// The growth of one of the transport's counters.
    fn grown(&self, count: impl Fn(&net::Totals) -> u64) -> u64 {
        count(&self.totals.1) - count(&self.totals.0)
    }

    /// The bytes that the worker has read, except from its connections and about its own effort. None if the
    /// host does not report them.
    fn bytes_read(&self) -> Option<u64> {
        let (before, after) = self.host.as_ref()?;
        let others = self.grown(|totals| totals.bytes_received + totals.effort_bytes);
        Some(after.bytes_read - before.bytes_read - others)
    }

    /// Checks that there was no allocation, no copy except the host's, no request that left its thread, and
    /// few system calls.
    pub fn costs(&self, Expected { name, count, from_file, most }: &Expected<'_>) {
        assert_eq!(self.allocations(), 0, "allocations for {count} {name}s");
        assert_eq!(self.copied, 0, "bytes copied in user space for {count} {name}s");
        assert_eq!(self.grown(|totals| totals.jobs), 0, "no {name} left its thread");
        assert_eq!(self.grown(|totals| totals.records), *count);
        let received = self.grown(|totals| totals.recv_calls);
        let others = self.grown(|totals| totals.writev_calls + totals.wait_calls + totals.ack_calls);
        // The engine promises one call for each, and hosts that count calls confirm it. The transport
        // receives with readv(2), so they count that too.
        if let Some(read) = self.bytes_read() {
            assert_eq!(read, count * from_file, "bytes read for {count} {name}s");
        }
        let looks = self.grown(|totals| totals.effort_reads);
        let on_files = self.host.map_or(*count, |(before, after)| {
            after.read_calls - before.read_calls - received - looks + after.write_calls - before.write_calls
        });
        let each = (received + others + on_files) as f64 / *count as f64;
        println!("{name}: {each:.3} system calls for each, of which {on_files} of {count} on files");
        assert!(each <= *most, "{each} for each {name}: {received} + {others} + {on_files} for {count}");
    }
}

/// The thread id of the only worker. A thread that it has just started for the pool has its name until it
/// sets its own, which takes some time on a busy host.
fn only_worker() -> u32 {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match workers()[..] {
            [worker] => return worker,
            ref several => assert!(Instant::now() < end, "one worker: {several:?}"),
        }
        std::thread::yield_now();
    }
}

/// The host's name of the priority lane's thread, cut to 15 bytes. With one client this thread is idle.
const LANE: &str = "trunkline-net-l";

/// The thread ids of the workers, without the priority lane.
fn workers() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
        name.is_ok_and(|name| name.starts_with("trunkline-net-") && name.trim_end() != LANE)
    })
    .collect()
}

/// The host's counters of a thread: calls that read and write files, and the bytes that were read.
#[derive(Debug, Clone, Copy)]
struct HostCounts {
    read_calls: u64,
    write_calls: u64,
    bytes_read: u64,
}

impl HostCounts {
    /// Reads the counters. None on a host that does not count.
    fn of(thread: u32) -> Option<HostCounts> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/io")).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().parse().ok()
        };
        let (read_calls, write_calls) = (field("syscr")?, field("syscw")?);
        Some(HostCounts { read_calls, write_calls, bytes_read: field("rchar")? })
    }
}

/// Checks that the counters count the work of a thread of that name, and of no other.
pub fn the_counters_count() {
    let work = || {
        let before = (ALLOCATIONS.load(Relaxed), COPIED.load(Relaxed));
        let data = std::hint::black_box(vec![1u8; 4096]);
        std::hint::black_box(data.clone());
        (ALLOCATIONS.load(Relaxed) - before.0, COPIED.load(Relaxed) - before.1)
    };
    assert_eq!(work(), (0, 0));
    let named = std::thread::Builder::new().name("trunkline-net-x".into());
    let counted = named.spawn(work).expect("a thread").join().expect("it ends well");
    assert_eq!(counted, (2, 4096));
}
