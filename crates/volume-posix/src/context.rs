//! The state that all nodes of a volume share.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use volume::{NodeKind, Result, Stat, Time, VolumeProperties};

use crate::actor::ProcessIdentity;
use crate::file_systems::FileSystems;
use crate::node::PosixNode;
use crate::root::Root;
use crate::sidecar::SidecarStore;
use crate::stat::stat_fd;
use crate::table::NodeTable;

/// The state that all nodes of a volume share. Each node holds a reference to it.
pub(crate) struct VolumeContext {
    pub(crate) properties: VolumeProperties,
    pub(crate) sidecar: SidecarStore,
    pub(crate) file_systems: FileSystems,
    pub(crate) process: ProcessIdentity,
    /// Whether notes are stored in attributes that a file's owner cannot change.
    pub(crate) is_trusted: bool,
    pub(crate) umask: u32,
    pub(crate) root: Arc<Root>,
    /// The places of nodes that must be found again. `None` if the host opens them by handle.
    pub(crate) table: Option<NodeTable>,
}

impl VolumeContext {
    /// The identity of the file system of a file with the device number `device`.
    pub(crate) fn file_system_of(&self, fd: BorrowedFd<'_>, device: u64) -> Result<u64> {
        let is_used = |number| self.sidecar.has_file_system(number);
        self.file_systems.of(fd, device, self.root.fd.as_fd(), is_used)
    }

    /// Adds the identity of the file system to a stat of the host. `open` opens the file if the host must
    /// be asked.
    pub(crate) fn with_file_system(
        &self,
        stat: Stat,
        open: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<Stat> {
        let device = stat.id.device;
        if device == self.root.id.device {
            return Ok(self.with_lasting_birth(stat));
        }
        let file_system = match self.file_systems.known(device) {
            Some(id) => id,
            None => {
                let fd = open()?;
                self.file_system_of(fd.as_fd(), stat_fd(&fd)?.id.device)?
            }
        };
        Ok(self.with_lasting_birth(Stat { file_system, ..stat }))
    }

    /// A stat without the birth time if that changes. Engines tell a file from a later one by it.
    pub(crate) fn with_lasting_birth(&self, stat: Stat) -> Stat {
        Stat { born: stat.born.filter(|_| !self.births_pass(&stat)), ..stat }
    }

    /// The birth time that distinguishes a file from a later one with the same number. Zero if the file has
    /// none, or one that changes.
    pub(crate) fn lasting_birth(&self, stat: &Stat) -> Time {
        self.with_lasting_birth(*stat).born.unwrap_or_default()
    }

    /// Whether a file is the one with this lasting birth time. Addresses of earlier versions have one that
    /// changes.
    pub(crate) fn is_born_at(&self, stat: &Stat, born: Time) -> bool {
        self.births_pass(stat) || stat.born.unwrap_or_default() == born
    }

    /// Whether the birth time of a file changes while it stays. The table of nodes has the birth times that
    /// the host reports.
    fn births_pass(&self, stat: &Stat) -> bool {
        self.table.is_none() && self.file_systems.is_ceph(stat.id.device)
    }

    /// Removes the stored data of a node that has just lost a name, if that was the last.
    pub(crate) fn lost_name(&self, node: Option<PosixNode>) {
        let Some(node) = node else { return };
        // A directory has exactly one name. On some file systems its link count means something else.
        if node.kind == NodeKind::Directory || node.fd().and_then(stat_fd).is_ok_and(|stat| stat.links == 0) {
            self.sidecar.forget(&node);
            if let Some(table) = &self.table {
                table.gone(node.key());
            }
        }
    }
}
