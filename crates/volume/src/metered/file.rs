//! The sizes of one file as the totals have them. They are kept for as long as the file is open.

use std::sync::Arc;

use parking_lot::RwLock;

use super::{Meter, UsageDelta};
use crate::{Name, Node, NodeId, NodeKind, Result};

/// The number of the file's own data among its parts.
pub(super) const DATA: u32 = 0;

/// The meter of one file, directory or link.
pub(super) struct FileMeter {
    meter: Arc<Meter>,
    id: NodeId,
    kind: NodeKind,
    /// Held for reading while data is written within the known sizes, for writing while the sizes change.
    state: RwLock<FileMeterState>,
}

#[derive(Default)]
struct FileMeterState {
    /// The sizes that the totals include. `None` while nothing was changed: the host's sizes count.
    parts: Option<Parts>,
    /// Whether the file has lost its last name.
    is_nameless: bool,
    /// The highest number that a part has.
    last_number: u32,
}

/// The sizes of the file's data and streams.
#[derive(Default)]
struct Parts {
    data: u64,
    streams: Vec<StreamSize>,
}

struct StreamSize {
    /// Stays the same when the stream is renamed.
    number: u32,
    name: Name,
    size: u64,
}

impl Parts {
    fn bytes(&self) -> i128 {
        i128::from(self.data) + self.streams.iter().map(|stream| i128::from(stream.size)).sum::<i128>()
    }

    fn size(&mut self, part: u32) -> Option<&mut u64> {
        match part {
            DATA => Some(&mut self.data),
            number => {
                self.streams.iter_mut().find(|stream| stream.number == number).map(|stream| &mut stream.size)
            }
        }
    }
}

/// The target of a change of size.
pub(super) struct Sizing<'a> {
    /// The node through which the size is changed.
    pub(super) node: &'a dyn Node,
    /// The file that the node belongs to.
    pub(super) whole: &'a dyn Node,
    /// The part of the file that changes.
    pub(super) part: u32,
}

impl FileMeter {
    pub(super) fn new(meter: &Arc<Meter>, id: NodeId, kind: NodeKind) -> Arc<FileMeter> {
        Arc::new(FileMeter { meter: Arc::clone(meter), id, kind, state: RwLock::default() })
    }

    fn files(&self) -> i64 {
        i64::from(self.kind != NodeKind::Directory)
    }

    fn whole(&self, parts: &Parts) -> UsageDelta {
        UsageDelta { bytes: parts.bytes(), files: self.files() }
    }

    /// The sizes that the host reports now, and whether the file has a name.
    fn on_host(&self, state: &mut FileMeterState, whole: &dyn Node) -> Result<(Parts, bool)> {
        let stat = whole.stat()?;
        let data = if self.kind == NodeKind::File { stat.size } else { 0 };
        let has_streams = matches!(self.kind, NodeKind::File | NodeKind::Directory);
        let listed = if has_streams { whole.streams()? } else { Vec::new() };
        let streams = listed.into_iter().map(|info| {
            state.last_number += 1;
            StreamSize { number: state.last_number, name: info.name, size: info.size }
        });
        let parts = Parts { data, streams: streams.collect() };
        Ok((parts, stat.links > 0))
    }

    /// Loads the sizes from the host unless they are known.
    fn load_sizes<'s>(&self, state: &'s mut FileMeterState, whole: &dyn Node) -> Result<&'s mut Parts> {
        if state.parts.is_none() {
            let (parts, has_name) = self.on_host(state, whole)?;
            if !has_name && !state.is_nameless {
                // The file lost its last name on the host, or while nothing was counted.
                state.is_nameless = true;
                self.meter.note(self.id, self.whole(&parts), true);
            }
            state.parts = Some(parts);
        }
        Ok(state.parts.get_or_insert_default())
    }

    /// Runs `act`, which changes the size of a part. `most` computes the largest new size from the old
    /// one. With `exactly` that is the new size when `act` succeeds; otherwise the host is asked for the
    /// new size. The growth is reserved first.
    ///
    /// # Errors
    /// [`crate::Failure::NoSpace`] when the growth does not fit, and nothing is done; the errors of
    /// `act`.
    pub(super) fn resize<T>(
        &self,
        sizing: &Sizing<'_>,
        most: impl FnOnce(u64) -> u64,
        exactly: bool,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut state = self.state.write();
        self.load_sizes(&mut state, sizing.whole)?;
        let is_nameless = state.is_nameless;
        let Some(size) = state.parts.as_mut().and_then(|parts| parts.size(sizing.part)) else {
            // The stream was removed while it is open. Its storage is freed with its last open.
            return act();
        };
        let (before, after) = (*size, most(*size));
        let reserved = after.saturating_sub(before);
        self.meter.reserve(self.id, reserved, is_nameless)?;
        let done = act();
        let now = match &done {
            Ok(_) if exactly => after,
            // If the host does not tell the size either, the reservation stays until everything is
            // counted anew.
            _ => sizing.node.stat().map_or(after.max(before), |stat| stat.size),
        };
        *size = now;
        let bytes = i128::from(now) - i128::from(before) - i128::from(reserved);
        self.meter.note(self.id, UsageDelta { bytes, files: 0 }, is_nameless);
        done
    }

    /// Runs `act`, which grows nothing, if the part is known to reach up to `end`. `None` if it is not.
    pub(super) fn within<T>(
        &self,
        part: u32,
        end: u64,
        act: impl FnOnce() -> Result<T>,
    ) -> Option<Result<T>> {
        let state = self.state.read();
        let parts = state.parts.as_ref()?;
        let size = match part {
            DATA => parts.data,
            number => parts.streams.iter().find(|stream| stream.number == number)?.size,
        };
        (end <= size).then(act)
    }

    /// Refuses an allocation up to `end` that the quota does not allow. An allocation alone is not
    /// counted.
    pub(super) fn check_end(&self, sizing: &Sizing<'_>, end: u64) -> Result<()> {
        let mut state = self.state.write();
        let size = self.load_sizes(&mut state, sizing.whole)?.size(sizing.part).map_or(0, |size| *size);
        self.meter.check_room(end.saturating_sub(size))
    }

    /// Counts a file that was created just now.
    pub(super) fn made(&self) {
        let mut state = self.state.write();
        // If the file has lost its name on the host already, it was counted then.
        if state.is_nameless {
            return;
        }
        let whole = self.whole(state.parts.get_or_insert_default());
        self.meter.made(self.id, self.files(), whole);
    }

    /// Adds the file to the sum of the scan that is under way, because the scan could miss it.
    pub(super) fn seen(&self, whole: &dyn Node) -> Result<()> {
        let mut state = self.state.write();
        self.load_sizes(&mut state, whole)?;
        self.see(&state);
        Ok(())
    }

    fn see(&self, state: &FileMeterState) {
        if let (Some(parts), false) = (&state.parts, state.is_nameless) {
            self.meter.see(self.id, self.whole(parts));
        }
    }

    /// Counts the file for the scan that is under way, with the sizes that the host reports.
    pub(super) fn count(&self, whole: &dyn Node) -> Result<()> {
        let mut state = self.state.write();
        if state.is_nameless {
            return Ok(());
        }
        let (found, has_name) = self.on_host(&mut state, whole)?;
        if !has_name {
            return Ok(());
        }
        let counted = self.whole(&found);
        if let Some(known) = &mut state.parts {
            // Others have changed the file on the host.
            let drift = found.bytes() - known.bytes();
            known.data = found.data;
            known.streams.retain_mut(|stream| {
                let now = found.streams.iter().find(|other| other.name == stream.name);
                now.inspect(|now| stream.size = now.size).is_some()
            });
            let new =
                found.streams.into_iter().filter(|new| known.streams.iter().all(|old| old.name != new.name));
            let new: Vec<StreamSize> = new.collect();
            known.streams.extend(new);
            self.meter.note(self.id, UsageDelta { bytes: drift, files: 0 }, false);
        }
        self.meter.see(self.id, counted);
        Ok(())
    }

    /// Runs `act`, which removes a name of the file.
    pub(super) fn remove_name<T>(&self, whole: &dyn Node, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut state = self.state.write();
        self.load_sizes(&mut state, whole)?;
        self.see(&state);
        let links = whole.stat()?.links;
        let done = act()?;
        let left = whole.stat().map_or(links.saturating_sub(1), |stat| stat.links);
        let is_gone = self.kind == NodeKind::Directory || left == 0;
        if is_gone && !state.is_nameless {
            state.is_nameless = true;
            let gone = state.parts.as_ref().map(|parts| self.whole(parts));
            self.meter.lost_name(self.id, gone.unwrap_or_default());
        }
        Ok(done)
    }

    /// The number of a stream that was opened. A stream without a number gets one.
    pub(super) fn stream(&self, whole: &dyn Node, name: &Name) -> Result<u32> {
        let mut state = self.state.write();
        self.load_sizes(&mut state, whole)?;
        let FileMeterState { parts, last_number, .. } = &mut *state;
        let streams = &mut parts.get_or_insert_default().streams;
        if let Some(known) = streams.iter().find(|stream| stream.name == *name) {
            return Ok(known.number);
        }
        *last_number += 1;
        streams.push(StreamSize { number: *last_number, name: name.clone(), size: 0 });
        Ok(*last_number)
    }

    /// Runs `act`, which removes a stream, or renames it to `to`.
    pub(super) fn remove_stream_of(
        &self,
        whole: &dyn Node,
        name: &Name,
        to: Option<&Name>,
        act: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state.write();
        self.load_sizes(&mut state, whole)?;
        act()?;
        if to == Some(name) {
            return Ok(());
        }
        let is_nameless = state.is_nameless;
        let streams = &mut state.parts.get_or_insert_default().streams;
        let gone = to.unwrap_or(name);
        let mut freed = 0;
        streams.retain(|stream| {
            let goes = stream.name == *gone;
            freed += if goes { i128::from(stream.size) } else { 0 };
            !goes
        });
        if let Some(to) = to
            && let Some(moved) = streams.iter_mut().find(|stream| stream.name == *name)
        {
            moved.name = to.clone();
        }
        self.meter.note(self.id, UsageDelta { bytes: -freed, files: 0 }, is_nameless);
        Ok(())
    }
}

impl Drop for FileMeter {
    fn drop(&mut self) {
        let state = std::mem::take(self.state.get_mut());
        if let (true, Some(parts)) = (state.is_nameless, &state.parts) {
            self.meter.note(self.id, self.whole(parts).negative(), true);
        }
        self.meter.leave(self.id);
    }
}
