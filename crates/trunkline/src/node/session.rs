//! The tenure under which a server runs, as the server sees it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use admin::status::{NodeTenure, Takeover};
use net::floating_address::ConnectionRecorder;
use net::{LiveConnections, ParkedSockets};
use parking_lot::Mutex;
use tenure::{BootTime, Epoch, OwnershipEvent, ServingTerm};
use tokio::sync::Notify;

use super::addresses::NodeAddresses;
use super::failure::FailureMark;
use crate::serve::stored_listeners::StoredListeners;
use crate::state::{GivenEpoch, StateDir, StoreName};

/// The tenure of a running server.
#[derive(Debug, Clone)]
pub struct NodeSession {
    /// The time until which replies may be sent.
    pub term: Arc<ServingTerm>,
    /// The record of the tenure store that counts the epochs.
    pub(super) store: StoreName,
    pub(super) node: String,
    pub(super) epoch: Epoch,
    /// The time at which the server was started.
    pub(super) started: BootTime,
    /// The phases of the take-over so far.
    pub(super) takeover: Arc<Mutex<Takeover>>,
    /// The GUID that the state directory must have. Empty before the first owner.
    pub(super) guid: String,
    pub(super) events: Sender<OwnershipEvent>,
    /// The connections to the addresses of the virtual server.
    pub live: Arc<LiveConnections>,
    /// Records these connections for the next owner.
    pub(super) recorder: Arc<Mutex<Option<ConnectionRecorder>>>,
    /// The listening sockets at the service manager.
    pub listeners: Arc<StoredListeners>,
    /// Whether the server has opened its listeners to clients.
    pub(super) is_listening: Arc<AtomicBool>,
    /// The connections of the server after it has stopped.
    pub parked: Arc<ParkedSockets>,
    pub(super) stop: Arc<Notify>,
    pub(super) addresses: Arc<NodeAddresses>,
    /// The time for which the storage may be silent.
    pub storage_timeout: Duration,
    pub(super) failure: FailureMark,
}

impl NodeSession {
    /// Checks that the state directory is that of the virtual server, and that the tenure store has counted
    /// the epochs of its earlier owners.
    ///
    /// # Errors
    /// It is another one, or the store has lost its record.
    pub fn admit(&self, state: &StateDir, guid: &str) -> anyhow::Result<()> {
        if self.guid.is_empty() || self.guid == guid {
            let (is_known, store) = (!self.guid.is_empty(), self.store.clone());
            let given = GivenEpoch { epoch: self.epoch, is_known, store };
            return state.note_epoch(&given).map_err(anyhow::Error::msg);
        }
        anyhow::bail!(
            "{} has the GUID {guid}, and the virtual server `{}` has {}: it is the state directory of \
             another server; mount the right storage, or correct `state_dir` in [server] or `server` in \
             [node]",
            state.path().display(),
            self.store.server,
            self.guid
        )
    }

    /// Brings up the addresses, and reports that clients are served.
    ///
    /// # Errors
    /// An address cannot be used.
    pub fn begin_serving(&self, state: &StateDir, guid: &str) -> anyhow::Result<()> {
        let listening = net::boot_time();
        self.addresses.bring_up(state.path(), &self.term)?;
        match ConnectionRecorder::start(state.path(), Arc::clone(&self.live)) {
            Ok(recorder) => *self.recorder.lock() = Some(recorder),
            // After a failure of this machine, clients take longer to connect again.
            Err(error) => tracing::warn!(%error, "the connections cannot be recorded for the next owner"),
        }
        let takeover = {
            let mut takeover = self.takeover.lock();
            takeover.start_ms = whole_ms(listening.since(self.started));
            takeover.addresses_ms = whole_ms(net::boot_time().since(listening));
            *takeover
        };
        tracing::info!(
            epoch = self.epoch.0,
            fence_ms = takeover.fence_ms,
            start_ms = takeover.start_ms,
            addresses_ms = takeover.addresses_ms,
            "this node serves the virtual server"
        );
        // The driver outlives the server.
        let _ = self.events.send(OwnershipEvent::Started(Ok(guid.to_owned())));
        Ok(())
    }

    /// Notes that the server accepts connections from now on.
    pub fn begin_listening(&self) {
        self.is_listening.store(true, Ordering::Release);
    }

    /// The addresses that move with the virtual server.
    pub fn moving(&self) -> Vec<IpAddr> {
        self.addresses.ips().collect()
    }

    /// The tenure, for status and metrics.
    pub fn tenure(&self) -> NodeTenure {
        let until = self.term.until();
        let has_end = until != BootTime::NEVER;
        NodeTenure {
            server: self.store.server.clone(),
            node: self.node.clone(),
            epoch: self.epoch.0,
            term_ms: has_end.then(|| whole_ms(until.since(net::boot_time()))),
            takeover: *self.takeover.lock(),
        }
    }

    /// Waits until the server must leave this node.
    pub async fn must_stop(&self) {
        self.stop.notified().await;
    }

    /// Reports that the server begins to stop, on whoever's request.
    pub fn begin_stop(&self) {
        // The record keeps the connections of now for the next owner.
        self.recorder.lock().take();
        let _ = self.events.send(OwnershipEvent::Leave { to: None });
    }

    /// Takes the addresses away before it closes the connections, so that their end reaches no client.
    pub fn fall_silent(&self) {
        self.term.end();
        self.addresses.take_down();
        self.parked.close();
    }

    /// Stops to reply and leaves the virtual server to other nodes, right before the process ends. The tenure
    /// is not given back: a write that hangs may still be carried out, so the next owner must fence.
    pub fn lose(&self, why: &str) {
        self.term.end();
        self.failure.set(why);
        self.addresses.take_down();
    }
}

/// The whole milliseconds of a duration.
pub(super) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
