//! The channels of a session: the choice of a connection for each request, and the loss of connections.
//!
//! [`Channels::choose`] picks the connection of a request. [`Channels::lose`] drops one that has failed.
//! `open` finds addresses and binds the session to connections there. `keeper` reopens lost ones.
//! [`spread`] decides how many of the channels are used.

mod spread;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Notify;

use crate::error::Result;
use crate::smb::connection::ConnectionCore;
use crate::smb::protection::ChannelKeys;
use crate::{ChannelStatus, Error};
use spread::{Spread, Tuner};

/// The bytes by which a channel may be ahead of the others before the next request goes elsewhere, when all
/// channels together have `outstanding` bytes. It allows as many small requests as make a system call worth
/// it, but never so many that another channel is idle.
fn in_a_row(outstanding: u64) -> u64 {
    (outstanding / 8).min(64 * 1024)
}

/// One connection that carries a session.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) connection: Arc<ConnectionCore>,
    pub(crate) keys: Arc<ChannelKeys>,
    /// Its place among the channels of the session. Its replacement takes the same place.
    slot: usize,
    /// The weight of the pending requests.
    outstanding: AtomicU64,
    requests: AtomicU64,
    weight: AtomicU64,
}

impl Channel {
    /// A channel over `connection`, with the session's keys for it.
    pub(crate) fn new(connection: Arc<ConnectionCore>, keys: ChannelKeys, slot: usize) -> Arc<Channel> {
        let keys = Arc::new(keys);
        connection.link.add_channel(&keys);
        let [outstanding, requests, weight] = [const { AtomicU64::new(0) }; 3];
        Arc::new(Channel { connection, keys, slot, outstanding, requests, weight })
    }
}

/// The channels of one session.
#[derive(Debug)]
pub(crate) struct Channels {
    state: RwLock<ChannelList>,
    spread: Spread,
    /// The index of the channel that was chosen last.
    last: AtomicUsize,
    /// Whether all channels are used, even if fewer are enough.
    use_all: AtomicBool,
    /// Whether the session ever had more than one channel.
    several: AtomicBool,
    /// Notified when a channel is lost.
    pub(crate) lost: Arc<Notify>,
}

#[derive(Debug)]
struct ChannelList {
    /// Ordered by slot. Requests use the first ones while these are enough.
    list: Vec<Arc<Channel>>,
    /// Session.ChannelSequence (MS-SMB2 3.2.1.3).
    sequence: u16,
    /// The number of lost channels.
    losses: u64,
    /// The error that ended the last lost channel.
    failure: Option<Error>,
}

/// The channel chosen for one request. Dropping it ends the request's count on the channel.
pub(crate) struct Chosen<'a> {
    pub(crate) channel: Arc<Channel>,
    pub(crate) sequence: u16,
    weight: u64,
    /// The tuner that counts the request, if there is a choice of channels.
    tuner: Option<&'a Tuner>,
}

impl Chosen<'_> {
    /// Uncounts a request that was not sent.
    pub(crate) fn uncount(&mut self) {
        if let Some(tuner) = self.tuner.take() {
            tuner.withdraw();
        }
        self.channel.requests.fetch_sub(1, Ordering::Relaxed);
        self.channel.weight.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

impl Drop for Chosen<'_> {
    fn drop(&mut self) {
        if let Some(tuner) = self.tuner {
            tuner.end(self.weight);
        }
        self.channel.outstanding.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

impl Channels {
    /// The channels of a session with one connection.
    pub(crate) fn new(first: Arc<Channel>) -> Channels {
        let state = ChannelList { list: vec![first], sequence: 0, losses: 0, failure: None };
        let (spread, last) = (Spread::default(), AtomicUsize::new(0));
        let [use_all, several] = [const { AtomicBool::new(false) }; 2];
        Channels { state: RwLock::new(state), spread, last, use_all, several, lost: Arc::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, ChannelList> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ChannelList> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses the channel for a request of `weight` bytes.
    ///
    /// # Errors
    /// The error that ended the last channel.
    pub(crate) fn choose(&self, weight: u64) -> Result<Chosen<'_>> {
        // MS-SMB2 3.2.4.1.7
        let state = self.read();
        let Some(first) = state.list.first() else {
            return Err(state.failure.clone().unwrap_or(Error::Closed));
        };
        let mut chosen = first;
        let tuner = (state.list.len() > 1).then(|| {
            let tuner = self.spread.tuner(first.outstanding.load(Ordering::Relaxed) + weight);
            tuner.begin();
            let width = if self.use_all.load(Ordering::Relaxed) { usize::MAX } else { tuner.width() };
            chosen = self.least(&state.list[..width.min(state.list.len())]).unwrap_or(first);
            tuner
        });
        chosen.outstanding.fetch_add(weight, Ordering::Relaxed);
        chosen.requests.fetch_add(1, Ordering::Relaxed);
        chosen.weight.fetch_add(weight, Ordering::Relaxed);
        Ok(Chosen { channel: Arc::clone(chosen), sequence: state.sequence, weight, tuner })
    }

    /// Sets whether all channels are used, even if fewer would move as much.
    pub(crate) fn use_all(&self, all: bool) {
        self.use_all.store(all, Ordering::Relaxed);
    }

    /// The channel with the least pending weight, or the one chosen last if it is only a little ahead.
    /// Requests that go over one channel in a row share a system call.
    fn least<'a>(&self, list: &'a [Arc<Channel>]) -> Option<&'a Arc<Channel>> {
        let outstanding = |it: &Arc<Channel>| it.outstanding.load(Ordering::Relaxed);
        let (at, least) = list.iter().map(outstanding).enumerate().min_by_key(|(_, it)| *it)?;
        let last = self.last.load(Ordering::Relaxed);
        if let Some(channel) = list.get(last)
            && outstanding(channel).saturating_sub(least) < in_a_row(list.iter().map(outstanding).sum())
        {
            return Some(channel);
        }
        self.last.store(at, Ordering::Relaxed);
        list.get(at)
    }

    /// Drops a channel that has failed with `error`, unless it has been dropped already. Returns whether
    /// another is left.
    pub(crate) fn lose(&self, channel: &Arc<Channel>, error: &Error) -> bool {
        let mut state = self.write();
        if let Some(at) = state.list.iter().position(|it| Arc::ptr_eq(it, channel)) {
            // MS-SMB2 3.2.7.1
            drop(state.list.remove(at));
            self.spread.resize(state.list.len());
            state.sequence = state.sequence.wrapping_add(1);
            state.losses += 1;
            state.failure = Some(error.clone());
            self.lost.notify_one();
        }
        !state.list.is_empty()
    }

    /// Drops all channels with an ended connection.
    pub(crate) fn lose_failed(&self) {
        let failed: Vec<_> = self
            .read()
            .list
            .iter()
            .filter_map(|it| it.connection.link.failure().map(|error| (Arc::clone(it), error)))
            .collect();
        for (channel, error) in &failed {
            self.lose(channel, error);
        }
    }

    /// Adds a channel. Returns false when the session has no channel left and so has ended.
    pub(crate) fn add(&self, channel: Arc<Channel>) -> bool {
        let mut state = self.write();
        if state.list.is_empty() {
            return false;
        }
        let at = state.list.partition_point(|it| it.slot < channel.slot);
        state.list.insert(at, channel);
        self.spread.resize(state.list.len());
        self.several.store(true, Ordering::Relaxed);
        true
    }

    /// Drops all but the first `count` channels. Requests pending on the others still end there. Returns the
    /// peers of the remaining channels.
    pub(crate) fn narrow(&self, count: usize) -> Vec<SocketAddr> {
        let mut state = self.write();
        let kept = count.max(1).min(state.list.len());
        let gone = state.list.split_off(kept);
        self.spread.resize(state.list.len());
        let left = state.list.iter().map(|it| it.connection.peer).collect();
        drop(state);
        drop(gone);
        left
    }

    /// Drops all channels. The session is over.
    pub(crate) fn close(&self) {
        let list = {
            let mut state = self.write();
            state.failure = Some(Error::Closed);
            std::mem::take(&mut state.list)
        };
        drop(list);
        self.lost.notify_one();
    }

    /// The peers of the channels.
    pub(crate) fn peers(&self) -> Vec<SocketAddr> {
        self.read().list.iter().map(|it| it.connection.peer).collect()
    }

    /// The slots below `count` that no channel has.
    pub(crate) fn free_slots(&self, count: usize) -> Vec<usize> {
        let state = self.read();
        (0..count).filter(|slot| state.list.iter().all(|it| it.slot != *slot)).collect()
    }

    /// The first channel, which is the oldest one unless it was lost.
    ///
    /// # Errors
    /// The error that ended the last channel.
    pub(crate) fn first(&self) -> Result<Arc<Channel>> {
        let state = self.read();
        let first = state.list.first().cloned();
        first.ok_or_else(|| state.failure.clone().unwrap_or(Error::Closed))
    }

    /// Limits the channel at an index of [`Channels::status`] to `rate` bytes per second.
    pub(crate) fn pace(&self, index: usize, rate: Option<u64>) {
        if let Some(channel) = self.read().list.get(index) {
            channel.connection.link.rate.set(rate);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.read().list.len()
    }

    /// Whether a request may ever have to be repeated.
    pub(crate) fn are_several(&self) -> bool {
        self.several.load(Ordering::Relaxed)
    }

    /// The number of channels lost so far.
    pub(crate) fn losses(&self) -> u64 {
        self.read().losses
    }

    pub(crate) fn status(&self) -> Vec<ChannelStatus> {
        let state = self.read();
        let status = |channel: &Arc<Channel>| ChannelStatus {
            local: channel.connection.local,
            peer: channel.connection.peer,
            requests: channel.requests.load(Ordering::Relaxed),
            bytes: channel.weight.load(Ordering::Relaxed),
            traffic: channel.connection.link.traffic(),
            is_busy: channel.outstanding.load(Ordering::Relaxed) > 0,
            most_credits: channel.connection.link.most_credits(),
        };
        state.list.iter().map(status).collect()
    }
}
