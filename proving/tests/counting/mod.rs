//! What the server's threads in this process do, counted: allocations, by the global allocator of the program; bytes that
//! its own code copies in pieces of 2 KiB and more, by its `memcpy` and `memmove`; calls on files, by the host.
//!
//! For programs of one test: it replaces these functions for the whole process.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Allocations of the server's threads.
pub static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes that they copied.
pub static COPIED: AtomicU64 = AtomicU64::new(0);

/// Pieces from this size on are counted as copies of data: half of a reply's data. Smaller ones are headers,
/// and lists of buffers that are moved.
const PIECE: usize = 2048;

thread_local! {
    /// Whether this thread is known to be one of the server's.
    static IS_SERVER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller runs on a worker of the transport, by the name that the host knows for the thread.
fn is_server() -> bool {
    IS_SERVER
        .try_with(|known| {
            if !known.get() {
                let mut name = [0u8; 16];
                // SAFETY: the host writes at most 16 bytes, its bound on names, and they are there.
                unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
                known.set(name.starts_with(b"trunkline-net-"));
            }
            known.get()
        })
        .unwrap_or(false)
}

struct Counting;

impl Counting {
    fn count() {
        if is_server() {
            ALLOCATIONS.fetch_add(1, Relaxed);
        }
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Counting::count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        Counting::count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, len) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

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

/// The server's threads by their host ids.
pub fn server_threads() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
        name.is_ok_and(|name| name.starts_with("trunkline-net-"))
    })
    .collect()
}

/// What the host counts for a thread: calls that read and write files and bytes that they read.
#[derive(Debug, Clone, Copy)]
pub struct HostCounts {
    pub read_calls: u64,
    pub write_calls: u64,
    pub bytes_read: u64,
}

impl HostCounts {
    /// None on a host that does not count.
    pub fn of(thread: u32) -> Option<HostCounts> {
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
