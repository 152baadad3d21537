//! The root directory of a volume. Every other file of the volume is opened from it.

use std::os::fd::OwnedFd;

use volume::NodeId;

/// The root of a volume.
pub(crate) struct Root {
    /// Its identity.
    pub(crate) id: NodeId,
    /// Its descriptor.
    pub(crate) fd: OwnedFd,
    /// The number of the mount through which it was opened. `None` if the host opens nothing by handle.
    pub(crate) mount: Option<i32>,
    /// Whether all data is always in memory, so that no read waits for a device.
    pub(crate) is_in_memory: bool,
}
