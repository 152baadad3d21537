//! The table of clients, and the rules by which EXCHANGE_ID finds or creates a record (RFC 8881 18.35.4).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use nfs_wire::NfsStat;
use parking_lot::Mutex;
use share::ClientKey;
use wire::{Now, Shrink};

use crate::limits::{GIVES_PLACE_NS, MAX_CLIENTS, MAX_CLIENTS_PER_ADDRESS, MAX_UNPROVED_CLIENTS_PER_ADDRESS};
use crate::state::client::{Client, ExchangeIdRequest};
use crate::state::grace::{Grace, OwnerStatus};

/// All clients.
pub struct Clients {
    instance: u64,
    lease_ns: u64,
    known: Mutex<ClientTable>,
}

#[derive(Default)]
struct ClientTable {
    by_id: HashMap<u64, Arc<Client>>,
    by_owner: HashMap<Box<[u8]>, OwnerRecords>,
    /// Number of clients at each address.
    of_address: HashMap<IpAddr, usize>,
}

/// The client records of one owner (RFC 8881 18.35.4).
#[derive(Default, Clone, Copy)]
struct OwnerRecords {
    confirmed: Option<u64>,
    unconfirmed: Option<u64>,
}

impl ClientTable {
    /// An unused client ID that nobody can guess: whoever knows one can create a session of the client, or
    /// end the client.
    fn new_id(&self, grace: &Grace) -> u64 {
        loop {
            let id = u64::from_le_bytes(auth::crypto::random());
            if id != 0 && !self.by_id.contains_key(&id) && grace.resumable(id).is_none() {
                return id;
            }
        }
    }

    fn client(&self, id: Option<u64>) -> Option<Arc<Client>> {
        self.by_id.get(&id?).map(Arc::clone)
    }

    fn enter(&mut self, client: &Arc<Client>) {
        self.by_id.insert(client.id, Arc::clone(client));
        *self.of_address.entry(client.address).or_default() += 1;
    }

    /// Removes a client from the table of IDs.
    fn remove_id(&mut self, id: u64) -> Option<Arc<Client>> {
        let client = self.by_id.remove(&id)?;
        self.by_id.shrink();
        if let Some(count) = self.of_address.get_mut(&client.address) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&client.address);
                self.of_address.shrink();
            }
        }
        Some(client)
    }

    /// The client to remove for a new one if the table is full.
    ///
    /// # Errors
    /// NFS4ERR_DELAY if no address has more than twice as many clients as this one, or if all clients of the
    /// largest address have had something open.
    fn client_to_displace(&self, address: IpAddr, now: Now) -> Result<Option<Arc<Client>>, NfsStat> {
        if self.by_id.len() < MAX_CLIENTS {
            return Ok(None);
        }
        // The address with most clients gives one up. Nobody can then keep others out by sending EXCHANGE_ID
        // again and again. A client without a session loses nothing and sends EXCHANGE_ID once more. The same
        // holds for one that has never opened anything.
        let own = self.of_address.get(&address).copied().unwrap_or_default();
        let counts = self.of_address.iter().map(|(address, count)| (*count, Reverse(*address)));
        let (most, Reverse(crowded)) = counts.max().ok_or(NfsStat::Delay)?;
        if most <= 2 * own {
            return Err(NfsStat::Delay);
        }
        let idle = self.by_id.values().filter(|client| client.address == crowded && !client.has_state());
        let unproved = idle.filter(|client| !client.is_proved());
        let leaves = unproved.max_by_key(|client| (!client.is_confirmed(), client.silent_ns(now)));
        leaves.map(|client| Some(Arc::clone(client))).ok_or(NfsStat::Delay)
    }

    /// The client to remove for a new one of the same address, if that address has as many as it may have.
    ///
    /// # Errors
    /// NFS4ERR_DELAY if all of them have something open or have just sent a request.
    fn neighbour_to_displace(&self, address: IpAddr, now: Now) -> Result<Option<Arc<Client>>, NfsStat> {
        let count = self.of_address.get(&address).copied().unwrap_or_default();
        if count < MAX_UNPROVED_CLIENTS_PER_ADDRESS {
            return Ok(None);
        }
        let idle = self.by_id.values().filter(|client| client.address == address && !client.has_state());
        let (proved, unproved): (Vec<_>, Vec<_>) = idle.partition(|client| client.is_proved());
        let is_full = count >= MAX_CLIENTS_PER_ADDRESS;
        if unproved.len() < MAX_UNPROVED_CLIENTS_PER_ADDRESS && !is_full {
            return Ok(None);
        }
        // A client without a session goes first, then one that has never opened anything.
        let rank = |client: &&Arc<Client>| (!client.is_confirmed(), client.silent_ns(now));
        let may_go = |client: &&Arc<Client>| {
            let is_busy = || client.sessions().iter().any(|session| session.busy_slots() > 0);
            !client.is_confirmed() || client.silent_ns(now) >= GIVES_PLACE_NS && !is_busy()
        };
        let most_silent =
            |idle: Vec<&Arc<Client>>| idle.into_iter().max_by_key(rank).filter(may_go).map(Arc::clone);
        let leaves = most_silent(unproved).or_else(|| if is_full { most_silent(proved) } else { None });
        leaves.map(Some).ok_or(NfsStat::Delay)
    }

    fn forget(&mut self, client: &Client) {
        self.remove_id(client.id);
        if let Some(records) = self.by_owner.get_mut(&client.owner) {
            records.confirmed = records.confirmed.filter(|id| *id != client.id);
            records.unconfirmed = records.unconfirmed.filter(|id| *id != client.id);
            if records.confirmed.is_none() && records.unconfirmed.is_none() {
                self.by_owner.remove(&client.owner);
                self.by_owner.shrink();
            }
        }
    }
}

impl Clients {
    /// An empty table.
    #[must_use]
    pub fn new(instance: u64, lease_ns: u64) -> Clients {
        Clients { instance, lease_ns, known: Mutex::default() }
    }

    /// Handles EXCHANGE_ID. Returns the client, and the clients that end because of it.
    ///
    /// # Errors
    /// NFS4ERR_CLID_INUSE, NFS4ERR_NOENT, NFS4ERR_NOT_SAME, NFS4ERR_PERM; NFS4ERR_DELAY when there are too
    /// many.
    // RFC 8881 18.35.4
    pub fn exchange_id(
        &self,
        request: &ExchangeIdRequest<'_>,
        grace: &Grace,
    ) -> Result<(Arc<Client>, Vec<Arc<Client>>), NfsStat> {
        let mut known = self.known.lock();
        let records = known.by_owner.get(request.owner).copied().unwrap_or_default();
        let confirmed = known.client(records.confirmed);
        let mut gone = Vec::new();
        if request.update {
            // Cases 6 to 9.
            let confirmed = confirmed.ok_or(NfsStat::NoEnt)?;
            return match (confirmed.verifier == request.verifier, confirmed.principal == request.principal) {
                (true, true) => Ok((confirmed, gone)),
                (false, _) => Err(NfsStat::NotSame),
                (true, false) => Err(NfsStat::Perm),
            };
        }
        let came = grace.compare_owner(request.owner, request.verifier, &request.principal);
        if let Some(confirmed) = confirmed {
            if confirmed.principal != request.principal {
                // Case 3.
                let is_there = confirmed.has_state() && confirmed.silent_ns(request.now) < self.lease_ns;
                // The state that the owner may still reclaim counts too.
                if is_there || came == OwnerStatus::Stranger {
                    return Err(NfsStat::ClidInUse);
                }
                known.forget(&confirmed);
                gone.push(confirmed);
            } else if confirmed.verifier == request.verifier {
                // Case 2.
                return Ok((confirmed, gone));
            }
            // In case 5 the new record stays beside the confirmed one until it is confirmed.
        }
        // Case 3 for a record from before a restart: its lease lasts as long as the client may reclaim.
        if came == OwnerStatus::Stranger {
            return Err(NfsStat::ClidInUse);
        }
        // Case 4.
        if let Some(unconfirmed) = known.client(records.unconfirmed) {
            known.forget(&unconfirmed);
            gone.push(unconfirmed);
        }
        for leaves in [ClientTable::client_to_displace, ClientTable::neighbour_to_displace] {
            if let Some(client) = leaves(&known, request.address, request.now)? {
                known.forget(&client);
                gone.push(client);
            }
        }
        // Case 1.
        let id = known.new_id(grace);
        // Its state from before a restart is kept under the key of that time.
        let key = match came {
            OwnerStatus::Back(key) => key,
            OwnerStatus::New | OwnerStatus::Anew(_) | OwnerStatus::Stranger => self.key_of_new(id),
        };
        let client = Arc::new(Client::new(id, key, request));
        if matches!(came, OwnerStatus::Back(_) | OwnerStatus::Anew(_))
            || gone.iter().any(|before| before.is_proved())
        {
            client.prove();
        }
        known.enter(&client);
        known.by_owner.entry(request.owner.into()).or_default().unconfirmed = Some(id);
        Ok((client, gone))
    }

    /// Adds a client that goes on after a restart under its client ID of that time. Returns the client that
    /// makes room for it.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID if its owner has another client ID by now. NFS4ERR_DELAY if there are too many
    /// clients, or if it has just been added.
    pub fn resume(&self, client: &Arc<Client>, now: Now) -> Result<Option<Arc<Client>>, NfsStat> {
        let mut known = self.known.lock();
        if known.by_id.contains_key(&client.id) {
            return Err(NfsStat::Delay);
        }
        if known.by_owner.get(&client.owner).is_some_and(|records| records.confirmed.is_some()) {
            return Err(NfsStat::StaleClientId);
        }
        let gone = known.client_to_displace(client.address, now)?;
        if let Some(gone) = &gone {
            known.forget(gone);
        }
        known.by_owner.entry(client.owner.clone()).or_default().confirmed = Some(client.id);
        known.enter(client);
        Ok(gone)
    }

    /// Confirms a client that has created its first session. Returns the older client of the same owner,
    /// which ends.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID if the client was removed meanwhile to make room for another.
    // RFC 8881 18.36.4
    pub fn confirm(&self, client: &Arc<Client>) -> Result<Option<Arc<Client>>, NfsStat> {
        let mut known = self.known.lock();
        if !known.by_id.contains_key(&client.id) {
            return Err(NfsStat::StaleClientId);
        }
        client.confirm();
        let records = known.by_owner.entry(client.owner.clone()).or_default();
        let before = records.confirmed.filter(|id| *id != client.id);
        records.confirmed = Some(client.id);
        records.unconfirmed = records.unconfirmed.filter(|id| *id != client.id);
        Ok(before.and_then(|before| known.remove_id(before)))
    }

    /// The key of a client that this run of the server has made.
    #[must_use]
    pub fn key_of_new(&self, id: u64) -> ClientKey {
        ClientKey(u128::from(self.instance) << 64 | u128::from(id))
    }

    /// The client with this client ID.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.known.lock().by_id.get(&id).map(Arc::clone)
    }

    /// Removes a client. Returns true if it was in the table.
    pub fn remove(&self, client: &Client) -> bool {
        let mut known = self.known.lock();
        let is_there = known.by_id.contains_key(&client.id);
        known.forget(client);
        is_there
    }

    /// All clients.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.known.lock().by_id.values().map(Arc::clone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::credentials::Principal;
    use crate::state::credentials::RpcCredentials;
    use nfs_wire::rpc::{AuthSys, Flavor, OpaqueAuth};
    use nfs_wire::xdr::Encode;

    fn principal(uid: u32) -> Principal {
        let mut body = Vec::new();
        AuthSys::new(b"host", uid, 0, &[]).encode(&mut body);
        let credential = OpaqueAuth { flavor: Flavor::Sys, body: &body };
        RpcCredentials::read(&credential, "192.0.2.1:1".parse().unwrap()).unwrap().principal()
    }

    fn exchange_id(clients: &Clients, verifier: u8, uid: u32, update: bool) -> Result<(u64, usize), NfsStat> {
        let now = Now::default();
        let verifier = [verifier; 8];
        let address = IpAddr::from([192, 0, 2, 1]);
        let request =
            ExchangeIdRequest { owner: b"me", verifier, principal: principal(uid), address, update, now };
        clients.exchange_id(&request, &Grace::default()).map(|(client, gone)| (client.id, gone.len()))
    }

    // RFC 8881 18.35.5, by the numbers of its cases.
    #[test]
    fn every_case_of_an_introduction() {
        let clients = Clients::new(7, 1);
        assert_eq!(exchange_id(&clients, 1, 0, true), Err(NfsStat::NoEnt), "7");
        let (first, _) = exchange_id(&clients, 1, 0, false).unwrap();
        let (second, gone) = exchange_id(&clients, 1, 0, false).unwrap();
        assert!(second != first && gone == 1, "4");
        let request = ExchangeIdRequest {
            owner: b"me",
            verifier: [1; 8],
            principal: principal(0),
            address: IpAddr::from([192, 0, 2, 1]),
            update: false,
            now: Now::default(),
        };
        let replaced = Client::new(first, ClientKey(1), &request);
        assert!(matches!(clients.confirm(&Arc::new(replaced)), Err(NfsStat::StaleClientId)));
        let client = clients.get(second).unwrap();
        assert!(clients.confirm(&client).unwrap().is_none());
        assert_eq!(exchange_id(&clients, 1, 0, false), Ok((second, 0)), "2");
        assert_eq!(exchange_id(&clients, 1, 0, true), Ok((second, 0)), "6");
        assert_eq!(exchange_id(&clients, 2, 0, true), Err(NfsStat::NotSame), "8");
        assert_eq!(exchange_id(&clients, 1, 9, true), Err(NfsStat::Perm), "9");
        let (third, gone) = exchange_id(&clients, 2, 0, false).unwrap();
        assert!(third != second && gone == 0 && clients.get(second).is_some(), "5");
        let before = clients.confirm(&clients.get(third).unwrap()).unwrap().unwrap();
        assert_eq!((before.id, clients.get(second).is_none()), (second, true));
        let (fourth, gone) = exchange_id(&clients, 2, 9, false).unwrap();
        assert!(fourth != third && gone == 1, "3: it has no state");
    }
}
