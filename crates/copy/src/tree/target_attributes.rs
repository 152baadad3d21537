//! The attributes to set on a copy.

use client::remote::Kind;

use crate::sidecar::SidecarOutcome;
use crate::tree::listing::lent;

/// The attributes to set on a copy. Those that are none stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TargetAttributes {
    /// The time of the last change of its data, in nanoseconds since 1970.
    pub(crate) modified: Option<i128>,
    pub(crate) mode: Option<u32>,
    pub(crate) attributes: Option<u32>,
    /// Whether it has an access list, which the nine permission bits of `mode` would change.
    pub(crate) has_list: bool,
}

impl TargetAttributes {
    /// The permission bits at creation, where `usual` are the bits of a copy without bits of its own. A copy
    /// with bits of its own belongs to nobody else until it is complete.
    pub(crate) fn first_mode(&self, usual: u32) -> u32 {
        if self.mode.is_some() { usual & 0o700 } else { usual }
    }

    /// The attributes after the sidecar data was set. Without the source's owner the copy does not get the
    /// bits that lend its rights.
    pub(crate) fn with_sidecar(self, given: &SidecarOutcome, kind: Kind) -> TargetAttributes {
        let lent = if given.owner { 0 } else { lent(kind) };
        TargetAttributes { mode: self.mode.map(|mode| mode & !lent), has_list: given.list, ..self }
    }
}
