//! What is known of one file, for as long as anybody has it: the sizes that the totals have of it.

use std::sync::Arc;

use parking_lot::RwLock;

use super::{Count, Meter};
use crate::{Kind, Name, Node, NodeId, Result};

/// The number of a file's own data among its parts.
pub(super) const DATA: u32 = 0;

/// One file, directory or link.
pub(super) struct FileMeter {
    meter: Arc<Meter>,
    id: NodeId,
    kind: Kind,
    /// Read while data is written that the sizes have already, written while they change.
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    /// What the totals have of it; none: what the host says, since nothing was changed yet.
    parts: Option<Parts>,
    /// It has lost its last name.
    is_nameless: bool,
    /// The highest number that was given to a part.
    last_number: u32,
}

/// The sizes of its data and streams.
#[derive(Default)]
struct Parts {
    data: u64,
    streams: Vec<Stream>,
}

struct Stream {
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

/// What a change of a size comes to.
pub(super) struct Sizing<'a> {
    /// The node through which it is changed.
    pub(super) node: &'a dyn Node,
    /// The file that it belongs to.
    pub(super) whole: &'a dyn Node,
    /// Which part of the file it is.
    pub(super) part: u32,
}

impl FileMeter {
    pub(super) fn new(meter: &Arc<Meter>, id: NodeId, kind: Kind) -> Arc<FileMeter> {
        Arc::new(FileMeter { meter: Arc::clone(meter), id, kind, state: RwLock::default() })
    }

    fn files(&self) -> i64 {
        i64::from(self.kind != Kind::Directory)
    }

    fn whole(&self, parts: &Parts) -> Count {
        Count { bytes: parts.bytes(), files: self.files() }
    }

    /// What the host says now, and whether the file has a name.
    fn on_host(&self, state: &mut State, whole: &dyn Node) -> Result<(Parts, bool)> {
        let stat = whole.stat()?;
        let data = if self.kind == Kind::File { stat.size } else { 0 };
        let has_streams = matches!(self.kind, Kind::File | Kind::Directory);
        let listed = if has_streams { whole.streams()? } else { Vec::new() };
        let streams = listed.into_iter().map(|info| {
            state.last_number += 1;
            Stream { number: state.last_number, name: info.name, size: info.size }
        });
        let parts = Parts { data, streams: streams.collect() };
        Ok((parts, stat.links > 0))
    }

    /// Makes sure that the sizes are known.
    fn look<'s>(&self, state: &'s mut State, whole: &dyn Node) -> Result<&'s mut Parts> {
        if state.parts.is_none() {
            let (parts, has_name) = self.on_host(state, whole)?;
            if !has_name && !state.is_nameless {
                // It lost its last name on the host, or while nothing was counted.
                state.is_nameless = true;
                self.meter.note(self.id, self.whole(&parts), true);
            }
            state.parts = Some(parts);
        }
        Ok(state.parts.get_or_insert_default())
    }

    /// Does something after which the part has at most the size that `most` makes of the one it has, and exactly
    /// that when it was done, unless `exactly` is to be asked of the host. What it grows by is reserved before.
    ///
    /// # Errors
    /// [`crate::Failure::NoSpace`] when it would not fit, with nothing done; as `act` says.
    pub(super) fn resize<T>(
        &self,
        sizing: &Sizing<'_>,
        most: impl FnOnce(u64) -> u64,
        exactly: bool,
        act: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut state = self.state.write();
        self.look(&mut state, sizing.whole)?;
        let is_nameless = state.is_nameless;
        let Some(size) = state.parts.as_mut().and_then(|parts| parts.size(sizing.part)) else {
            // A stream that was removed while it is open; it goes with its last open.
            return act();
        };
        let (before, after) = (*size, most(*size));
        let reserved = after.saturating_sub(before);
        self.meter.reserve(self.id, reserved, is_nameless)?;
        let done = act();
        let now = match &done {
            Ok(_) if exactly => after,
            // What the host does not tell either stays reserved, until it is counted anew.
            _ => sizing.node.stat().map_or(after.max(before), |stat| stat.size),
        };
        *size = now;
        let bytes = i128::from(now) - i128::from(before) - i128::from(reserved);
        self.meter.note(self.id, Count { bytes, files: 0 }, is_nameless);
        done
    }

    /// Does something that grows nothing when the part is known to reach up to `end`; none when it is not.
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

    /// Refuses when so much could not lie there; for what is only set aside.
    pub(super) fn check_end(&self, sizing: &Sizing<'_>, end: u64) -> Result<()> {
        let mut state = self.state.write();
        let size = self.look(&mut state, sizing.whole)?.size(sizing.part).map_or(0, |size| *size);
        self.meter.check_room(end.saturating_sub(size))
    }

    /// A file that was made just now.
    pub(super) fn made(&self) {
        let mut state = self.state.write();
        // Who has seen it lose its name already, on the host, has counted it.
        if state.is_nameless {
            return;
        }
        let whole = self.whole(state.parts.get_or_insert_default());
        self.meter.made(self.id, self.files(), whole);
    }

    /// Has the file in the count that is under way, because it may escape it.
    pub(super) fn seen(&self, whole: &dyn Node) -> Result<()> {
        let mut state = self.state.write();
        self.look(&mut state, whole)?;
        self.see(&state);
        Ok(())
    }

    fn see(&self, state: &State) {
        if let (Some(parts), false) = (&state.parts, state.is_nameless) {
            self.meter.see(self.id, self.whole(parts));
        }
    }

    /// Counts what the host says of the file for the count that is under way, which has found it.
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
            // Others have changed it on the host since.
            let drift = found.bytes() - known.bytes();
            known.data = found.data;
            known.streams.retain_mut(|stream| {
                let now = found.streams.iter().find(|other| other.name == stream.name);
                now.inspect(|now| stream.size = now.size).is_some()
            });
            let new =
                found.streams.into_iter().filter(|new| known.streams.iter().all(|old| old.name != new.name));
            let new: Vec<Stream> = new.collect();
            known.streams.extend(new);
            self.meter.note(self.id, Count { bytes: drift, files: 0 }, false);
        }
        self.meter.see(self.id, counted);
        Ok(())
    }

    /// Does something that takes a name from the file.
    pub(super) fn losing_name<T>(&self, whole: &dyn Node, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut state = self.state.write();
        self.look(&mut state, whole)?;
        self.see(&state);
        let links = whole.stat()?.links;
        let done = act()?;
        let left = whole.stat().map_or(links.saturating_sub(1), |stat| stat.links);
        let is_gone = self.kind == Kind::Directory || left == 0;
        if is_gone && !state.is_nameless {
            state.is_nameless = true;
            let gone = state.parts.as_ref().map(|parts| self.whole(parts));
            self.meter.lost_name(self.id, gone.unwrap_or_default());
        }
        Ok(done)
    }

    /// The number of a stream that was opened, which may be new.
    pub(super) fn stream(&self, whole: &dyn Node, name: &Name) -> Result<u32> {
        let mut state = self.state.write();
        self.look(&mut state, whole)?;
        let State { parts, last_number, .. } = &mut *state;
        let streams = &mut parts.get_or_insert_default().streams;
        if let Some(known) = streams.iter().find(|stream| stream.name == *name) {
            return Ok(known.number);
        }
        *last_number += 1;
        streams.push(Stream { number: *last_number, name: name.clone(), size: 0 });
        Ok(*last_number)
    }

    /// Does something that removes a stream, or has `to` take its place.
    pub(super) fn losing_stream(
        &self,
        whole: &dyn Node,
        name: &Name,
        to: Option<&Name>,
        act: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state.write();
        self.look(&mut state, whole)?;
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
        self.meter.note(self.id, Count { bytes: -freed, files: 0 }, is_nameless);
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
