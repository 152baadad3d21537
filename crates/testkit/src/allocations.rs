//! Counts the allocations of the server's threads, with an allocator ([`ServerAllocationCounter`]) that a
//! program makes its global one. It is for programs with one test, since it applies to the whole process.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of allocations so far.
pub static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread is known to belong to the server.
    static IS_SERVER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller runs on a worker of the transport or its pool, by the thread's name on the host. Other
/// threads are not counted: on a busy host the thread that started the test may still be recording that it
/// did.
pub fn is_server() -> bool {
    IS_SERVER
        .try_with(|known| {
            if !known.get() {
                let mut name = [0u8; 16];
                // SAFETY: the host writes at most 16 bytes, its bound on names, and they are there.
                unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
                known.set(name.starts_with(b"trunkline-"));
            }
            known.get()
        })
        .unwrap_or(false)
}

/// The system's allocator with a counter.
pub struct ServerAllocationCounter;

impl ServerAllocationCounter {
    fn count() {
        if is_server() {
            ALLOCATIONS.fetch_add(1, Relaxed);
        }
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for ServerAllocationCounter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ServerAllocationCounter::count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ServerAllocationCounter::count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        ServerAllocationCounter::count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, len) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The bytes that are allocated now, with [`LiveByteCounter`].
pub static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);

/// The system's allocator with a count of the bytes that all threads hold.
pub struct LiveByteCounter;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for LiveByteCounter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        LIVE_BYTES.fetch_add(len as u64, Relaxed);
        LIVE_BYTES.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, len) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}
