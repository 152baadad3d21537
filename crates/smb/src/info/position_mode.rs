//! Values of an Open that only some classes of MS-FSCC 2.4 use.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use share::Options;

/// Bits of FileModeInformation (MS-FSCC 2.4.31).
pub(crate) mod mode {
    /// Writes return when they are on stable storage.
    pub(crate) const WRITE_THROUGH: u32 = 0x0000_0002;
    /// Data is read and written in order.
    pub(crate) const SEQUENTIAL_ONLY: u32 = 0x0000_0004;
    /// Nothing between the client and the disk keeps data.
    pub(crate) const NO_INTERMEDIATE_BUFFERING: u32 = 0x0000_0008;
    /// Calls on the client's handle wait, and alerts end the wait.
    pub(crate) const SYNCHRONOUS_ALERT: u32 = 0x0000_0010;
    /// Calls on the client's handle wait.
    pub(crate) const SYNCHRONOUS_NONALERT: u32 = 0x0000_0020;
    /// The file goes away with this Open.
    pub(crate) const DELETE_ON_CLOSE: u32 = 0x0000_1000;
}

/// Marks a mode that was set, so that zero stands for one that never was.
const WAS_SET: u32 = 0x8000_0000;

/// Position, mode and the position in the list of extended attributes. All of it is advice to clients, so
/// plain atomics are enough.
#[derive(Debug, Default)]
pub(crate) struct PositionMode {
    position: AtomicU64,
    mode: AtomicU32,
    next_extended: AtomicUsize,
}

impl PositionMode {
    /// The position of a read or write without an offset (MS-FSA 2.1.1.6 CurrentByteOffset).
    #[inline]
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Sets the position after a read or write, or as the client asks.
    #[inline]
    pub fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// The mode of the Open (MS-FSA 2.1.1.6 Mode). `options` are its options in the engine, `asked` its
    /// CreateOptions.
    // MS-FSA 2.1.5.1
    // MS-FSA 2.1.5.15.8
    pub fn mode(&self, options: Options, asked: u32) -> u32 {
        let mut made = asked & (mode::SEQUENTIAL_ONLY | mode::NO_INTERMEDIATE_BUFFERING);
        if options.contains(Options::WRITE_THROUGH) {
            made |= mode::WRITE_THROUGH;
        }
        if options.contains(Options::DELETE_ON_CLOSE) {
            made |= mode::DELETE_ON_CLOSE;
        }
        let mut settable = mode::SEQUENTIAL_ONLY;
        if made & mode::NO_INTERMEDIATE_BUFFERING == 0 {
            settable |= mode::WRITE_THROUGH;
        }
        match self.mode.load(Ordering::Relaxed) {
            0 => made,
            set => made & !settable | set & settable,
        }
    }

    /// Sets the mode.
    pub fn set_mode(&self, mode: u32) {
        self.mode.store(mode | WAS_SET, Ordering::Relaxed);
    }

    /// How many extended attributes were returned since the scan began (MS-SMB2 3.3.5.20.1
    /// Open.CurrentEaIndex, less one).
    pub fn next_extended(&self) -> usize {
        self.next_extended.load(Ordering::Relaxed)
    }

    /// Sets where the scan of extended attributes continues.
    pub fn set_next_extended(&self, next: usize) {
        self.next_extended.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_that_of_the_open_until_it_is_set() {
        let kept = PositionMode::default();
        assert_eq!(kept.mode(Options::empty(), 0), 0);
        assert_eq!(kept.mode(Options::WRITE_THROUGH | Options::DELETE_ON_CLOSE, 0), 0x1002);
        assert_eq!(kept.mode(Options::empty(), 0x7c), 0x0c);
        kept.set_mode(0);
        assert_eq!(kept.mode(Options::WRITE_THROUGH, 4), 0);
        assert_eq!(kept.mode(Options::WRITE_THROUGH, 8), 0x0a);
        kept.set_mode(mode::SEQUENTIAL_ONLY);
        assert_eq!(kept.mode(Options::DELETE_ON_CLOSE, 0), 0x1004);
    }
}
