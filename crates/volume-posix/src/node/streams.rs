//! Named streams: files in the sidecar store, in the folder of the file that they belong to.

use std::sync::Arc;

use rustix::fs::{Mode, OFlags, RenameFlags};
use std::os::fd::AsFd;
use volume::{Failure, Name, NodeKind, OpenHow, Result, StreamInfo};

use crate::errno::call;
use crate::node::PosixNode;
use crate::open::open_below;
use crate::pool::Descriptor;
use crate::scan::scan;
use crate::stat::{stat_below, stat_fd};

impl PosixNode {
    pub(crate) fn list_streams(&self) -> Result<Vec<StreamInfo>> {
        let Some(folder) = self.shared.sidecar.streams(self)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        let mut failed = None;
        scan(folder.as_fd(), 0, &mut |entry| {
            match stat_below(folder.as_fd(), entry.name.as_bytes()) {
                Ok(stat) => {
                    found.push(StreamInfo { name: entry.name, size: stat.size, allocated: stat.allocated });
                }
                // The stream was removed in between.
                Err(Failure::NotFound) => {}
                Err(why) => failed = Some(why),
            }
            std::ops::ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(found), Err)
    }

    pub(crate) fn stream(&self, name: &Name, create: bool, exclusive: bool) -> Result<PosixNode> {
        if !matches!(self.kind, NodeKind::File | NodeKind::Directory) {
            return Err(Failure::NotSupported);
        }
        let existing = match self.shared.sidecar.streams(self)? {
            Some(folder) => open_below(folder.as_fd(), name.as_bytes(), OFlags::RDWR, Mode::empty()),
            None => Err(Failure::NotFound),
        };
        let fd = match existing {
            Err(Failure::NotFound) if create => self.shared.sidecar.make_stream(self, name, exclusive)?,
            Ok(_) if create && exclusive => return Err(Failure::Exists),
            other => other?,
        };
        Ok(PosixNode {
            shared: Arc::clone(&self.shared),
            descriptor: Descriptor::Kept(fd),
            id: self.id,
            kind: NodeKind::File,
            how: OpenHow::ReadWrite,
            is_path: false,
            born: self.born,
            first: None,
            owner: Some(Box::new(self.duplicate()?)),
        })
    }

    pub(crate) fn unlink_stream(&self, name: &Name) -> Result<()> {
        self.shared.sidecar.remove_stream(self, name)
    }

    pub(crate) fn move_stream(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        let folder = self.shared.sidecar.streams(self)?.ok_or(Failure::NotFound)?;
        if from == to {
            return stat_below(folder.as_fd(), from.as_bytes()).map(|_| ());
        }
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let replaced = stat_below(folder.as_fd(), to.as_bytes()).ok();
        call(|| rustix::fs::renameat_with(&folder, from.as_bytes(), &folder, to.as_bytes(), flags))?;
        if let Some(stat) = replaced {
            self.shared.sidecar.release_space(stat.size);
        }
        Ok(())
    }

    /// Runs `grow`, which may extend a stream up to `end`. Space for the growth is reserved first, and
    /// released if the call fails. A node that is not a stream has its data on the served file system.
    pub(crate) fn grow_stream<T>(&self, end: u64, grow: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.owner.is_none() {
            return grow();
        }
        // Without the lock, two calls that extend one stream would both reserve the space.
        let _growth = self.shared.sidecar.growth.lock();
        let size = stat_fd(self.fd()?)?.size;
        if end <= size {
            return grow();
        }
        let sidecar = &self.shared.sidecar;
        sidecar.reserve_space(Some(size), end)?;
        grow().inspect_err(|_| sidecar.undo_reservation(Some(size), end))
    }

    /// Runs `resize`, which sets a stream's size, and reserves or releases the difference.
    pub(crate) fn resize_stream(&self, size: u64, resize: impl FnOnce() -> Result<()>) -> Result<()> {
        let before = if self.owner.is_some() { stat_fd(self.fd()?)?.size } else { 0 };
        self.grow_stream(size, resize)?;
        if size < before {
            self.shared.sidecar.reserve_space(Some(before), size)?;
        }
        Ok(())
    }
}
