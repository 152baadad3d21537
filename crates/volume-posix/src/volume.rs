//! The volume. It is opened once on a directory of the host.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use volume::{Failure, HostEvent, Node, NodeId, NodeKind, Result, Space, Volume, VolumeProperties};

use crate::actor::ProcessIdentity;
use crate::context::VolumeContext;
use crate::errno::{call, failure};
use crate::events::{Events, MissingEvents};
use crate::file_systems::FileSystems;
use crate::mounts::MountsBelow;
use crate::node::PosixNode;
use crate::open::ALWAYS;
use crate::root::Root;
use crate::sidecar::SidecarStore;
use crate::stat::stat_fd;
use crate::sys::Handle;
use crate::table::NodeTable;
use crate::{pool, properties, reserve};

/// A directory of the host as a volume.
pub struct PosixVolume {
    pub(crate) shared: Arc<VolumeContext>,
    pub(crate) root: Arc<PosixNode>,
    events: Option<Events>,
    missing_events: Option<MissingEvents>,
    mounts: MountsBelow,
}

/// The reason why a directory cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be opened.
    #[error("cannot open the directory {path}: {why}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The failure.
        why: Failure,
    },
    /// The path does not lead to a directory.
    #[error("{0} is not a directory")]
    NotADirectory(PathBuf),
    /// The sidecar store cannot be used.
    #[error("cannot use the directory {path} for streams and large attributes: {why}")]
    Sidecar {
        /// The store.
        path: PathBuf,
        /// The failure.
        why: Failure,
    },
}

impl PosixVolume {
    /// Opens `directory`. The directory `sidecar` is the sidecar store, for data that does not fit into
    /// the file system. It is created if it is missing, it should be outside of `directory`, and it must
    /// always be the same for the same directory. A write behind the process's own file size limit ends
    /// the process, unless it ignores SIGXFSZ.
    ///
    /// A process that runs as root stores notes in attributes that only root can change. An unprivileged
    /// process stores them in attributes that each file's owner can change. Neither sees the notes of the
    /// other.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(directory: &Path, sidecar: &Path) -> std::result::Result<PosixVolume, OpenError> {
        PosixVolume::open_as(directory, sidecar, true)
    }

    /// Opens `directory` to read it while a server may use it. Nothing in the store is changed. The volume
    /// reports no changes, and its nodes have no addresses unless the host has them.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_beside(directory: &Path, sidecar: &Path) -> std::result::Result<PosixVolume, OpenError> {
        PosixVolume::open_as(directory, sidecar, false)
    }

    fn open_as(
        directory: &Path,
        sidecar: &Path,
        owns_store: bool,
    ) -> std::result::Result<PosixVolume, OpenError> {
        let wrong = |why| match why {
            Failure::NotADirectory => OpenError::NotADirectory(directory.to_owned()),
            why => OpenError::Directory { path: directory.to_owned(), why },
        };
        // The path of the root itself belongs to the administrator, and may lead through links.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | (ALWAYS - OFlags::NOFOLLOW);
        let root = call(|| rustix::fs::open(directory, flags, Mode::empty())).map_err(wrong)?;
        let stat = stat_fd(&root).map_err(wrong)?;
        let (events, missing_events) = match owns_store.then(|| Events::start(root.as_fd(), stat.id)) {
            Some(Ok(events)) => (Some(events), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let mount_by_handle = Handle::with_mount(root.as_fd())
            .and_then(|(handle, mount)| handle.open(root.as_fd()).map(|_| mount));
        let file_system = properties::file_system_name(root.as_fd()).map_err(wrong)?;
        let wrong_store = |why| OpenError::Sidecar { path: sidecar.to_owned(), why };
        let store = SidecarStore::open(sidecar).map_err(wrong_store)?;
        let file_systems =
            FileSystems::open(root.as_fd(), stat.id.device, store.store().map_err(wrong_store)?, owns_store)
                .map_err(wrong)?;
        let shared = Arc::new(VolumeContext {
            properties: properties::find(root.as_fd(), &stat, file_systems.own(), events.is_some())
                .map_err(wrong)?,
            sidecar: store,
            file_systems,
            process: ProcessIdentity::find().map_err(|errno| wrong(failure(errno)))?,
            is_trusted: properties::may_use_trusted(root.as_fd()),
            umask: properties::umask(),
            table: match mount_by_handle {
                Ok(_) => None,
                Err(_) if !owns_store => None,
                Err(_) => Some(NodeTable::open(
                    sidecar,
                    call(|| rustix::io::fcntl_dupfd_cloexec(&root, 0)).map_err(wrong)?,
                    stat.id,
                )),
            },
            root: Arc::new(Root {
                id: stat.id,
                fd: root,
                mount: mount_by_handle.ok(),
                is_in_memory: matches!(file_system, "tmpfs" | "ramfs"),
            }),
        });
        let root = Arc::new(PosixNode::root(Arc::clone(&shared), &stat));
        let mounts = MountsBelow::of(shared.root.fd.as_fd());
        Ok(PosixVolume { shared, root, events, missing_events, mounts })
    }

    /// The same volume, as if it were on Ceph's file system.
    #[cfg(test)]
    pub(crate) fn on_ceph(self) -> PosixVolume {
        let PosixVolume { shared, root, events, missing_events, mounts } = self;
        drop(root);
        let context = Arc::into_inner(shared).expect("no node is left");
        let file_systems = context.file_systems.on_ceph();
        let shared = Arc::new(VolumeContext { file_systems, ..context });
        let stat = stat_fd(&shared.root.fd).expect("the root is open");
        let root = Arc::new(PosixNode::root(Arc::clone(&shared), &stat));
        PosixVolume { shared, root, events, missing_events, mounts }
    }

    /// Limits the bytes of streams and large notes in the sidecar store. Each counts in blocks of 4 KiB
    /// and one block more. Beyond the limit calls fail with [`Failure::NoSpace`]. Existing data stays.
    pub fn set_sidecar_quota(&self, bytes: u64) {
        self.shared.sidecar.set_quota(bytes);
    }

    /// Why the volume does not report changes by others, although it was opened to be served. `None` if it
    /// does.
    pub fn missing_events(&self) -> Option<MissingEvents> {
        self.missing_events
    }

    /// The number of files with sidecar data. Some of them may have been removed by others.
    pub fn sidecar_count(&self) -> usize {
        self.shared.sidecar.count_folders()
    }

    /// Whether a node of this volume has sidecar data.
    pub fn has_sidecar(&self, node: &dyn Node) -> bool {
        PosixNode::of(node).is_ok_and(|node| self.shared.sidecar.has(node))
    }

    /// Checks up to `at_most` files with sidecar data, and removes the data of files that others removed.
    /// Returns how many were removed. It also checks as many nodes of the table, if the volume has one.
    /// Call it now and then. Each call continues after the last one.
    /// # Errors
    /// [`Failure::Denied`] without the privilege to open files by handle. Nothing can be removed then.
    pub fn collect_orphans(&self, at_most: usize) -> Result<usize> {
        if let Some(table) = &self.shared.table {
            table.collect(at_most);
        }
        if !self.shared.file_systems.has_lasting_handles() {
            return Ok(0);
        }
        self.shared.sidecar.collect(self.shared.root.fd.as_fd(), self.shared.file_systems.own(), at_most)
    }
}

impl fmt::Debug for PosixVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PosixVolume").field("properties", &self.shared.properties).finish_non_exhaustive()
    }
}

impl Volume for PosixVolume {
    fn properties(&self) -> &VolumeProperties {
        &self.shared.properties
    }

    fn root(&self) -> Result<Arc<dyn Node>> {
        if stat_fd(&self.shared.root.fd)?.links == 0 {
            return Err(Failure::Stale);
        }
        Ok(Arc::clone(&self.root) as Arc<dyn Node>)
    }

    fn find(&self, address: &[u8]) -> Result<Arc<dyn Node>> {
        Ok(Arc::new(self.root.find_node(address)?))
    }

    fn space(&self) -> Result<Space> {
        space_of(self.shared.root.fd.as_fd())
    }

    fn space_at(&self, node: &dyn Node) -> Result<Space> {
        let node = PosixNode::of(node)?;
        if node.id.device == self.shared.root.id.device { self.space() } else { space_of(node.fd()?.as_fd()) }
    }

    fn is_short(&self) -> bool {
        reserve::are_scarce(self.shared.root.fd.as_fd())
    }

    fn release_unused(&self) {
        if pool::is_in_use() {
            reserve::is_short(self.shared.root.fd.as_fd());
        }
    }

    fn watch(&self, directory: &dyn Node) -> Result<()> {
        let node = PosixNode::of(directory)?;
        if node.kind != NodeKind::Directory {
            return Err(Failure::NotADirectory);
        }
        self.events.as_ref().ok_or(Failure::NotSupported)?.watch(node)
    }

    fn unwatch(&self, directory: NodeId) {
        if let Some(events) = &self.events {
            events.unwatch(directory);
        }
    }

    fn take_events(&self, sink: &mut dyn FnMut(HostEvent)) {
        if let Some(events) = &self.events {
            events.take(sink);
            if self.mounts.have_changed(self.shared.root.fd.as_fd()) {
                sink(HostEvent::Mounts);
            }
        }
    }

    fn wait_events(&self, at_most: Duration) -> bool {
        match &self.events {
            Some(events) => events.wait(at_most),
            None => {
                std::thread::sleep(at_most);
                false
            }
        }
    }
}

/// The space on the file system of a descriptor.
fn space_of(fd: BorrowedFd<'_>) -> Result<Space> {
    let room = call(|| rustix::fs::fstatvfs(fd))?;
    let block = if room.f_frsize == 0 { room.f_bsize } else { room.f_frsize };
    Ok(Space {
        total: room.f_blocks.saturating_mul(block),
        free: room.f_bfree.saturating_mul(block),
        available: room.f_bavail.saturating_mul(block),
        block: u32::try_from(block).unwrap_or(4096),
        files: room.f_files,
        files_free: room.f_favail,
    })
}
