//! A moment at which no share changes its record of opens, for a backup of several shares at once.
//!
//! Some changes are noted and written later, such as the close of an open whose client would claim it. So
//! the journals alone are not those of one moment. While [`RecordFreeze::begin`] holds, nothing is noted
//! anywhere. The caller writes all that was noted ([`crate::Share::try_write_noted`]), and then reads the
//! journals.

use crate::ranked::{Rank, RwLock};

/// The freeze of the records of all shares that were given it.
///
/// A note takes it for reading, under any other lock, and takes only the leaf of the notes below it. The
/// freeze takes the locks of writers. No writer takes the freeze, so that there is no circle of waits.
#[derive(Debug)]
pub struct RecordFreeze(RwLock<()>);

impl Default for RecordFreeze {
    fn default() -> RecordFreeze {
        RecordFreeze(RwLock::new(Rank::RecordFreeze, ()))
    }
}

impl RecordFreeze {
    /// Waits for the changes that are being noted, and lets no other begin while the result lives.
    #[must_use]
    pub fn begin(&self) -> impl Sized + '_ {
        self.0.write()
    }

    #[must_use]
    pub(crate) fn note(&self) -> impl Sized + '_ {
        self.0.read()
    }
}
