//! What all nodes of a volume share.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use volume::{VolumeProperties, NodeKind, Result, Stat};

use crate::actor::Myself;
use crate::beside::Beside;
use crate::file_systems::FileSystems;
use crate::node::PosixNode;
use crate::root::Root;
use crate::stat::stat_fd;
use crate::table::Table;

/// What all nodes of a volume share.
pub(crate) struct Shared {
    pub(crate) facts: VolumeProperties,
    pub(crate) beside: Beside,
    pub(crate) file_systems: FileSystems,
    pub(crate) myself: Myself,
    /// Whether notes live where a file's owner cannot reach them.
    pub(crate) is_trusted: bool,
    pub(crate) umask: u32,
    pub(crate) root: Arc<Root>,
    /// Where nodes stand, as far as they must be found again; none where the host opens them by handle.
    pub(crate) table: Option<Table>,
}

impl Shared {
    /// The identity of the file system of a file, whose device number is `device`.
    pub(crate) fn file_system_of(&self, fd: BorrowedFd<'_>, device: u64) -> Result<u64> {
        let is_used = |number| self.beside.has_file_system(number);
        self.file_systems.of(fd, device, self.root.fd.as_fd(), is_used)
    }

    /// The stat of a file with what the host does not say: which file system it is on. `open` opens it, where that must be asked.
    pub(crate) fn located(&self, stat: Stat, open: impl FnOnce() -> Result<OwnedFd>) -> Result<Stat> {
        let device = stat.id.device;
        if device == self.root.id.device {
            return Ok(stat);
        }
        let file_system = match self.file_systems.known(device) {
            Some(id) => id,
            None => {
                let fd = open()?;
                self.file_system_of(fd.as_fd(), stat_fd(&fd)?.id.device)?
            }
        };
        Ok(Stat { file_system, ..stat })
    }

    /// Forgets what is kept of a node that has just lost a name, if it was the last.
    pub(crate) fn lost_name(&self, node: Option<PosixNode>) {
        let Some(node) = node else { return };
        // A directory has one name only, and its count of links says something else on some file systems.
        if node.kind == NodeKind::Directory || node.fd().and_then(stat_fd).is_ok_and(|stat| stat.links == 0) {
            self.beside.forget(&node);
            if let Some(table) = &self.table {
                table.gone(node.key());
            }
        }
    }
}
