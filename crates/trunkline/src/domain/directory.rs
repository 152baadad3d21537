//! The way to the LDAP service of the domain's controllers: found by the DNS, logged on to with the machine
//! account's key.
//!
//! Neither the C library's resolver nor MIT's library has a time limit of its own. So both run on threads,
//! and callers wait no longer than their deadline.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use identity::bounded_calls::{BoundedCalls, CallFailure};
use identity::ldap::connection::{SaslContext, SaslTurn};
use identity::ldap::{DomainController, Locator};
use kerberos::{Initiated, InitiatorContext, InitiatorCredentials, Library, TicketSource};
use parking_lot::Mutex;

use super::dns::{self, ServiceLookup};

/// The age after which the list of controllers is read anew, beside the requests.
const LIST_AGE: Duration = Duration::from_secs(300);
/// The number of threads that may wait for tickets and name servers. Those of requests that were given up end
/// later.
const MOST_WAITING: usize = 8;

/// The controllers of a domain, and the machine account that logs on to them.
pub struct MachineAccount {
    realm: String,
    /// The principal, such as `FILES$@CORP.EXAMPLE`.
    principal: String,
    keytab: PathBuf,
    found: Arc<FoundControllers>,
    calls: BoundedCalls,
}

/// The list of controllers that the DNS gave last.
#[derive(Default)]
struct FoundControllers {
    list: Mutex<Option<(Instant, Vec<DomainController>)>>,
    is_refreshing: AtomicBool,
}

impl MachineAccount {
    /// The account with this principal (`FILES$@CORP.EXAMPLE`), which logs on to the controllers of a realm:
    /// its own or a trusted one. Its keys are in `keytab`.
    pub fn new(realm: &str, principal: &str, keytab: PathBuf) -> MachineAccount {
        let (realm, principal) = (realm.to_owned(), principal.to_owned());
        // Many clients may share an address, so one has half.
        let calls = BoundedCalls::new("trunkline-ldap", MOST_WAITING, MOST_WAITING / 2);
        MachineAccount { realm, principal, keytab, found: Arc::default(), calls }
    }
}

impl Locator for MachineAccount {
    fn controllers(&self, deadline: Instant) -> Result<Vec<DomainController>, String> {
        let (found, realm) = (Arc::clone(&self.found), self.realm.clone());
        let last = self.found.list.lock().clone();
        if let Some((at, list)) = last {
            // An old list serves until the new one is there, so that a dead name server costs no request
            // time.
            if at.elapsed() > LIST_AGE && !found.is_refreshing.swap(true, Ordering::AcqRel) {
                let again = Arc::clone(&found);
                let refresh = move || {
                    // A name server that is silent takes no controller away.
                    let _ = found.refresh(&realm);
                    found.is_refreshing.store(false, Ordering::Release);
                };
                // A host without a thread to spare is asked again at the next call.
                if std::thread::Builder::new().spawn(refresh).is_err() {
                    again.is_refreshing.store(false, Ordering::Release);
                }
            }
            return Ok(list);
        }
        let found = self.calls.run_in_turn(deadline, move || found.refresh(&realm));
        found.map_err(|failure| no_answer(failure, "the DNS does not answer"))?
    }

    fn log_on(
        &self,
        host: &str,
        channel: Option<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Box<dyn SaslContext>, String> {
        let keytab = self.keytab.clone();
        let (principal, service) = (self.principal.clone(), format!("ldap/{host}@{}", self.realm));
        let source = TicketSource::Keytab { keytab, principal };
        let log_on = move || begin(&source, &service, channel);
        let layer = self.calls.run_in_turn(deadline, log_on);
        layer.map_err(|failure| no_answer(failure, "the KDC gives no ticket in time"))?
    }
}

/// The reason why there is no result, in words.
fn no_answer(failure: CallFailure, late: &str) -> String {
    match failure {
        CallFailure::Late => late.to_owned(),
        CallFailure::Busy | CallFailure::BusyForAddress => {
            "several calls wait for the KDC or the DNS already".to_owned()
        }
    }
}

impl FoundControllers {
    fn refresh(&self, realm: &str) -> Result<Vec<DomainController>, String> {
        let name = format!("_ldap._tcp.dc._msdcs.{}", realm.to_lowercase());
        let hosts = match dns::services(&name, &dns::name_servers()) {
            ServiceLookup::Answered(hosts) if !hosts.is_empty() => hosts,
            ServiceLookup::Answered(_) => return Err(format!("the DNS has no record {name}")),
            ServiceLookup::Silent => {
                return Err("no name server answers; check /etc/resolv.conf".to_owned());
            }
        };
        let one = |host: &dns::ServiceHost| {
            let address = (host.host.as_str(), host.port).to_socket_addrs().ok()?.next()?;
            Some(DomainController { host: host.host.clone(), address })
        };
        let list: Vec<DomainController> = hosts.iter().filter_map(one).collect();
        if list.is_empty() {
            return Err(format!("the DNS has no address of {}", hosts[0].host));
        }
        *self.list.lock() = Some((Instant::now(), list.clone()));
        Ok(list)
    }
}

/// MIT's mechanism as the layer of an LDAP connection.
struct GssLayer {
    context: InitiatorContext,
    /// The result of the first turn, for which the ticket was needed.
    first: Option<SaslTurn>,
}

/// Begins a log-on to a service by the tickets of a source. This may wait for a KDC without a limit.
///
/// # Errors
/// The mechanism's reason.
pub fn begin(
    source: &TicketSource,
    service: &str,
    channel: Option<Vec<u8>>,
) -> Result<Box<dyn SaslContext>, String> {
    let library = Library::load().map_err(|why| why.to_string())?;
    let credentials = InitiatorCredentials::new(&library, source).map_err(|why| why.to_string())?;
    let context = InitiatorContext::to_principal(&Arc::new(credentials), service);
    let context = context.map_err(|why| why.to_string())?;
    let context = match channel {
        Some(channel) => context.within(channel),
        None => context,
    };
    let mut layer = GssLayer { context, first: None };
    layer.first = Some(layer.turn(None)?);
    Ok(Box::new(layer))
}

impl GssLayer {
    fn turn(&mut self, token: Option<&[u8]>) -> Result<SaslTurn, String> {
        Ok(match self.context.step(token).map_err(|why| why.to_string())? {
            Initiated::Continue(token) => SaslTurn::Continue(token),
            Initiated::Done { token, .. } => SaslTurn::Done(token),
        })
    }
}

impl SaslContext for GssLayer {
    fn step(&mut self, token: Option<&[u8]>) -> Result<SaslTurn, String> {
        match (token, self.first.take()) {
            (None, Some(first)) => Ok(first),
            (token, _) => self.turn(token),
        }
    }

    fn wrap(&mut self, message: &[u8], seal: bool) -> Result<Vec<u8>, String> {
        self.context.wrap(message, seal).map_err(|why| why.to_string())
    }

    fn unwrap(&mut self, wrapped: &[u8]) -> Result<(Vec<u8>, bool), String> {
        self.context.unwrap(wrapped).map_err(|why| why.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_ons_that_hang_are_bounded_and_a_missing_keytab_is_named() {
        let account = MachineAccount::new("R.EXAMPLE", "FILES$@R.EXAMPLE", "/nonexistent/keytab".into());
        let soon = || Instant::now() + Duration::from_secs(60);
        assert!(account.log_on("dc1", None, soon()).is_err());
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        for _ in 0..MOST_WAITING {
            let held = Arc::clone(&held);
            let late = account.calls.run(Instant::now(), move || held.lock().recv().unwrap_or(()));
            assert_eq!(late, Err(CallFailure::Late));
        }
        let why = account.log_on("dc1", None, Instant::now()).err().unwrap();
        assert!(why.contains("already"), "{why}");
        drop(release);
    }
}
