//! What others changed: programs on the host, never this process.

use crate::{Name, NodeId};

/// What happened to a name or a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostChange {
    /// A name was made.
    Created,
    /// A name was removed.
    Removed,
    /// A name was taken away by a rename to a directory that is not watched.
    RenamedFrom,
    /// A name appeared by a rename from a directory that is not watched.
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
    /// A name was moved between watched directories, or within one.
    Renamed {
        /// The directory it was in, and what it was called there.
        from: (NodeId, Name),
        /// The directory it is in, and what it is called there.
        to: (NodeId, Name),
        /// Whether what was moved is a directory.
        is_directory: bool,
    },
    /// Events were lost: nothing remembered about the volume can be trusted.
    Overflow,
    /// Something was mounted below the volume, or unmounted there: a directory leads elsewhere now.
    Mounts,
}
