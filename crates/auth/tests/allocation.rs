//! Message protection allocates nothing, since the keys were expanded when the session got them.
//!
//! The counter sees only this program's own allocator. The C code of aws-lc allocates outside of it, but not
//! in the calls here: GCM and CBC use the expanded key and the stack.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use auth::{Cipher, GmacNonce, Sealer, Signer, SigningAlgorithm};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct ThreadCountingAllocator;

// SAFETY: every call goes unchanged to the system's allocator, and the count uses none of its memory.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for ThreadCountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps to the contract of GlobalAlloc::alloc.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from System.alloc with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: ThreadCountingAllocator = ThreadCountingAllocator;

/// The number of allocations by `work` on this thread.
fn allocations(mut work: impl FnMut()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8; 100]))), 1);
}

#[test]
fn signing_and_verifying_allocate_nothing() {
    let message = vec![7; 4096];
    for algorithm in [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac] {
        let signer = Signer::new(algorithm, &[9; 16]);
        let count = allocations(|| {
            let signature = signer.sign(&message, GmacNonce::response(5));
            assert!(signer.verify(&message, GmacNonce::response(5), &signature).is_ok());
        });
        assert_eq!(count, 0, "{algorithm:?}");
    }
}

#[test]
fn sealing_and_opening_allocate_nothing() {
    let mut data = vec![7; 4096];
    for cipher in [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm] {
        let sealer = Sealer::new(cipher, &vec![9; cipher.key_len()]).unwrap();
        let count = allocations(|| {
            let tag = sealer.seal(&[1; 16], &[2; 32], &mut data);
            assert!(sealer.open(&[1; 16], &[2; 32], &mut data, &tag).is_ok());
        });
        assert_eq!(count, 0, "{cipher:?}");
        assert!(data.iter().all(|byte| *byte == 7));
    }
}
