//! What the server's threads in this process do, counted: allocations, by the global allocator of the
//! program; bytes that its own code copies in pieces of 2 KiB and more, by its `memcpy` and `memmove`; calls
//! on files, by the host.
//!
//! For programs of one test: it replaces these functions for the whole process. Begin with [`undisturbed`]
//! and [`MeasuredRun`].

#![allow(unsafe_code)]
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testkit::allocations::{ALLOCATIONS, ServerAllocationCounter, is_server};

#[global_allocator]
static COUNTING: ServerAllocationCounter = ServerAllocationCounter;

/// Bytes that the server's threads copied.
static COPIED: AtomicU64 = AtomicU64::new(0);

/// Pieces from this size on are counted as copies of data: half of a reply's data. Smaller ones are headers,
/// and lists of buffers that are moved.
const PIECE: usize = 2048;

/// Stands in the place of the C library's for all code of this program that is not in a shared library.
///
/// # Safety
/// As that of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
    // SAFETY: what may be copied at once may be copied as if it overlapped.
    unsafe { memmove(to, from, len) }
}

/// Stands in the place of the C library's, as [`memcpy`] does.
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

/// Runs of a measurement of which one has to be undisturbed.
const RUNS: usize = 8;

/// What the server did for a run of requests.
pub struct MeasuredRun {
    allocations: u64,
    copied: u64,
    /// What the transport had counted before it and after it.
    totals: (net::Totals, net::Totals),
    /// The same of the host, for the only worker.
    host: Option<(HostCounts, HostCounts)>,
}

/// What requests of one kind may cost.
pub struct Expected<'a> {
    pub name: &'a str,
    /// How many of them a run has.
    pub count: u64,
    /// Bytes that each reads from a file.
    pub from_file: u64,
    /// System calls for each at most.
    pub most: f64,
}

/// The first run that shows what the requests cost, and nothing that the host did meanwhile: none of them
/// came in two pieces, of which the first is kept aside, and the worker was not put aside for so long that it
/// sent its turns away as slow ones. On a busy host it is put aside in every run; what it reads in /proc to
/// know that is counted apart.
pub fn undisturbed(run: impl FnMut() -> MeasuredRun) -> MeasuredRun {
    let quiet = |run: &Run| run.grown(|totals| totals.bytes_copied + totals.hops) == 0;
    let found = std::iter::repeat_with(run).take(RUNS).find(quiet);
    found.unwrap_or_else(|| panic!("in each of {RUNS} runs a request came in pieces or left its thread"))
}

impl MeasuredRun {
    /// Counts what a server of one worker does while `work` sends requests and takes the answers.
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

    /// How often it has allocated.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }

    /// By how much one of the transport's counts has grown.
    fn grown(&self, count: impl Fn(&net::Totals) -> u64) -> u64 {
        count(&self.totals.1) - count(&self.totals.0)
    }

    /// What the worker has read of anything but its connections and its own effort, where the host tells.
    fn bytes_read(&self) -> Option<u64> {
        let (before, after) = self.host.as_ref()?;
        let others = self.grown(|totals| totals.bytes_received + totals.effort_bytes);
        Some(after.bytes_read - before.bytes_read - others)
    }

    /// No allocation, no copy but the host's, no request that left its thread, and few system calls.
    pub fn costs(&self, Expected { name, count, from_file, most }: &Expected<'_>) {
        assert_eq!(self.allocations(), 0, "allocations for {count} {name}s");
        assert_eq!(self.copied, 0, "bytes copied in user space for {count} {name}s");
        assert_eq!(self.grown(|totals| totals.jobs), 0, "no {name} left its thread");
        assert_eq!(self.grown(|totals| totals.records), *count);
        let received = self.grown(|totals| totals.recv_calls);
        let others = self.grown(|totals| totals.writev_calls + totals.wait_calls + totals.ack_calls);
        // One call for each is what the engine promises, and what hosts that count confirm. The transport
        // receives with readv(2), so they count that along.
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

/// The host id of the only worker. A thread that it has just begun for the pool has its name until it takes
/// one of its own, and on a busy host that is some time.
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

/// The name of the priority lane's thread as the host keeps it, in 15 bytes. The thread has nothing to do for
/// one client alone.
const LANE: &str = "trunkline-net-l";

/// The workers' threads by their host ids, without the priority lane's.
fn workers() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
        name.is_ok_and(|name| name.starts_with("trunkline-net-") && name.trim_end() != LANE)
    })
    .collect()
}

/// What the host counts for a thread: calls that read and write files and bytes that they read.
#[derive(Debug, Clone, Copy)]
struct HostCounts {
    read_calls: u64,
    write_calls: u64,
    bytes_read: u64,
}

impl HostCounts {
    /// None on a host that does not count.
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

/// The counters see what a thread of that name does, and nobody else.
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
