//! The root as it was opened: what every other file of the volume is opened from.

use std::os::fd::OwnedFd;

use volume::NodeId;

/// The root of a volume.
pub(crate) struct Root {
    /// Its identity.
    pub(crate) id: NodeId,
    /// Its descriptor.
    pub(crate) fd: OwnedFd,
    /// The number of the mount through which it was opened; none where the host opens nothing by handle.
    pub(crate) mount: Option<i32>,
    /// Whether all data is in memory anyway, so that no read waits for a device.
    pub(crate) is_in_memory: bool,
}
