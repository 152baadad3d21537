//! The selection of audit events. Each operation asks for it. Without an audit that is one look at a number.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::AuditClasses;

/// The classes of events that are wanted.
#[derive(Default)]
pub(crate) struct AuditSelection(AtomicU16);

impl AuditSelection {
    /// The selected classes.
    #[inline]
    pub fn get(&self) -> AuditClasses {
        AuditClasses::from_bits_retain(self.0.load(Ordering::Relaxed))
    }

    /// Selects these classes from now on.
    pub fn set(&self, classes: AuditClasses) {
        self.0.store(classes.bits(), Ordering::Relaxed);
    }
}
