//! Tenures by leases of etcd, for virtual servers whose storage has no locks of its own between nodes.
//!
//! A virtual server has two keys. `/trunkline/SERVER/record` is the record and stays.
//! `/trunkline/SERVER/owner` exists as long as somebody owns the server: it hangs on a lease of the owner,
//! which etcd ends when it is not renewed. One transaction changes both, and only if nothing has changed
//! since they were read.
//!
//! A renewal first reads the owner's key through the quorum and then renews the lease. Both replies must be
//! of one member in one term of the leader. So the lease was renewed by the leader that had a quorum after
//! the call had begun, and not by a former leader that was stuck (etcd issue 15247).
//!
//! Start with [`EtcdStore`]. [`gateway`] is the transport, [`reply`] reads what etcd sends.

#[cfg(test)]
mod fake;
mod gateway;
#[cfg(test)]
mod live_tests;
mod reply;
#[cfg(test)]
mod tests;
mod tls;

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tenure::{Claim, Epoch, NodeOwner, StoreError, TakeOutcome, Taken, TenureRecord, TenureStore};
use tokio::runtime::Runtime;

use gateway::{CallError, EtcdEndpoint, Gateway, Member};
use reply::{KeyValue, ReplyHeader};
use tls::ClientTls;

pub use gateway::EtcdLogin;
pub use tls::EtcdTls;

/// The attempts to change the keys while others change them.
const ATTEMPTS: usize = 3;

/// The longest name of a virtual server.
const MAX_NAME: usize = 100;

/// The settings of a store.
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    /// The members, such as `http://10.0.0.7:2379`.
    pub endpoints: Vec<String>,
    /// The name of the virtual server.
    pub server: String,
    /// The length of a term. All calls are bounded by a part of it.
    pub term: Duration,
    /// The files for `https`.
    pub tls: Option<EtcdTls>,
    /// The user, if etcd has users.
    pub login: Option<EtcdLogin>,
}

/// The tenure store in etcd, for one virtual server.
pub struct EtcdStore {
    gateway: Gateway,
    /// Runs the calls. It is none only while the store is dropped.
    runtime: Option<Runtime>,
    /// The two keys, in base64.
    record_key: String,
    owner_key: String,
    term: Duration,
    tenure: Mutex<Option<LeasedTenure>>,
    /// The revision of etcd that the caller knows of. A watch waits for a later one.
    known: Mutex<Option<u64>>,
}

/// The tenure that this process has.
#[derive(Debug, Clone)]
struct LeasedTenure {
    epoch: Epoch,
    lease: u64,
    /// The length of a term as etcd has granted it.
    term: Duration,
    /// The revision of the record's last change.
    changed: u64,
}

/// The two keys at one moment.
struct TenureKeys {
    revision: u64,
    record: Option<KeyValue>,
    owner: Option<KeyValue>,
}

/// The outcome of a change that only the owner may make.
enum OwnerChange {
    /// It is made, at this revision.
    Made(u64),
    /// This node is not the owner, for this reason.
    Lost(String),
}

impl EtcdStore {
    /// A store that has not asked etcd yet. It reads the files of TLS.
    ///
    /// # Errors
    /// One line about the setting that cannot be used.
    pub fn new(options: EtcdOptions) -> Result<EtcdStore, String> {
        let EtcdOptions { endpoints, server, term, tls, login } = options;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if server.is_empty() || server.len() > MAX_NAME || !server.chars().all(is_name) {
            return Err(format!(
                "`{server}` is no name of a virtual server in etcd: it may have letters, digits, `-`, `_` \
                 and `.`, at most {MAX_NAME}"
            ));
        }
        let endpoints =
            endpoints.iter().map(|text| EtcdEndpoint::parse(text)).collect::<Result<Vec<_>, _>>()?;
        if endpoints.is_empty() {
            return Err("no endpoint of etcd is given".to_owned());
        }
        check_secrecy(&endpoints, tls.is_some(), login.is_some())?;
        let tls = tls.map(ClientTls::load).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        Ok(EtcdStore {
            gateway: Gateway::new(endpoints, tls, login, term / 2),
            runtime: Some(runtime.map_err(|why| format!("no calls to etcd can be made: {why}"))?),
            record_key: reply::base64(format!("/trunkline/{server}/record")),
            owner_key: reply::base64(format!("/trunkline/{server}/owner")),
            term,
            tenure: Mutex::new(None),
            known: Mutex::new(None),
        })
    }

    /// Runs a call to its end.
    fn run<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(call),
            None => Err(StoreError::Unreachable("the store is closed".to_owned())),
        }
    }

    /// The tenure of this process, if it has this epoch.
    fn tenure_of(&self, epoch: Epoch) -> Result<LeasedTenure, StoreError> {
        match &*self.tenure.lock() {
            Some(tenure) if tenure.epoch == epoch => Ok(tenure.clone()),
            _ => Err(StoreError::NotOwner(format!("this process has no tenure of epoch {}", epoch.0))),
        }
    }

    fn read_step(&self, key: &str) -> Value {
        json!({"request_range": {"key": key}})
    }

    /// The comparison that the owner's key hangs on this lease.
    fn owns(&self, lease: u64) -> Value {
        json!({"key": self.owner_key, "target": "LEASE", "result": "EQUAL", "lease": lease.to_string()})
    }

    /// The comparison that a key was last changed at this revision. 0: it does not exist.
    fn unchanged(&self, key: &str, at: u64) -> Value {
        json!({"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": at.to_string()})
    }

    /// Both keys as the second branch of a transaction reads them, or a transaction that only reads.
    fn keys_of(&self, header: ReplyHeader, reply: &Value) -> Result<TenureKeys, CallError> {
        Ok(TenureKeys {
            revision: header.revision,
            record: reply::read(reply, 0, &self.record_key)?,
            owner: reply::read(reply, 1, &self.owner_key)?,
        })
    }

    fn read_both(&self) -> Value {
        json!([self.read_step(&self.record_key), self.read_step(&self.owner_key)])
    }

    /// Reads both keys at one moment, through the quorum.
    async fn read(&self, member: &mut Member<'_>) -> Result<TenureKeys, CallError> {
        let (header, reply) = member.call("/v3/kv/txn", &json!({"success": self.read_both()})).await?;
        self.keys_of(header, &reply)
    }

    /// Tries to take the tenure by one member.
    async fn take_by(&self, member: &mut Member<'_>, claim: &Claim) -> Result<TakeOutcome, CallError> {
        for _ in 0..ATTEMPTS {
            let keys = self.read(member).await?;
            let record = keys.record()?;
            if keys.is_refused(claim, &record)? {
                *self.known.lock() = Some(keys.revision);
                return Ok(TakeOutcome::Owned(record));
            }
            let (lease, term) = grant(member, claim.term).await?;
            let record = record.taken_by(claim.owner.clone());
            let puts = [put(&self.record_key, &record, 0)?, put(&self.owner_key, &record.owner, lease)?];
            let request = json!({
                "compare": [
                    self.unchanged(&self.record_key, keys.record.as_ref().map_or(0, |key| key.changed)),
                    self.unchanged(&self.owner_key, keys.owner.as_ref().map_or(0, |key| key.changed)),
                ],
                "success": puts,
            });
            let (header, reply) = member.call("/v3/kv/txn", &request).await?;
            // The lease of a transaction that was not made, or of a former process, ends by itself.
            if reply::has_succeeded(&reply) {
                let (epoch, changed) = (record.epoch, header.revision);
                *self.tenure.lock() = Some(LeasedTenure { epoch, lease, term, changed });
                *self.known.lock() = Some(changed);
                return Ok(TakeOutcome::Taken(Taken { record, term: Some(term) }));
            }
        }
        Err(CallError::Member("others change the keys of this virtual server all the time".to_owned()))
    }

    /// Renews the term by one member. Returns its length, or the reason why it is lost.
    async fn renew_by(
        &self,
        member: &mut Member<'_>,
        tenure: &LeasedTenure,
    ) -> Result<Result<Duration, String>, CallError> {
        for _ in 0..ATTEMPTS {
            // A transaction without a read would not go through the quorum.
            let request = json!({
                "compare": [self.owns(tenure.lease)],
                "success": self.read_both(),
                "failure": self.read_both(),
            });
            let (before, reply) = member.call("/v3/kv/txn", &request).await?;
            if !reply::has_succeeded(&reply) {
                return Ok(Err(self.keys_of(before, &reply)?.owner_text()));
            }
            let request = json!({"ID": tenure.lease.to_string()});
            let (after, reply) = member.call("/v3/lease/keepalive", &request).await?;
            if reply::number(&reply, "ID")? != tenure.lease {
                return Err(CallError::Member("it sent a reply about another lease".to_owned()));
            }
            match reply::number(&reply, "TTL")? {
                0 => return Ok(Err("its lease in etcd has ended".to_owned())),
                ttl if (before.member, before.raft_term) == (after.member, after.raft_term) => {
                    return Ok(Ok(Duration::from_secs(ttl).min(tenure.term)));
                }
                _ => {}
            }
        }
        Err(CallError::Member("its leader changes all the time".to_owned()))
    }

    /// Writes the record as the owner by one member, and gives the tenure back if asked to.
    async fn write_by(
        &self,
        member: &mut Member<'_>,
        tenure: &LeasedTenure,
        record: &TenureRecord,
        is_release: bool,
    ) -> Result<OwnerChange, CallError> {
        let mut changed = tenure.changed;
        let mut steps = vec![put(&self.record_key, record, 0)?];
        if is_release {
            steps.push(json!({"request_delete_range": {"key": self.owner_key}}));
        }
        for _ in 0..ATTEMPTS {
            // An earlier call whose reply was lost may still be made. It must not undo a later one.
            let request = json!({
                "compare": [self.owns(tenure.lease), self.unchanged(&self.record_key, changed)],
                "success": steps,
                "failure": self.read_both(),
            });
            let (header, reply) = member.call("/v3/kv/txn", &request).await?;
            if reply::has_succeeded(&reply) {
                return Ok(OwnerChange::Made(header.revision));
            }
            let keys = self.keys_of(header, &reply)?;
            let is_written = keys.record()? == *record;
            let is_owner = keys.owner.as_ref().is_some_and(|owner| owner.lease == tenure.lease);
            let at = keys.record.as_ref().map_or(0, |key| key.changed);
            match (is_owner, is_release) {
                (true, false) if is_written => return Ok(OwnerChange::Made(at)),
                (true, _) => changed = at,
                // An earlier attempt, whose reply was lost, has given it back.
                (false, true) if is_written && keys.owner.is_none() => {
                    return Ok(OwnerChange::Made(keys.revision));
                }
                (false, _) => return Ok(OwnerChange::Lost(keys.owner_text())),
            }
        }
        Err(CallError::Member("others change the keys of this virtual server all the time".to_owned()))
    }

    async fn write(&self, record: &TenureRecord, is_release: bool) -> Result<u64, StoreError> {
        let tenure = self.tenure_of(record.epoch)?;
        let work = async |member: &mut Member<'_>| self.write_by(member, &tenure, record, is_release).await;
        match self.gateway.ask(work).await? {
            OwnerChange::Made(revision) => Ok(revision),
            OwnerChange::Lost(why) => Err(StoreError::NotOwner(why)),
        }
    }

    /// Waits for a change of the owner's key. The outcome of a wait that is over is `Ok`.
    async fn watch_for(&self, within: Duration) -> Result<(), StoreError> {
        let wait = async {
            let outcome = self.watch_known().await;
            if outcome.is_err() {
                // The caller may ask again at once.
                tokio::time::sleep(self.pause()).await;
            }
            outcome
        };
        tokio::time::timeout(within, wait).await.unwrap_or(Ok(()))
    }

    async fn watch_known(&self) -> Result<(), StoreError> {
        let known = *self.known.lock();
        let revision = match known {
            Some(revision) => revision,
            None => {
                let keys =
                    self.gateway.ask_any(async |member: &mut Member<'_>| self.read(member).await).await?;
                if keys.owner.is_none() {
                    // The last attempt failed though the tenure may be free.
                    tokio::time::sleep(self.pause()).await;
                    return Ok(());
                }
                keys.revision
            }
        };
        self.gateway.watch(&self.owner_key, revision.saturating_add(1)).await
    }

    /// The pause after a failure.
    fn pause(&self) -> Duration {
        (self.term / 20).clamp(Duration::from_millis(50), Duration::from_secs(1))
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        // A look-up of a name cannot be ended, and a task of tokio may drop the store.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl TenureStore for EtcdStore {
    fn take(&self, claim: &Claim) -> Result<TakeOutcome, StoreError> {
        *self.known.lock() = None;
        self.run(self.gateway.ask(async |member: &mut Member<'_>| self.take_by(member, claim).await))
    }

    fn renew(&self, epoch: Epoch) -> Result<Option<Duration>, StoreError> {
        let tenure = self.tenure_of(epoch)?;
        let work = async |member: &mut Member<'_>| self.renew_by(member, &tenure).await;
        match self.run(self.gateway.ask_any(work))? {
            Ok(term) => Ok(Some(term)),
            Err(why) => Err(StoreError::NotOwner(why)),
        }
    }

    fn update(&self, record: &TenureRecord) -> Result<(), StoreError> {
        let revision = self.run(self.write(record, false))?;
        if let Some(tenure) = self.tenure.lock().as_mut().filter(|tenure| tenure.epoch == record.epoch) {
            tenure.changed = revision;
        }
        Ok(())
    }

    fn release(&self, record: &TenureRecord) -> Result<(), StoreError> {
        // The lease has no key any more then, and ends by itself.
        let revision = self.run(self.write(record, true))?;
        *self.tenure.lock() = None;
        *self.known.lock() = Some(revision);
        Ok(())
    }

    fn watch(&self, within: Duration) -> Result<(), StoreError> {
        self.run(self.watch_for(within))
    }

    fn record(&self) -> Result<Option<(TenureRecord, bool)>, StoreError> {
        let read = async |member: &mut Member<'_>| {
            let keys = self.read(member).await?;
            Ok((keys.record.is_some(), keys.record()?, keys.owner.is_some()))
        };
        let (exists, record, is_owned) = self.run(self.gateway.ask_any(read))?;
        Ok(exists.then_some((record, is_owned)))
    }
}

impl TenureKeys {
    /// The record, or the one before the first owner.
    fn record(&self) -> Result<TenureRecord, CallError> {
        let Some(key) = &self.record else { return Ok(TenureRecord::default()) };
        serde_json::from_slice(&key.value).map_err(|why| {
            CallError::Refused(format!(
                "the record of the virtual server in etcd cannot be read: {why}; see `etcdctl get --prefix \
                 /trunkline/`"
            ))
        })
    }

    fn owner(&self) -> Result<Option<NodeOwner>, CallError> {
        let Some(key) = &self.owner else { return Ok(None) };
        serde_json::from_slice(&key.value).map(Some).map_err(|why| {
            CallError::Refused(format!(
                "the owner of the virtual server in etcd cannot be read: {why}; see `etcdctl get --prefix \
                 /trunkline/`"
            ))
        })
    }

    /// Whether a claim must wait: another node owns the server, or it is reserved for one. A former process
    /// of this boot of this node is gone, as the lock of the node shows.
    fn is_refused(&self, claim: &Claim, record: &TenureRecord) -> Result<bool, CallError> {
        Ok(match self.owner()? {
            Some(owner) => !owner.shares_boot_with(&claim.owner),
            None => claim.respects_reservation_of(record),
        })
    }

    /// The reason why this node is not the owner.
    fn owner_text(&self) -> String {
        match self.owner() {
            Ok(Some(owner)) => format!("node {} owns it in epoch {}", owner.node, owner.epoch.0),
            Ok(None) => "its term has ended, and nobody owns it".to_owned(),
            Err(_) => "etcd has something else as the owner".to_owned(),
        }
    }
}

/// Refuses settings that would send secrets in the clear, or that have no authority.
fn check_secrecy(endpoints: &[EtcdEndpoint], has_tls: bool, has_login: bool) -> Result<(), String> {
    for endpoint in endpoints {
        if endpoint.is_tls && !has_tls {
            return Err(format!("{endpoint} needs the authority of etcd's certificates: set `etcd_ca`"));
        }
        if !endpoint.is_tls && has_tls {
            return Err(format!("{endpoint} is without TLS, though files for TLS are given; write https://"));
        }
        if !endpoint.is_tls && has_login && !endpoint.is_loopback() {
            return Err(format!("the password would go to {endpoint} in the clear; use https://"));
        }
    }
    Ok(())
}

/// The step that writes a value. Lease 0 is none.
fn put(key: &str, value: &impl serde::Serialize, lease: u64) -> Result<Value, CallError> {
    let value = serde_json::to_vec(value).map_err(|why| CallError::Refused(why.to_string()))?;
    Ok(json!({"request_put": {"key": key, "value": reply::base64(value), "lease": lease.to_string()}}))
}

/// Makes a lease. etcd has a shortest one, so the length may differ from what was asked for.
async fn grant(member: &mut Member<'_>, term: Duration) -> Result<(u64, Duration), CallError> {
    let seconds = term.as_secs() + u64::from(term.subsec_nanos() > 0);
    let request = json!({"TTL": seconds.max(1).to_string()});
    let (_, reply) = member.call("/v3/lease/grant", &request).await?;
    match (reply::number(&reply, "ID")?, reply::number(&reply, "TTL")?) {
        (0, _) | (_, 0) => Err(CallError::Member("it gave no lease".to_owned())),
        (lease, ttl) => Ok((lease, Duration::from_secs(ttl))),
    }
}
