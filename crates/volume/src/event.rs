//! What others changed: programs on the host, never this process.

use crate::{Name, NodeId};

/// What happened to a name or a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostChange {
    /// A name was made.
    Created,
    /// A name was removed.
    Removed,
    /// A name was taken away by a rename; `RenamedTo` with the new name follows where it is watched.
    RenamedFrom,
    /// A name appeared by a rename.
    RenamedTo,
    /// Data was written or cut.
    Modified,
    /// Mode, owner, times or extended attributes were changed.
    Attributes,
}

/// One event from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEvent {
    /// Something changed in a directory, or in the node that a name in it leads to.
    Changed {
        /// The directory.
        directory: NodeId,
        /// The name in it; none when the directory itself changed.
        name: Option<Name>,
        /// Whether what was changed is a directory.
        is_directory: bool,
        /// What happened.
        change: HostChange,
    },
    /// Events were lost: nothing remembered about the volume can be trusted.
    Overflow,
    /// Something was mounted below the volume, or unmounted there: a directory leads elsewhere now.
    Mounts,
}
