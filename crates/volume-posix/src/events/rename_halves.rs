//! Renames that the host reports in two halves, joined again. From Linux 5.17 on they are one event
//! (`FAN_RENAME`).
//!
//! The halves carry nothing that links them. But one call produces both, one directly after the other. So
//! two consecutive halves of one process belong together.

use volume::{HostChange, HostEvent, Name, NodeId};

/// The first half of a rename, while its second half may still come.
#[derive(Debug, Default)]
pub(super) struct PendingRename {
    first: Option<(i32, RenameHalf)>,
}

/// One half of a rename: the old name or the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RenameHalf {
    pub directory: NodeId,
    pub name: Name,
    pub is_directory: bool,
}

impl PendingRename {
    /// Handles the old name of a rename. It is reported when it is clear whether a new name follows.
    pub fn went(&mut self, pid: i32, half: RenameHalf, sink: &mut dyn FnMut(HostEvent)) {
        self.end(sink);
        self.first = Some((pid, half));
    }

    /// Handles the new name of a rename.
    pub fn came(&mut self, pid: i32, half: RenameHalf, sink: &mut dyn FnMut(HostEvent)) {
        let is_second =
            |(by, first): &mut (i32, RenameHalf)| *by == pid && first.is_directory == half.is_directory;
        match self.first.take_if(is_second) {
            Some((_, first)) => sink(HostEvent::Renamed {
                from: (first.directory, first.name),
                to: (half.directory, half.name),
                is_directory: half.is_directory,
            }),
            None => {
                self.end(sink);
                sink(half.told(HostChange::RenamedTo));
            }
        }
    }

    /// Whether a second half may still come.
    pub fn is_waiting(&self) -> bool {
        self.first.is_some()
    }

    /// Reports a first half whose second did not come: another event followed, so the name went to a
    /// directory that is not watched.
    pub fn end(&mut self, sink: &mut dyn FnMut(HostEvent)) {
        if let Some((_, first)) = self.first.take() {
            sink(first.told(HostChange::RenamedFrom));
        }
    }
}

impl RenameHalf {
    /// The event for this half alone.
    pub fn told(self, change: HostChange) -> HostEvent {
        let RenameHalf { directory, name, is_directory } = self;
        HostEvent::Changed { directory, name: Some(name), is_directory, change }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(name: &str) -> RenameHalf {
        let directory = NodeId { device: 1, inode: 2 };
        RenameHalf { directory, name: Name::new(name.as_bytes()).unwrap(), is_directory: false }
    }

    /// The events that are reported for halves in this order. Each half has the process, whether it is
    /// the old name, and the name.
    fn told(halves: &[(i32, bool, &str)]) -> Vec<HostEvent> {
        let (mut out, mut seen) = (PendingRename::default(), Vec::new());
        for (pid, goes, name) in halves {
            let mut sink = |event| seen.push(event);
            match goes {
                true => out.went(*pid, half(name), &mut sink),
                false => out.came(*pid, half(name), &mut sink),
            }
        }
        out.end(&mut |event| seen.push(event));
        assert!(!out.is_waiting());
        seen
    }

    #[test]
    fn what_one_call_moved_is_one_rename() {
        let of = half("a").directory;
        let renamed =
            HostEvent::Renamed { from: (of, half("a").name), to: (of, half("b").name), is_directory: false };
        assert_eq!(told(&[(7, true, "a"), (7, false, "b")]), [renamed]);
    }

    #[test]
    fn what_leaves_or_comes_alone_is_told_alone() {
        let (went, came) = (half("a").told(HostChange::RenamedFrom), half("b").told(HostChange::RenamedTo));
        assert_eq!(told(&[(7, true, "a"), (8, false, "b")]), [went.clone(), came.clone()]);
        assert_eq!(told(&[(7, false, "b"), (7, true, "a")]), [came, went.clone()]);
        assert_eq!(told(&[(7, true, "a"), (7, true, "a")]), [went.clone(), went]);
    }
}
