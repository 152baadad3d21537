//! Named streams.

use volume::{Kind, Node, StreamInfo, Time, Times};
use wire::Now;

use super::Share;
use super::file::File;
use crate::{Open, Refusal};

/// What became of a named stream, as far as its file shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamChange {
    /// Its data or size is another.
    Data,
    /// It was made.
    Made,
}

impl Share {
    /// The named streams of a file or directory; those that are to be removed are not among them.
    ///
    /// # Errors
    /// As the volume says.
    // MS-FSA 2.1.5.12.29
    pub fn streams(&self, open: &Open) -> Result<Vec<StreamInfo>, Refusal> {
        if !self.settings().streams {
            return Ok(Vec::new());
        }
        let mut all = open.node.streams()?;
        let state = open.file.state.lock();
        all.retain(|info| {
            !state
                .streams
                .iter()
                .any(|known| known.delete && known.stream.name().as_ref() == Some(&info.name))
        });
        Ok(all)
    }

    /// Moves the times of a file or directory as a change of one of its streams does, which lie elsewhere on the host, and
    /// marks it for the next backup.
    ///
    /// # Errors
    /// As the volume says.
    // MS-FSA 2.1.4.17
    // MS-FSA 2.1.5.1.2
    pub(super) fn move_times(
        &self,
        file: &File,
        node: &dyn Node,
        change: StreamChange,
        now: Now,
    ) -> Result<(), Refusal> {
        let modified = match change {
            StreamChange::Data => Time::from_wall_ns(now.wall_ns),
            // The host moves the time of change whichever time is set.
            StreamChange::Made => node.stat()?.modified,
        };
        node.set_times(Times { accessed: None, modified: Some(modified) })?;
        self.own_changed(file);
        self.mark_archive_at(file, node)
    }

    /// Size and bytes on the volume of a file's own data, whichever stream of it is open; none for what
    /// has no data.
    ///
    /// # Errors
    /// As the volume says.
    pub fn unnamed_stream(&self, open: &Open) -> Result<Option<(u64, u64)>, Refusal> {
        let stat = open.node.stat()?;
        Ok((stat.kind == Kind::File).then_some((stat.size, stat.allocated)))
    }
}
