//! The storage trait: a [`Volume`] hands out [`Node`]s.
//!
//! All calls may block unless they take [`Patience::Cached`]. All are safe to call from several threads
//! on one node. A volume never interprets the notes and streams that the engine stores.

use std::any::Any;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use wire::FileRange;

use crate::metered::Meter;
use crate::{
    Actor, DirEntry, Extent, HostEvent, Name, NodeId, NodeKind, Note, OpenHow, Overview, Patience, Result,
    Space, Stat, StreamInfo, Time, Times,
};

/// The properties and abilities of a volume. They are constant while it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeProperties {
    /// The file system's own name, such as `ext4`.
    pub file_system: String,
    /// Distinguishes this volume from others. It stays the same when the volume is opened again.
    pub serial: u64,
    /// The time when the volume was created, as far as it is known.
    pub born: Time,
    /// The greatest length of a name in bytes.
    pub name_max: u32,
    /// Whether the volume itself ignores case when it matches names.
    pub folds_case: bool,
    /// Whether two nodes can share storage ([`Node::clone_range`]).
    pub clones: bool,
    /// Whether the device can be told which blocks are no longer used.
    pub discards: bool,
    /// Whether extended attributes are stored.
    pub extended_attributes: bool,
    /// Whether the volume is read-only.
    pub read_only: bool,
    /// Whether [`Volume::take_events`] reports changes by others.
    pub tells_changes: bool,
}

/// A tree of files on some storage.
pub trait Volume: Send + Sync + 'static {
    /// The properties of the volume.
    fn properties(&self) -> &VolumeProperties;

    /// The directory at the top of the volume.
    ///
    /// # Errors
    /// [`crate::Failure::Stale`] when it has vanished.
    fn root(&self) -> Result<Arc<dyn Node>>;

    /// The node with this address ([`Node::address`]), opened for its attributes; a directory also for
    /// its names. The address does not prove that the node lies below the root. Only
    /// [`Node::parent_and_name`] of a directory, repeated up to the root, does.
    ///
    /// # Errors
    /// [`crate::Failure::Stale`] when no such node exists any more; [`crate::Failure::Busy`] while the
    /// search for it still runs; [`crate::Failure::Denied`] when the process may not open nodes by
    /// address.
    fn find(&self, address: &[u8]) -> Result<Arc<dyn Node>>;

    /// The space in bytes that the host reports now.
    ///
    /// # Errors
    /// The host's error.
    fn space(&self) -> Result<Space>;

    /// The space of the file system that a node is on. That may be another one, mounted below the root.
    ///
    /// # Errors
    /// The host's error.
    fn space_at(&self, node: &dyn Node) -> Result<Space> {
        let _ = node;
        self.space()
    }

    /// Whether resources of the host (descriptors) are scarce although all that are unused were released.
    /// They must be shared fairly then. Otherwise this call costs next to nothing.
    fn is_short(&self) -> bool {
        false
    }

    /// Releases unused resources of the host when few are left for other parts of the process. Call it
    /// now and then.
    fn release_unused(&self) {}

    /// Starts reports of changes by others in `directory`, and of the nodes that its names lead to.
    /// Watches are counted: each call is undone by one [`Volume::unwatch`].
    ///
    /// # Errors
    /// [`crate::Failure::NotSupported`] when the host does not report changes;
    /// [`crate::Failure::Exhausted`].
    fn watch(&self, directory: &dyn Node) -> Result<()>;

    /// Undoes one [`Volume::watch`].
    fn unwatch(&self, directory: NodeId);

    /// Takes the changes by others since the last call, oldest first, without waiting.
    fn take_events(&self, sink: &mut dyn FnMut(HostEvent));

    /// Waits until there are changes to take, for at most this long. True when there are. One thread of
    /// an idle volume uses it.
    fn wait_events(&self, at_most: Duration) -> bool;

    /// The meter that counts the volume's contents. `None` if nothing counts them.
    fn meter(&self) -> Option<&Arc<Meter>> {
        None
    }
}

/// An open file, directory, symbolic link or special file.
pub trait Node: Any + Send + Sync {
    /// The identity of the node.
    fn id(&self) -> NodeId;

    /// The kind of the node.
    fn kind(&self) -> NodeKind;

    /// The access that the node is open for.
    fn how(&self) -> OpenHow;

    /// Whether the node holds no resource of the host now, because nothing uses it.
    fn is_closed(&self) -> bool {
        false
    }

    /// The same node, opened for more access. The engine has checked the permission; the host may still
    /// refuse.
    ///
    /// # Errors
    /// [`crate::Failure::Denied`], [`crate::Failure::ReadOnly`], [`crate::Failure::Busy`] and others.
    fn open_again(&self, how: OpenHow) -> Result<Arc<dyn Node>>;

    /// The attributes of the node now.
    ///
    /// # Errors
    /// The host's error.
    fn stat(&self) -> Result<Stat>;

    /// The attributes that the node had when [`Node::lookup`] opened or a call created it, if the volume
    /// had to read them anyway. They spare the caller of those a call of [`Node::stat`].
    fn first_stat(&self) -> Option<Stat> {
        None
    }

    /// Up to [`crate::ADDRESS_MAX`] bytes by which [`Volume::find`] finds the node again, even after the
    /// volume was opened anew. No later file gets the same bytes.
    ///
    /// # Errors
    /// [`crate::Failure::NotSupported`] if the host has no such addresses.
    fn address(&self) -> Result<Vec<u8>>;

    /// The parent of a directory, and the directory's name there. `None` for the root of the volume.
    ///
    /// # Errors
    /// [`crate::Failure::Stale`] when the directory was removed or lies outside of the volume;
    /// [`crate::Failure::NotADirectory`].
    fn parent_and_name(&self) -> Result<Option<(Arc<dyn Node>, Name)>>;

    // Data ------------------------------------------------------------------------------------------

    /// Appends up to `len` bytes from offset `at` to `out` and returns their number; 0 at or behind the
    /// end. [`Patience::Cached`] reads all or nothing: fewer bytes are returned only at the end of the
    /// file.
    ///
    /// # Errors
    /// [`crate::Failure::WouldBlock`] when the data is not in memory (`out` stays as it was); errors of
    /// the host.
    fn read(&self, at: u64, len: usize, out: &mut Vec<u8>, patience: Patience) -> Result<usize>;

    /// Up to `len` bytes from offset `at` as a part of a file of the host, to be sent without a copy;
    /// fewer only at the end of the file. `None` if they are not all in memory, if that is unknown, or if
    /// the volume does not keep its data in files: use [`Node::read`] then. It never waits.
    ///
    /// # Errors
    /// As [`Node::read`].
    fn range(self: Arc<Self>, at: u64, len: usize) -> Result<Option<FileRange>> {
        let _ = (at, len);
        Ok(None)
    }

    /// Writes all of `data` at offset `at`.
    ///
    /// # Errors
    /// Those of the host. Bytes that were written before the failure stay.
    fn write(&self, at: u64, data: &[u8]) -> Result<()>;

    /// Returns when all written data is on stable storage, and the metadata too unless `data_only`.
    ///
    /// # Errors
    /// The host's error.
    fn sync(&self, data_only: bool) -> Result<()>;

    /// Truncates or extends the data to `size`.
    ///
    /// # Errors
    /// The host's error.
    fn set_size(&self, size: u64) -> Result<()>;

    /// Allocates storage for `range`. The length stays as it is.
    ///
    /// # Errors
    /// The host's error.
    fn allocate(&self, range: Range<u64>) -> Result<()>;

    /// Makes `range` read as zeros, and frees its storage if the host can. The length stays as it is.
    ///
    /// # Errors
    /// The host's error.
    fn punch(&self, range: Range<u64>) -> Result<()>;

    /// The first range of data at or behind `from`. `None` when only a hole is left.
    ///
    /// # Errors
    /// The host's error.
    fn next_data(&self, from: u64) -> Result<Option<Range<u64>>>;

    /// The runs of storage at or behind `from`, at most `max`, and whether there are more. The first may
    /// begin before `from`. The bytes between two runs have no storage.
    ///
    /// # Errors
    /// [`crate::Failure::NotSupported`] if the host does not report them.
    fn extents(&self, from: u64, max: usize) -> Result<(Vec<Extent>, bool)>;

    /// Copies inside the host, and returns the number of bytes. It is less than `len` only at this node's
    /// end.
    ///
    /// # Errors
    /// The host's error.
    fn copy_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<u64>;

    /// Makes `to` share this node's storage for a range.
    ///
    /// # Errors
    /// [`crate::Failure::NotSupported`], [`crate::Failure::CrossDevice`], [`crate::Failure::Invalid`].
    fn clone_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<()>;

    // Attributes ------------------------------------------------------------------------------------

    /// Sets access and modification time.
    ///
    /// # Errors
    /// The host's error.
    fn set_times(&self, times: Times) -> Result<()>;

    /// Sets the permission bits.
    ///
    /// # Errors
    /// The host's error.
    fn set_mode(&self, mode: u32) -> Result<()>;

    /// Sets owner and group; `None` leaves one as it is.
    ///
    /// # Errors
    /// The host's error.
    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()>;

    /// The value of a note.
    ///
    /// # Errors
    /// Those of the host. A file system without extended attributes has no notes.
    fn note(&self, note: Note) -> Result<Option<Vec<u8>>>;

    /// The note that is needed most, and whether the host has access lists of its own.
    ///
    /// # Errors
    /// As [`Node::note`].
    fn overview(&self) -> Result<Overview>;

    /// Sets or (with `None`) removes a note. A file that loses its last name may lose its notes at once,
    /// even while it is open.
    ///
    /// # Errors
    /// [`crate::Failure::Stale`] when the node has no name left and the note would not fit into it;
    /// errors of the host.
    fn set_note(&self, note: Note, value: Option<&[u8]>) -> Result<()>;

    /// All extended attributes that belong to users, by name. The names carry no prefix of the host, and
    /// notes are not among them.
    ///
    /// # Errors
    /// The host's error.
    fn attributes(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// Sets or (with `None`) removes an attribute. Removing an attribute that does not exist is no error.
    ///
    /// # Errors
    /// [`crate::Failure::NoSpace`] when the file has no more space for attributes,
    /// [`crate::Failure::TooLarge`] when the attribute is too large for any file; errors of the host.
    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> Result<()>;

    // Named streams ---------------------------------------------------------------------------------

    /// The named streams of a file or directory. They are removed with its last name. A stream that is
    /// open then can still be used, but no new one can be created ([`crate::Failure::Stale`]).
    ///
    /// # Errors
    /// The host's error.
    fn streams(&self) -> Result<Vec<StreamInfo>>;

    /// Opens a stream by its exact name. With `create` a missing stream is created. A stream's node has
    /// only data: its `stat` returns the stream's own size, and everything else from the owner.
    ///
    /// # Errors
    /// [`crate::Failure::NotFound`]; [`crate::Failure::Exists`] when `exclusive`; errors of the host.
    fn open_stream(&self, name: &Name, create: bool, exclusive: bool) -> Result<Arc<dyn Node>>;

    /// Removes a stream.
    ///
    /// # Errors
    /// [`crate::Failure::NotFound`].
    fn remove_stream(&self, name: &Name) -> Result<()>;

    /// Renames a stream of this node.
    ///
    /// # Errors
    /// [`crate::Failure::Exists`] unless `replace`.
    fn rename_stream(&self, from: &Name, to: &Name, replace: bool) -> Result<()>;

    // Names: on directories only --------------------------------------------------------------------

    /// Opens the node that an exact name leads to. A symbolic link is not followed. A node that is
    /// neither a regular file nor a directory is opened for its attributes only, whatever `how` says: see
    /// [`Node::kind`].
    ///
    /// # Errors
    /// [`crate::Failure::NotFound`] and others.
    fn lookup(&self, name: &Name, how: OpenHow) -> Result<Arc<dyn Node>>;

    /// The attributes of the node that an exact name leads to. The node is not opened, and a symbolic
    /// link is not followed.
    ///
    /// # Errors
    /// [`crate::Failure::NotFound`] and others.
    fn stat_name(&self, name: &Name) -> Result<Stat>;

    /// Creates a regular file that did not exist, and opens it for reading and writing regardless of
    /// `mode`. The process's mask is not applied to `mode`. This and the other calls that create a name
    /// fail with [`crate::Failure::Stale`] when the directory itself was removed.
    ///
    /// # Errors
    /// [`crate::Failure::Exists`] and others.
    fn create_file(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>>;

    /// Creates a directory and opens it.
    ///
    /// # Errors
    /// [`crate::Failure::Exists`] and others.
    fn create_directory(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>>;

    /// Creates a symbolic link with this text.
    ///
    /// # Errors
    /// [`crate::Failure::Exists`] and others.
    fn create_link(&self, name: &Name, text: &[u8], actor: Option<&Actor>) -> Result<Arc<dyn Node>>;

    /// Creates a named pipe, socket or device node; `rdev` as in [`Stat::rdev`].
    ///
    /// # Errors
    /// [`crate::Failure::Exists`]; [`crate::Failure::Invalid`] for any other kind;
    /// [`crate::Failure::Denied`] and others.
    fn create_special(
        &self,
        name: &Name,
        kind: NodeKind,
        mode: u32,
        rdev: u64,
        actor: Option<&Actor>,
    ) -> Result<Arc<dyn Node>>;

    /// Adds a name to a file.
    ///
    /// # Errors
    /// [`crate::Failure::Exists`], [`crate::Failure::TooManyLinks`] and others.
    fn add_name(&self, name: &Name, node: &dyn Node, actor: Option<&Actor>) -> Result<()>;

    /// Removes a name: that of an empty directory if `directory`, that of anything else otherwise.
    ///
    /// # Errors
    /// [`crate::Failure::NotEmpty`] and others.
    fn remove(&self, name: &Name, directory: bool, actor: Option<&Actor>) -> Result<()>;

    /// Checks whether the host's permissions would let `actor` remove the name with [`Node::remove`].
    /// They refuse if the actor may not write in the directory, or if the directory is sticky and the
    /// file belongs to another user. A missing name is not refused.
    ///
    /// # Errors
    /// [`crate::Failure::Denied`] and others.
    fn check_removal(&self, name: &Name, actor: Option<&Actor>) -> Result<()>;

    /// Moves a name. With `replace` an existing node of the new name is replaced, if the host's rules
    /// allow it.
    ///
    /// # Errors
    /// [`crate::Failure::Exists`] without `replace`, and others.
    fn rename(
        &self,
        name: &Name,
        to: &dyn Node,
        to_name: &Name,
        replace: bool,
        actor: Option<&Actor>,
    ) -> Result<()>;

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// [`crate::Failure::Invalid`] when the node is not a symbolic link.
    fn link_text(&self) -> Result<Vec<u8>>;

    /// Shows the entries behind `cookie` (0 is the start) until the visitor stops. An entry that exists
    /// during the whole scan is shown exactly once, even when scans are resumed by cookie while others
    /// add and remove names. No entry has cookie 1 or 2.
    ///
    /// # Errors
    /// The host's error.
    fn entries(&self, cookie: u64, visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>) -> Result<()>;
}

impl dyn Node {
    /// The volume's own type of a node. A call that works on two nodes needs it.
    #[must_use]
    pub fn downcast<T: Node>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}
