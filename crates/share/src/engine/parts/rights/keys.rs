//! The stream of the right under each key.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::ClientKey;
use crate::caching::grants::{Holder, Requester};
use crate::engine::parts::file::{File, Stream};
use crate::ranked::{Mutex, Rank};

/// The stream that a right is on.
struct KeyedStream {
    file: Weak<File>,
    stream: Weak<Stream>,
    /// Whether the name was marked for deletion through an open under the key.
    goes: bool,
}

/// The stream of the right under each key. A key leads to one stream at a time.
pub(crate) struct Keys(Mutex<HashMap<Holder, KeyedStream>>);

impl Default for Keys {
    fn default() -> Keys {
        Keys(Mutex::of_default(Rank::Keys))
    }
}

impl Keys {
    /// The stream that the right is on.
    pub fn find(&self, holder: &Holder) -> Option<(Arc<File>, Arc<Stream>)> {
        let keys = self.0.lock();
        let entry = keys.get(holder)?;
        Some((entry.file.upgrade()?, entry.stream.upgrade()?))
    }

    /// Whether the key is in use for another stream. If it is, whether that one is marked for deletion.
    pub fn elsewhere(&self, holder: &Holder, stream: Option<&Arc<Stream>>) -> Option<bool> {
        let keys = self.0.lock();
        let entry = keys.get(holder).filter(|entry| entry.file.strong_count() > 0)?;
        let there = entry.stream.upgrade()?;
        let is_here = stream.is_some_and(|stream| Arc::ptr_eq(stream, &there));
        (!is_here).then_some(entry.goes)
    }

    /// A right is on this stream.
    pub fn enter(&self, holder: Holder, file: &Arc<File>, stream: &Arc<Stream>) {
        let mut keys = self.0.lock();
        let goes =
            keys.get(&holder).is_some_and(|entry| entry.goes && entry.stream.ptr_eq(&Arc::downgrade(stream)));
        keys.insert(holder, KeyedStream { file: Arc::downgrade(file), stream: Arc::downgrade(stream), goes });
    }

    /// No right under this key is on the stream any more.
    pub fn leave(&self, holder: &Holder, stream: &Arc<Stream>) {
        let mut keys = self.0.lock();
        if keys.get(holder).is_some_and(|entry| entry.stream.ptr_eq(&Arc::downgrade(stream))) {
            keys.remove(holder);
        }
    }

    /// Records whether the file under the key is marked for deletion.
    pub fn set_goes(&self, requester: &Requester, stream: &Arc<Stream>, goes: bool) {
        let (Some(client), Some((key, keyed))) = (requester.client, requester.key) else { return };
        let mut keys = self.0.lock();
        if let Some(entry) = keys.get_mut(&(client, key, keyed))
            && entry.stream.ptr_eq(&Arc::downgrade(stream))
        {
            entry.goes = goes;
        }
    }

    /// The right belongs to another client from now on.
    pub fn rename(&self, holder: Holder, client: ClientKey) {
        let mut keys = self.0.lock();
        if let Some(entry) = keys.remove(&holder) {
            keys.insert((client, holder.1, holder.2), entry);
        }
    }
}
