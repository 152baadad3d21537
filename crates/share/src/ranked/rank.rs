//! The table of all locks.

/// The locks of the engine, in the order in which a thread may take them. A thread may take a lock only while
/// it holds none of the same rank or of a later one. While it holds a leaf it may take nothing at all.
///
/// Every debug build checks this: [`Mutex`](super::Mutex) and [`RwLock`](super::RwLock) panic with both
/// names.
///
/// One exception is in the table: a thread may hold several locks of [`Rank::NamesChange`], if it takes them
/// by their address. A lock that is only tried, and given up after a time, cannot be part of a circle of
/// waits. It may be taken out of order, and counts as held then.
///
/// No holder is notified and no waiter is woken while any of these is held. The notices are collected in
/// `engine::values::effects::Effects`, and `Share::settle` sends them. The volume may block. So it is never
/// called under [`Rank::FileState`], and under [`Rank::NamesChange`] and [`Rank::Contents`] only for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// `HostEventIntake::taking`: one thread at a time takes in the host's events.
    HostEvents,
    /// `WatchedTree::walk`: a tree of directories is walked for the watches on it.
    TreeWalk,
    /// `RecycleBin::links`: one of several names of a file is removed for good.
    LinkRemoval,
    /// `RecycleBin::turn`: one thread at a time searches the recycle folder, or makes room.
    RecycleTurn,
    /// `RecycleBin::moves`: clients move directories, or a file of the recycle folder is removed for good.
    RecycleMoves,
    /// `Directory::changing`: one change of names in a directory at a time. Two directories: by address.
    NamesChange,
    /// `Directory::contents`: its index of names and known subdirectories. The one of another directory is
    /// only tried.
    Contents,
    /// A shard of `OpenFileTable`: the open files.
    FileShard,
    /// `Stream::appending`: writes behind the end, by one thread at a time.
    Appending,
    /// `File::beside`: the sidecar data of a file, by one thread at a time.
    Beside,
    /// `Recorder::writer`: the journal is written in the order in which changes were noted.
    RecordWriter,
    /// `File::state`: the state of an open file.
    FileState,

    /// `Open::watch`: a watch is begun once, and entered among all.
    OpenWatch,
    /// `Watches::trees`: a tree is shared with a watch whose directory is below its root.
    WatchedTrees,
    /// `DirectoryWatch::pending`: a request that finds no change waits before the next can come.
    WatchPending,
    /// `DetachedTable`: opens whose clients are gone. Their owners and paths are read under it.
    Detached,
    /// `Fairness::holders`: the number of descriptors of each client. The owners of opens are read under it.
    DescriptorHolders,
    /// `Open::charge`: its part of the memory for clients.
    OpenCharge,
    /// `RecordFreeze`: records are noted, or a backup lets none be noted. A backup only tries the locks of
    /// writers then.
    RecordFreeze,

    /// `HardLinkedName::parent_and_name`: the parent and name. It is the first of the leaves, under which no
    /// other lock is taken.
    LinkPlace,
    /// `Stream::name`.
    StreamName,
    /// `Open::party`: the owner of an open.
    Party,
    /// `FollowedLinks::itself`: the link that was opened in place of its target.
    LastLink,
    /// `Directory::location`: the location of a directory.
    Location,
    /// `Directories::known`: the kept directories.
    Directories,
    /// `Directory::own`: the cached properties of a directory itself.
    DirectoryOwn,
    /// `Pages::state`: the stored listing of a directory.
    Listings,
    /// `WatchedTree::directories`: the directories that it holds.
    WatchedDirectories,
    /// `DirectoryWatch::tree`: the tree that it shares.
    WatchTree,
    /// `Watches::by_directory`: all watches.
    Watches,
    /// `Waits::waiting`: the waiting requests.
    Waiting,
    /// `Waits::deadlines`: the deadlines of holders.
    Deadlines,
    /// `Waits::later`: the requests that wait for a time.
    Later,
    /// `Clients` in `Waits`: the clients that hear of breaks.
    Clients,
    /// `Keys`: the stream of the right under each key.
    Keys,
    /// `Contention::files`: files that get no right for a while.
    Contention,
    /// `ExpiryKeepers`: the callbacks that end clients whose time is over.
    TimeKeepers,
    /// `Unrestored::table`: opens from before a restart that are not restored yet.
    Unrestored,
    /// `Recorder::noted`: the records of opens.
    Noted,
    /// A part of one of the tables of the cache.
    CachePart,
    /// A shard of `Versions`: the versions that were given out.
    Versions,
    /// `Descriptors::sharing`: the shares with a common limit.
    DescriptorShares,
    /// `FamilyCounters::all`: the counters of each family.
    Counts,
    /// `RecycleBin::search`: the search for the files in the recycle folder, while no thread goes on with it.
    RecycleSearch,
    /// A shard of `ClientMemory`: the charge of each account.
    ClientMemory,
}

#[cfg(debug_assertions)]
impl Rank {
    /// Whether no lock may be taken under it.
    pub(super) fn is_leaf(self) -> bool {
        self >= Rank::LinkPlace
    }

    /// Whether a thread may hold several, taken by their address.
    pub(super) fn goes_by_address(self) -> bool {
        self == Rank::NamesChange
    }
}
