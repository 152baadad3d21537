//! The addresses that move with the virtual server.
//!
//! A node brings them up when it serves: it looks whether another host still has one, adds it, announces it
//! to the neighbours, and makes the clients of the last owner connect again. The host itself drops an address
//! that nobody prolongs, so a process that was killed leaves none behind for longer than a term.
//!
//! The host may have an address of its own that stands in `addresses` by mistake. It is refused, and never
//! taken away: only an address with a lifetime that the record of this node names ([`AddressRecord`]) is one
//! that a process of this virtual server has brought up.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use net::floating_address::{
    FloatingAddress, FloatingAddressError, HardwareAddress, first_taken, read_record, tickle,
};
use parking_lot::Mutex;
use tenure::ServingTerm;

use super::address_record::AddressRecord;
use crate::serve::stored_listeners::StoredListeners;

/// The time in which another host that has an address must reply.
const PROBE: Duration = Duration::from_millis(200);
/// The time for which an address of a former owner may outlast its term, at least and at most.
const OUTLASTED: Duration = Duration::from_secs(2);
const LONGEST_OUTLASTED: Duration = Duration::from_secs(15);
/// The host counts a lifetime in whole seconds.
const ROUNDING: Duration = Duration::from_secs(1);

/// The result of a look at the network: the first address that another host has.
type Probed = Result<Option<(FloatingAddress, HardwareAddress)>, FloatingAddressError>;

/// The addresses of a virtual server on this node.
#[derive(Debug)]
pub struct NodeAddresses {
    addresses: Vec<FloatingAddress>,
    /// The addresses that a process of this virtual server has brought up on this host.
    record: AddressRecord,
    /// The time for which the host keeps them unless it is prolonged.
    lifetime: Duration,
    /// The look at the network that runs while the server starts.
    probe: Mutex<Option<JoinHandle<Probed>>>,
    /// Whether this host has them. Held while they are changed, so that none is prolonged after it was taken
    /// away.
    are_up: Mutex<bool>,
    /// The sockets that listen on them, or would do so once they are up.
    listeners: Arc<StoredListeners>,
}

impl NodeAddresses {
    /// The addresses. The host drops them after `lifetime` unless it is prolonged.
    pub fn new(
        addresses: Vec<FloatingAddress>,
        record: AddressRecord,
        lifetime: Duration,
        listeners: Arc<StoredListeners>,
    ) -> NodeAddresses {
        let (probe, are_up) = (Mutex::default(), Mutex::new(false));
        NodeAddresses { addresses, record, lifetime, probe, are_up, listeners }
    }

    /// Refuses addresses that this host has for itself. A process of another virtual server may have left one
    /// with a lifetime: `is_start` lets that pass, since it may be gone when this node serves.
    ///
    /// # Errors
    /// The address, and what to do.
    pub fn check_host(&self, is_start: bool) -> Result<(), FloatingAddressError> {
        let ours = self.record.read();
        self.addresses.iter().try_for_each(|address| {
            let is_known = ours.contains(&address.ip());
            if is_start && !is_known && address.check_host(true).is_ok() {
                let _passed = address.check_host(false).inspect_err(|why| tracing::warn!("{why}"));
            }
            address.check_host(is_known || is_start)
        })
    }

    /// The addresses without their prefixes.
    pub fn ips(&self) -> impl Iterator<Item = std::net::IpAddr> + '_ {
        self.addresses.iter().map(FloatingAddress::ip)
    }

    /// Begins to look whether another host has an address.
    pub fn begin_probe(&self) {
        let addresses = self.addresses.clone();
        // Without a thread, `bring_up` looks itself.
        *self.probe.lock() =
            thread::Builder::new().name("node".into()).spawn(move || first_taken(&addresses, PROBE)).ok();
    }

    /// Gives all addresses to this host and tells its neighbours. Then makes the clients in the last owner's
    /// record of connections connect again. The server listens already.
    ///
    /// # Errors
    /// Another host has an address, the term is over, or this process may not administer the network.
    pub fn bring_up(&self, state: &Path, term: &ServingTerm) -> anyhow::Result<()> {
        let connections = self.connections_before(state);
        self.wait_until_free()?;
        // A node that stood still in its start would take the addresses from the next owner.
        anyhow::ensure!(
            term.permits(net::boot_time),
            "the term ended before the addresses were up; another node may serve by now"
        );
        let mut are_up = self.are_up.lock();
        self.check_host(false)?;
        // A process that is killed right after the first address must have left its record.
        if let Err(error) = self.record.write(self.ips()) {
            tracing::warn!(%error, "the addresses cannot be noted; a killed process leaves them for a term");
        }
        for address in &self.addresses {
            address.add(self.lifetime)?;
            address.announce()?;
        }
        *are_up = true;
        drop(are_up);
        if connections.is_empty() {
            return Ok(());
        }
        match tickle(&connections) {
            Ok(count) => tracing::info!(count, "clients of the last owner were made to connect again"),
            // They connect again by themselves, later.
            Err(error) => tracing::warn!(%error, "clients of the last owner were not told to connect again"),
        }
        Ok(())
    }

    /// The connections to these addresses that the last owner has recorded.
    fn connections_before(&self, state: &Path) -> Vec<(SocketAddr, SocketAddr)> {
        let recorded = read_record(state).unwrap_or_else(|error| {
            tracing::warn!(%error, "the connections of the last owner cannot be read");
            None
        });
        let mut connections = recorded.unwrap_or_default();
        connections.retain(|(_, server)| self.ips().any(|ip| ip == server.ip()));
        connections
    }

    /// Waits until no other host has an address. A former owner's host drops it soon after its term, or after
    /// its lifetime if that term had no end.
    fn wait_until_free(&self) -> anyhow::Result<()> {
        let until = Instant::now() + (self.lifetime + ROUNDING).clamp(OUTLASTED, LONGEST_OUTLASTED);
        let begun = self.probe.lock().take().and_then(|probe| probe.join().ok());
        let mut probed = begun.unwrap_or_else(|| first_taken(&self.addresses, PROBE))?;
        while let Some((address, other)) = probed {
            if Instant::now() >= until {
                anyhow::bail!(
                    "the host with the hardware address {other} has the address {address} of the virtual \
                     server; take it away there, or change `addresses` in [node]"
                );
            }
            probed = first_taken(&self.addresses, PROBE)?;
        }
        Ok(())
    }

    /// Prolongs the time for which the host keeps the addresses. One that is gone comes back: the host has
    /// dropped it while this process stood still, or a program that manages the network has removed it.
    pub fn extend(&self, term: &ServingTerm) {
        let are_up = self.are_up.lock();
        for address in self.addresses.iter().filter(|_| *are_up) {
            let is_kept = address.keep_for(self.lifetime).map_err(anyhow::Error::from);
            let kept =
                is_kept.and_then(|is_kept| if is_kept { Ok(()) } else { self.bring_back(address, term) });
            if let Err(error) = kept {
                let error = format!("{error:#}");
                tracing::error!(%address, error, "clients may not reach this node: its address is lost");
            }
        }
    }

    /// Brings an address up again that this host has lost, unless another host has it by now.
    fn bring_back(&self, address: &FloatingAddress, term: &ServingTerm) -> anyhow::Result<()> {
        if let Some(other) = address.is_taken(PROBE)? {
            anyhow::bail!("the host with the hardware address {other} has it");
        }
        anyhow::ensure!(term.permits(net::boot_time), "the term has ended");
        address.add(self.lifetime)?;
        address.announce()?;
        tracing::warn!(
            %address,
            "the address was gone from this host and is back; programs that manage the network must leave it \
             alone (docs/two-nodes.md)"
        );
        Ok(())
    }

    /// Takes all addresses from this host that a process of this virtual server has brought up. Then nobody
    /// listens on them any more: a client that connects until then gets no refusal, and connects to the next
    /// owner.
    pub fn take_down(&self) {
        let mut are_up = self.are_up.lock();
        *are_up = false;
        let ours = self.record.read();
        let mut are_gone = true;
        for address in self.addresses.iter().filter(|address| ours.contains(&address.ip())) {
            if let Err(error) = address.remove() {
                are_gone = false;
                tracing::error!(%address, %error, "the address cannot be taken away");
            }
        }
        if are_gone {
            self.record.clear();
        }
        self.listeners.close();
    }
}

#[cfg(test)]
mod tests {
    use tenure::BootTime;

    use super::*;

    #[test]
    fn a_node_whose_term_is_over_brings_no_address_up() {
        let state = tempfile::tempdir().unwrap();
        let record = AddressRecord::new(state.path(), "files", "boot");
        let addresses = NodeAddresses::new(Vec::new(), record, Duration::from_secs(1), Arc::default());
        addresses.bring_up(state.path(), &ServingTerm::new(BootTime::NEVER)).unwrap();
        let over = ServingTerm::new(net::boot_time());
        let error = addresses.bring_up(state.path(), &over).unwrap_err();
        assert!(error.to_string().contains("the term ended"), "{error}");
    }
}
