//! From the handle of a node in an event to the node.
//!
//! An event names a file by its directory and name. By the time that it is read, the name may lead to another
//! file: a program has written to one of two hard links and then replaced it. The handle still leads to the
//! file that was written.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use volume::NodeId;

use super::raw::Fid;
use crate::stat::stat_fd;

/// The number of handles that are remembered. A program that writes one file again and again then costs
/// nothing for each event.
const REMEMBERED: usize = 256;

/// The nodes of recent handles. A handle is never given to another node. The device may get another number
/// when the file system is mounted anew.
#[derive(Default)]
pub(super) struct ChangedNodes {
    by_fid: HashMap<Fid, NodeId>,
    /// Whether this process may not open files by handle (open_by_handle_at(2): CAP_DAC_READ_SEARCH).
    is_forbidden: bool,
}

impl ChangedNodes {
    /// The node with this handle on the file system of `directory`, which is open as `mount`. None if the
    /// node is gone, or if this process may not look it up.
    pub(super) fn find(&mut self, fid: &Fid, directory: NodeId, mount: BorrowedFd<'_>) -> Option<NodeId> {
        if let Some(node) = self.by_fid.get(fid).filter(|node| node.device == directory.device) {
            return Some(*node);
        }
        if self.is_forbidden {
            return None;
        }
        let opened = match fid.handle.open(mount) {
            Ok(opened) => opened,
            Err(errno) => {
                self.is_forbidden = errno == Errno::PERM;
                return None;
            }
        };
        let node = stat_fd(&opened).ok()?.id;
        if self.by_fid.len() >= REMEMBERED {
            self.by_fid.clear();
        }
        self.by_fid.insert(fid.clone(), node);
        Some(node)
    }
}
