//! The table of all locks.

/// The locks of the engine, in the order in which a thread may take them: each only while it holds none that stands at the
/// same line or further down, and nothing at all while it holds a leaf.
///
/// That is held by every debug build: [`Mutex`](super::Mutex) and [`RwLock`](super::RwLock) panic with both names.
///
/// One exception is in the table: of [`Rank::NamesChange`] a thread may hold several, which it has taken by their address. What is
/// only tried, and given up after a time, cannot be waited for in a circle: it may be taken out of order, and counts as held then.
///
/// No holder is told, and no waiter woken, while any of these is held: what is to be sent is collected in `engine::values::effects::Effects` and
/// sent by `Share::settle`. The volume may block, so it is called under [`Rank::FileState`] never, and under
/// [`Rank::NamesChange`] and [`Rank::Contents`] only for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// `Intake::taking`: what happened on the host is taken in by one thread at a time.
    HostEvents,
    /// `WatchedTree::walk`: a tree of directories is walked for the watches on it.
    TreeWalk,
    /// `Directory::changing`: one change of names in a directory at a time. Two directories: by address.
    NamesChange,
    /// `Directory::contents`: its index of names and known subdirectories. That of another one is only tried.
    Contents,
    /// A shard of `Files`: which files are open.
    FileShard,
    /// `Stream::appending`: data that goes behind the end, by one thread at a time.
    Appending,
    /// `File::beside`: what lies beside a file, by one thread at a time.
    Beside,
    /// `Recorder::writer`: what was noted of opens goes into the journal in its order.
    RecordWriter,
    /// `File::state`: everything about an open file.
    FileState,

    /// `Open::watch`: a watch is begun once, and entered among all.
    OpenWatch,
    /// `Watching::trees`: a tree is shared with a watch whose directory stands below its root.
    WatchedTrees,
    /// `Watch::pending`: who finds no change waits before the next can come.
    WatchPending,
    /// `Detachment`: opens whose clients are gone, by whose they are and where they stand.
    Detached,
    /// `Fairness::holders`: what clients have of the descriptors, by whose the opens are.
    DescriptorHolders,
    /// `Open::charge`: its part of the memory for clients.
    OpenCharge,

    /// `Link::place`: where a name is. The first of the leaves, under which nothing else is locked.
    LinkPlace,
    /// `Stream::name`.
    StreamName,
    /// `Open::party`: whose an open is.
    Party,
    /// `Followed::itself`: the link that was opened in the place of what it leads to.
    LastLink,
    /// `Directory::standing`: where a directory stands.
    Standing,
    /// `Directories::known`: which directories are kept.
    Directories,
    /// `Directory::own`: what was seen of a directory itself.
    DirectoryOwn,
    /// `Pages::state`: what a directory lists.
    Listings,
    /// `WatchedTree::directories`: those that it holds.
    WatchedDirectories,
    /// `Watch::tree`: the tree that it shares.
    WatchTree,
    /// `Watching::by_directory`: all watches.
    Watches,
    /// `Waits::waiting`: who waits.
    Waiting,
    /// `Waits::deadlines`: until when holders may take their time.
    Deadlines,
    /// `Waits::later`: who waits for a time.
    Later,
    /// `Clients` in `Waits`: who hears of breaks.
    Clients,
    /// `Keys`: where the right under a key is.
    Keys,
    /// `Contention::files`: files of which no right is given for a while.
    Contention,
    /// `Keepers`: who ends clients whose time is over.
    TimeKeepers,
    /// `Recorder::noted`: what is recorded of opens.
    Noted,
    /// A part of one of the tables of the cache.
    CachePart,
    /// A shard of `Versions`: what was told of files.
    Versions,
    /// `Descriptors::sharing`: the shares that have their descriptors together.
    DescriptorShares,
    /// `Counting::all`: the counts of each family.
    Counts,
    /// A shard of `ClientMemory`: what each payer has.
    ClientMemory,
}

#[cfg(debug_assertions)]
impl Rank {
    /// Whether nothing is locked under it.
    pub(super) fn is_leaf(self) -> bool {
        self >= Rank::LinkPlace
    }

    /// Whether a thread may hold several, taken by their address.
    pub(super) fn goes_by_address(self) -> bool {
        self == Rank::NamesChange
    }
}
