//! The storage trait: a [`Volume`] hands out [`Node`]s.
//!
//! All calls may block unless they take [`Patience::Cached`]. All are safe to call from several
//! threads on one node. A volume never interprets what the engine stores in notes and streams.

use std::any::Any;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use wire::FileRange;

use crate::metered::Meter;
use crate::{
    Actor, DirEntry, Extent, HostEvent, Kind, Name, NodeId, Note, OpenHow, Overview, Patience, Result, Space,
    Stat, StreamInfo, Time, Times,
};

/// What a volume is and can do; constant while it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The file system's own name, such as `ext4`.
    pub file_system: String,
    /// Tells this volume from others, and stays the same when it is opened again.
    pub serial: u64,
    /// When the volume was made, as far as is known.
    pub born: Time,
    /// Longest name in bytes.
    pub name_max: u32,
    /// Whether the volume itself matches names without regard to case.
    pub folds_case: bool,
    /// Whether two nodes can share storage ([`Node::clone_range`]).
    pub clones: bool,
    /// Whether the device below can be told what is no longer used.
    pub discards: bool,
    /// Whether extended attributes are kept.
    pub extended_attributes: bool,
    /// Whether nothing can be changed.
    pub read_only: bool,
    /// Whether [`Volume::take_events`] tells of changes by others.
    pub tells_changes: bool,
}

/// A place that holds files.
pub trait Volume: Send + Sync + 'static {
    /// What it is and can do.
    fn facts(&self) -> &Facts;

    /// The directory that everything is below.
    ///
    /// # Errors
    /// [`crate::Failure::Stale`] when it has vanished.
    fn root(&self) -> Result<Arc<dyn Node>>;

    /// The node with this address ([`Node::address`]), opened for its attributes; a directory also for its
    /// names. That it stands below the root is known of a directory by its [`Node::place`]s alone.
    ///
    /// # Errors
    /// [`crate::Failure::Stale`] when there is no such node any more; [`crate::Failure::Busy`] while it is still
    /// looked for; [`crate::Failure::Denied`] when the process may not open nodes so.
    fn find(&self, address: &[u8]) -> Result<Arc<dyn Node>>;

    /// Room in bytes, as the host gives it now.
    ///
    /// # Errors
    /// As the host says.
    fn space(&self) -> Result<Space>;

    /// Room on the file system that a node is on, which another may be mounted below the root.
    ///
    /// # Errors
    /// As the host says.
    fn space_at(&self, node: &dyn Node) -> Result<Space> {
        let _ = node;
        self.space()
    }

    /// Whether what files take of the host (descriptors) is scarce, though what nobody uses was given back: then it is to be shared
    /// out fairly. As long as it is not, this costs next to nothing.
    fn is_short(&self) -> bool {
        false
    }

    /// Gives back what nobody uses where little is left for others of the process. To be called now and then.
    fn keep_room(&self) {}

    /// Makes sure that changes by others inside `directory` (and to what its names lead to) are told
    /// from now on. Watches are counted: each call is undone by one [`Volume::unwatch`].
    ///
    /// # Errors
    /// [`crate::Failure::NotSupported`] when the host does not tell; [`crate::Failure::Exhausted`].
    fn watch(&self, directory: &dyn Node) -> Result<()>;

    /// Undoes one [`Volume::watch`].
    fn unwatch(&self, directory: NodeId);

    /// Takes what others have changed since the last call, oldest first, without waiting.
    fn take_events(&self, sink: &mut dyn FnMut(HostEvent));

    /// Waits until there is something to take, at most this long; true when there is. For one thread
    /// that looks after a volume nobody is talking to.
    fn wait_events(&self, at_most: Duration) -> bool;

    /// What counts the volume's contents; none: nothing does.
    fn meter(&self) -> Option<&Arc<Meter>> {
        None
    }
}

/// An open file, directory, symbolic link or special file.
pub trait Node: Any + Send + Sync {
    /// Its identity.
    fn id(&self) -> NodeId;

    /// What it is.
    fn kind(&self) -> Kind;

    /// What it is open for.
    fn how(&self) -> OpenHow;

    /// Whether it holds nothing of the host now, since nobody uses it.
    fn is_closed(&self) -> bool {
        false
    }

    /// The same node opened for more. Permission was checked by the engine; the host may still refuse.
    ///
    /// # Errors
    /// [`crate::Failure::Denied`], [`crate::Failure::ReadOnly`], [`crate::Failure::Busy`] and others.
    fn open_again(&self, how: OpenHow) -> Result<Arc<dyn Node>>;

    /// What is known of it now.
    ///
    /// # Errors
    /// As the host says.
    fn stat(&self) -> Result<Stat>;

    /// What was known of it when it was opened by [`Node::lookup`] or made, where the volume had to ask for that
    /// anyway. For who has just done so, and needs not ask again.
    fn first_stat(&self) -> Option<Stat> {
        None
    }

    /// Up to [`crate::ADDRESS_MAX`] bytes by which [`Volume::find`] finds the node again, also when the volume
    /// was opened anew; a later file never has them.
    ///
    /// # Errors
    /// [`crate::Failure::NotSupported`] where the host gives no such thing.
    fn address(&self) -> Result<Vec<u8>>;

    /// The directory that a directory stands in, and its name there; none for the root of the volume.
    ///
    /// # Errors
    /// [`crate::Failure::Stale`] when it was removed or stands outside of the volume;
    /// [`crate::Failure::NotADirectory`].
    fn place(&self) -> Result<Option<(Arc<dyn Node>, Name)>>;

    // Data ------------------------------------------------------------------------------------------

    /// Appends up to `len` bytes from offset `at` to `out` and says how many; 0 at or behind the end.
    /// With [`Patience::Cached`] it is all or nothing: fewer bytes only at the end of the file.
    ///
    /// # Errors
    /// [`crate::Failure::WouldBlock`] when patience ended (`out` is as before); as the host says.
    fn read(&self, at: u64, len: usize, out: &mut Vec<u8>, patience: Patience) -> Result<usize>;

    /// Up to `len` bytes from offset `at` as a piece of a file of the host, to be sent without being copied;
    /// fewer only at the end of the file. Nothing where they are not all in memory, where that cannot be
    /// told, or where the volume's data does not lie in such files: then [`Node::read`] is the way. Never
    /// waits.
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
    /// As the host says; what was written before the failure stays.
    fn write(&self, at: u64, data: &[u8]) -> Result<()>;

    /// Returns once everything written is on stable storage, and its metadata unless `data_only`.
    ///
    /// # Errors
    /// As the host says.
    fn sync(&self, data_only: bool) -> Result<()>;

    /// Cuts or extends to `size`.
    ///
    /// # Errors
    /// As the host says.
    fn set_size(&self, size: u64) -> Result<()>;

    /// Backs `range` with storage; the length stays as it is.
    ///
    /// # Errors
    /// As the host says.
    fn allocate(&self, range: Range<u64>) -> Result<()>;

    /// Makes `range` read as zeros and gives its storage back where the host can; the length stays.
    ///
    /// # Errors
    /// As the host says.
    fn punch(&self, range: Range<u64>) -> Result<()>;

    /// The first range of data at or behind `from`; none when only a hole is left.
    ///
    /// # Errors
    /// As the host says.
    fn next_data(&self, from: u64) -> Result<Option<Range<u64>>>;

    /// The runs of storage at or behind `from`, at most `max`, and whether there are more. The first may begin before `from`; what
    /// lies between two runs has no storage.
    ///
    /// # Errors
    /// [`crate::Failure::NotSupported`] where the host does not say it.
    fn extents(&self, from: u64, max: usize) -> Result<(Vec<Extent>, bool)>;

    /// Copies inside the host; says how many bytes, fewer only at this node's end.
    ///
    /// # Errors
    /// As the host says.
    fn copy_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<u64>;

    /// Lets `to` share this node's storage for a range.
    ///
    /// # Errors
    /// [`crate::Failure::NotSupported`], [`crate::Failure::CrossDevice`], [`crate::Failure::Invalid`].
    fn clone_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<()>;

    // Attributes ------------------------------------------------------------------------------------

    /// Sets access and modification time.
    ///
    /// # Errors
    /// As the host says.
    fn set_times(&self, times: Times) -> Result<()>;

    /// Sets the permission bits.
    ///
    /// # Errors
    /// As the host says.
    fn set_mode(&self, mode: u32) -> Result<()>;

    /// Sets owner and group; `None` leaves one as it is.
    ///
    /// # Errors
    /// As the host says.
    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()>;

    /// A note that the engine left.
    ///
    /// # Errors
    /// As the host says; a file system without extended attributes has none.
    fn note(&self, note: Note) -> Result<Option<Vec<u8>>>;

    /// The note that is asked for most, and whether the host has lists of its own.
    ///
    /// # Errors
    /// As [`Node::note`].
    fn overview(&self) -> Result<Overview>;

    /// Leaves, replaces or (with `None`) removes a note. A file that loses its last name may lose its
    /// notes with it, though it is still open.
    ///
    /// # Errors
    /// [`crate::Failure::Stale`] when the node has no name left and the note would not fit into it;
    /// As the host says.
    fn set_note(&self, note: Note, value: Option<&[u8]>) -> Result<()>;

    /// All extended attributes that users own, by name; names carry no prefix of the host's, and notes
    /// are not among them.
    ///
    /// # Errors
    /// As the host says.
    fn attributes(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// Sets or (with `None`) removes one; removing what is not there is no error.
    ///
    /// # Errors
    /// [`crate::Failure::NoSpace`] when the file has no more room for attributes, [`crate::Failure::TooLarge`] when no
    /// file has room for this one; as the host says.
    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> Result<()>;

    // Named streams ---------------------------------------------------------------------------------

    /// The named streams of a file or directory. They go with its last name; a stream that is open then
    /// can still be used, but no new one be made ([`crate::Failure::Stale`]).
    ///
    /// # Errors
    /// As the host says.
    fn streams(&self) -> Result<Vec<StreamInfo>>;

    /// Opens a stream by its exact name; `create` makes it where it is missing. A stream's node has
    /// data only: its `stat` gives the stream's own size and the owner's everything else.
    ///
    /// # Errors
    /// [`crate::Failure::NotFound`]; [`crate::Failure::Exists`] when `exclusive`; as the host says.
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

    /// What an exact name leads to; a symbolic link is not followed. What is neither a regular file nor a
    /// directory is opened for its attributes only, whatever is asked for: see [`Node::kind`].
    ///
    /// # Errors
    /// [`crate::Failure::NotFound`] and others.
    fn lookup(&self, name: &Name, how: OpenHow) -> Result<Arc<dyn Node>>;

    /// The figures of the file that an exact name leads to, which is not opened; a symbolic link is not followed.
    ///
    /// # Errors
    /// [`crate::Failure::NotFound`] and others.
    fn stat_name(&self, name: &Name) -> Result<Stat>;

    /// Makes a regular file that did not exist and opens it for reading and writing, whatever `mode` says.
    /// `mode` counts as given, whatever mask the process has. This and the other calls that make a name
    /// fail with [`crate::Failure::Stale`] when the directory itself was removed.
    ///
    /// # Errors
    /// [`crate::Failure::Exists`] and others.
    fn create_file(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>>;

    /// Makes a directory and opens it.
    ///
    /// # Errors
    /// [`crate::Failure::Exists`] and others.
    fn create_directory(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>>;

    /// Makes a symbolic link with this text.
    ///
    /// # Errors
    /// [`crate::Failure::Exists`] and others.
    fn create_link(&self, name: &Name, text: &[u8], actor: Option<&Actor>) -> Result<Arc<dyn Node>>;

    /// Makes a named pipe, socket or device node; `rdev` as in [`Stat::rdev`].
    ///
    /// # Errors
    /// [`crate::Failure::Exists`]; [`crate::Failure::Invalid`] for any other kind;
    /// [`crate::Failure::Denied`] and others.
    fn create_special(
        &self,
        name: &Name,
        kind: Kind,
        mode: u32,
        rdev: u64,
        actor: Option<&Actor>,
    ) -> Result<Arc<dyn Node>>;

    /// Gives a file a further name.
    ///
    /// # Errors
    /// [`crate::Failure::Exists`], [`crate::Failure::TooManyLinks`] and others.
    fn add_name(&self, name: &Name, node: &dyn Node, actor: Option<&Actor>) -> Result<()>;

    /// Removes a name: an empty directory's if `directory`, anything else's otherwise.
    ///
    /// # Errors
    /// [`crate::Failure::NotEmpty`] and others.
    fn remove(&self, name: &Name, directory: bool, actor: Option<&Actor>) -> Result<()>;

    /// Refuses if the host's permissions would not let [`Node::remove`] take the name away for `actor`: they may not write in
    /// the directory, or it is sticky and the file another's. A name that is not there is no reason.
    ///
    /// # Errors
    /// [`crate::Failure::Denied`] and others.
    fn check_removal(&self, name: &Name, actor: Option<&Actor>) -> Result<()>;

    /// Moves a name. With `replace` what stands at the new name is replaced, if the host's rules allow.
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
    /// [`crate::Failure::Invalid`] when it is none.
    fn link_text(&self) -> Result<Vec<u8>>;

    /// Shows the directory's entries behind `cookie` (0 from the start) until the visitor breaks off.
    /// An entry that stands there during the whole scan is shown exactly once, also when scans are
    /// resumed by cookie while others add and remove names. No entry's cookie is 1 or 2.
    ///
    /// # Errors
    /// As the host says.
    fn entries(&self, cookie: u64, visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>) -> Result<()>;
}

impl dyn Node {
    /// The volume's own type behind a node, to work on two nodes at once.
    #[must_use]
    pub fn downcast<T: Node>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}
