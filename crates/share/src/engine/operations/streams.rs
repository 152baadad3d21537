//! Named streams.

use volume::{NodeKind, StreamInfo};

use crate::engine::Share;
use crate::{Open, Refusal};

impl Share {
    /// The named streams of a file or directory, without those that are marked for deletion.
    ///
    /// # Errors
    /// The volume's error.
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

    /// Size and bytes on the volume of a file's own data, whichever stream of it is open. None if it has no
    /// data.
    ///
    /// # Errors
    /// The volume's error.
    pub fn unnamed_stream(&self, open: &Open) -> Result<Option<(u64, u64)>, Refusal> {
        let stat = open.node.stat()?;
        Ok((stat.kind == NodeKind::File).then_some((stat.size, stat.allocated)))
    }
}
