//! Changes that others made. Programs on the host are the others, never this process.

use crate::{Name, NodeId};

/// The kind of change of a name or a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostChange {
    /// A name was created.
    Created,
    /// A name was removed.
    Removed,
    /// A name was moved to a directory that is not watched.
    RenamedFrom,
    /// A name was moved here from a directory that is not watched.
    RenamedTo,
    /// Data was written or truncated.
    Modified,
    /// Mode, owner, times or extended attributes were changed.
    Attributes,
}

/// One change by others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostEvent {
    /// Something changed in a directory, or in the node that a name in it leads to.
    Changed {
        /// The directory.
        directory: NodeId,
        /// The name in the directory. `None` when the directory itself changed.
        name: Option<Name>,
        /// Whether the changed node is a directory.
        is_directory: bool,
        /// The kind of change.
        change: HostChange,
    },
    /// Data or attributes of a node changed, whatever its names are by now. A volume that can tell adds this
    /// to [`HostEvent::Changed`], whose name may lead to another node before the event is read.
    NodeChanged {
        /// The node.
        node: NodeId,
        /// [`HostChange::Modified`] or [`HostChange::Attributes`].
        change: HostChange,
    },
    /// A name was moved between watched directories, or within one.
    Renamed {
        /// The old directory and the name there.
        from: (NodeId, Name),
        /// The new directory and the name there.
        to: (NodeId, Name),
        /// Whether the moved node is a directory.
        is_directory: bool,
    },
    /// Events were lost. Nothing that is cached about the volume can be trusted.
    Overflow,
    /// A file system was mounted or unmounted below the volume: a directory leads elsewhere now.
    Mounts,
}
