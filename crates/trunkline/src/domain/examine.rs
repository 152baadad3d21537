//! Tries each step that a log-on with Kerberos needs, and names what is wrong and the command that mends it.

use std::path::Path;

use serde::Serialize;

use super::controllers::{self, KdcSource, Kdcs};
use super::keytab::{Keytab, KeytabEntry};
use super::program::{ProgramEnd, ProgramError};
use super::ticket::TicketCache;
use super::{SET_CLOCK, dns, enctype, skew};
use crate::config::Domain;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DomainStepResult {
    /// It works.
    Works,
    /// It works, but something about it is worth knowing.
    Remark,
    /// It does not work.
    Fault,
    /// It was not tried, as a step before it does not work.
    Untried,
}

/// A step and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DomainStep {
    /// Its name.
    pub step: String,
    /// The result.
    pub result: DomainStepResult,
    /// The observation.
    pub seen: String,
    /// The way to mend a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
}

/// The settings under examination.
#[derive(Debug, Clone, Copy)]
pub struct Membership<'a> {
    /// The realm.
    pub realm: &'a str,
    /// The keytab.
    pub keytab: &'a Path,
    /// The table `[domain]`.
    pub settings: &'a Domain,
}

/// The steps so far.
pub(super) struct Examination<'a> {
    pub(super) of: Membership<'a>,
    pub(super) is_directory: bool,
    steps: Vec<DomainStep>,
}

/// Tries all steps.
pub fn examine(of: Membership<'_>) -> Vec<DomainStep> {
    let is_directory = controllers::is_active_directory(of.realm);
    let mut examination = Examination { of, is_directory, steps: Vec::new() };
    let keytab = Keytab::read(of.keytab);
    let own = keytab.as_ref().ok().map(|keytab| keytab.of_realm(of.realm)).unwrap_or_default();
    let principal = own.machine_account().or(own.entries.first().map(|entry| entry.principal.as_str()));
    let kdcs = Kdcs::find(of.realm, principal.unwrap_or("host"));
    examination.lookup(&kdcs);
    let can_ask = examination.kdc(&kdcs);
    let is_readable = match &keytab {
        Ok(all) => examination.keys(all, &own),
        Err(error) => {
            let mend =
                format!("run `trunkline domain join {}` again, or give the right file by --keytab", of.realm);
            examination.fault("keytab", error.to_string(), mend);
            false
        }
    };
    match principal {
        Some(principal) if can_ask && is_readable => examination.tickets(&kdcs, &own, principal),
        _ => examination.untried("ticket"),
    }
    examination.directory(&kdcs, &own);
    examination.ids(&own);
    examination.steps
}

impl Examination<'_> {
    pub(super) fn add(&mut self, step: &str, result: DomainStepResult, seen: String, mend: Option<String>) {
        self.steps.push(DomainStep { step: step.to_owned(), result, seen, mend });
    }

    pub(super) fn works(&mut self, step: &str, seen: impl Into<String>) {
        self.add(step, DomainStepResult::Works, seen.into(), None);
    }

    pub(super) fn fault(&mut self, step: &str, seen: impl Into<String>, mend: impl Into<String>) {
        self.add(step, DomainStepResult::Fault, seen.into(), Some(mend.into()));
    }

    pub(super) fn untried(&mut self, step: &str) {
        self.add(step, DomainStepResult::Untried, "a step before does not work".to_owned(), None);
    }

    /// Whether a step that was tried works.
    pub(super) fn has_worked(&self, step: &str) -> bool {
        self.steps.iter().any(|one| one.step == step && one.result == DomainStepResult::Works)
    }

    fn lookup(&mut self, kdcs: &Kdcs) {
        let realm = self.of.realm;
        let hosts: Vec<&str> = kdcs.all.iter().map(|kdc| kdc.host.as_str()).collect();
        let hosts = hosts.join(", ");
        let servers: Vec<String> = dns::name_servers().iter().map(ToString::to_string).collect();
        let servers = if servers.is_empty() { "none".to_owned() } else { servers.join(", ") };
        let mend = format!(
            "name a DNS server of the realm in /etc/resolv.conf (a domain controller is one), or write \
             `kdc = HOST` \
             for {realm} into [realms] of /etc/krb5.conf"
        );
        match &kdcs.source {
            KdcSource::Dns => self.works("dns", format!("SRV records name {hosts}")),
            KdcSource::File(path) => {
                self.works("dns", format!("not needed: {} names {hosts}", path.display()))
            }
            KdcSource::Named => self.works("dns", format!("not needed: {hosts} is named")),
            KdcSource::SilentDns => {
                self.fault("dns", format!("no name server of /etc/resolv.conf answers ({servers})"), mend);
            }
            KdcSource::NoRecord => {
                let name = realm.to_lowercase();
                let seen = format!("there is no SRV record _kerberos._udp.{name} (asked {servers})");
                self.fault("dns", seen, mend);
            }
        }
    }

    /// Whether a KDC can be asked for tickets.
    fn kdc(&mut self, kdcs: &Kdcs) -> bool {
        let silent = kdcs.silent().join(", ");
        let Some((kdc, sign)) = kdcs.answering() else {
            let (seen, mend) = match kdcs.all.is_empty() {
                true => ("none is known".to_owned(), "see the step dns".to_owned()),
                false => (
                    format!("none answers: {silent}"),
                    format!(
                        "start the KDC, or open {} (UDP and TCP) to it; `ping HOST` and `nc -vz HOST PORT` \
                         say which",
                        kdcs.ports()
                    ),
                ),
            };
            self.fault("kdc", seen, mend);
            self.add("clock", DomainStepResult::Untried, "no KDC tells its time".to_owned(), None);
            return false;
        };
        let seen = format!("{} answers after {} ms", kdc.host, sign.took.as_millis());
        if silent.is_empty() {
            self.works("kdc", seen);
        } else {
            let mend =
                format!("start {silent} again, or remove its SRV records; until then the others serve");
            self.add("kdc", DomainStepResult::Remark, format!("{seen}; silent: {silent}"), Some(mend));
        }
        match skew(sign.ahead_s) {
            None => self.works("clock", format!("{} s from that of {}", sign.ahead_s, kdc.host)),
            Some(far) => {
                let seen = format!("this host's clock is {far} that of {}; Kerberos allows 300 s", kdc.host);
                self.fault("clock", seen, format!("set the clock: {SET_CLOCK}"));
            }
        }
        true
    }

    /// Whether the keytab has keys of the realm.
    fn keys(&mut self, all: &Keytab, own: &Keytab) -> bool {
        let (file, realm) = (self.of.keytab.display(), self.of.realm);
        if own.entries.is_empty() {
            let (seen, mend) = match (all.realms().join(", "), all.spelling_of(realm)) {
                (_, Some(found)) => (
                    format!("{file} has keys of {found}, not of {realm}; the case of letters counts"),
                    format!("set `realm = \"{found}\"` in [domain]"),
                ),
                (others, None) => {
                    let of = if others.is_empty() { String::new() } else { format!(", only of {others}") };
                    (
                        format!("{file} has no key of {realm}{of}"),
                        format!("run `trunkline domain join {realm}` again"),
                    )
                }
            };
            self.fault("keytab", seen, mend);
            return false;
        }
        let newest = own.entries.iter().map(|entry| entry.kvno).max().unwrap_or(0);
        self.works(
            "keytab",
            format!("{} keys of {realm}, the newest of version {newest}", own.entries.len()),
        );
        if self.of.settings.names.value.is_empty() {
            let mend = "run `trunkline domain join` again, or set `names` in [domain]";
            self.fault("names", "the server has no name in [domain]", mend);
        }
        for name in &self.of.settings.names.value {
            let principal = format!("cifs/{name}");
            let keys = own.of(&principal);
            if keys.is_empty() {
                let (seen, mend) =
                    (format!("{file} has no key of {principal}@{realm}"), self.add_key(&principal));
                self.fault(&principal, seen, mend);
            } else if !keys.iter().any(|entry: &&KeytabEntry| enctype::is_aes(entry.enctype)) {
                let seen = format!(
                    "the keys have only {}; the server takes AES",
                    own.enctypes_of(&principal).join(", ")
                );
                let mend = self.renew(&principal);
                self.fault(&principal, seen, mend);
            }
        }
        true
    }

    fn add_key(&self, principal: &str) -> String {
        let name = principal.split_once('/').map_or(principal, |(_, name)| name);
        match self.is_directory {
            true => format!("`trunkline domain join {} --name {name}`", self.of.realm),
            false => format!(
                "on the KDC `kadmin.local -q 'addprinc -randkey {principal}'` and \
                 `kadmin.local -q 'ktadd -k FILE \
                 {principal}'`; then copy FILE here"
            ),
        }
    }

    fn renew(&self, principal: &str) -> String {
        match self.is_directory {
            true => format!(
                "`trunkline domain renew`; if the realm refuses that, `trunkline domain join {}` again",
                self.of.realm
            ),
            false => format!(
                "on the KDC `kadmin.local -q 'ktadd -k FILE -e aes256-cts-hmac-sha1-96:normal \
                 {principal}'`; then \
                 copy FILE here"
            ),
        }
    }

    fn tickets(&mut self, kdcs: &Kdcs, own: &Keytab, principal: &str) {
        let kdc = kdcs.answering().map(|(kdc, _)| kdc);
        let cache = match TicketCache::new(self.of.realm, kdc) {
            Ok(cache) => cache,
            Err(error) => {
                let mend = "make the directory for temporary files writable";
                return self.fault("ticket", error.to_string(), mend);
            }
        };
        let full = format!("{principal}@{}", self.of.realm);
        match cache.first(self.of.keytab, &full) {
            Err(error) => self.unavailable("ticket", &error),
            Ok(end) if end.is_success => {
                self.works("ticket", format!("{full} gets one by its key"));
                for name in &self.of.settings.names.value {
                    let service = format!("cifs/{name}");
                    if own.of(&service).is_empty() {
                        continue;
                    }
                    match cache.service(self.of.keytab, &format!("{service}@{}", self.of.realm)) {
                        Err(error) => return self.unavailable(&service, &error),
                        Ok(end) => self.service(&service, own, &end),
                    }
                }
            }
            Ok(end) => {
                let (seen, mend) = self.refusal(&full, own, &end);
                self.fault("ticket", seen, mend);
            }
        }
    }

    fn unavailable(&mut self, step: &str, error: &ProgramError) {
        let mend =
            matches!(error, ProgramError::NotInstalled(..)).then(|| "install it, and try again".to_owned());
        self.add(step, DomainStepResult::Untried, error.to_string(), mend);
    }

    fn service(&mut self, service: &str, own: &Keytab, end: &ProgramEnd) {
        if end.is_success {
            let kvno = end.output.rsplit("kvno = ").next().unwrap_or_default();
            let kvno: String = kvno.chars().take_while(char::is_ascii_digit).collect();
            let types = own.enctypes_of(service).join(", ");
            self.works(service, format!("the keytab opens a ticket of key version {kvno} ({types})"));
            return;
        }
        let (seen, mend) = self.refusal(service, own, end);
        self.fault(service, seen, mend);
    }

    /// The meaning of a refusal by MIT's programs, and the way to mend it.
    fn refusal(&self, principal: &str, own: &Keytab, end: &ProgramEnd) -> (String, String) {
        let said = end.last_words();
        let account = principal.split('@').next().unwrap_or(principal);
        let has = || {
            let kvnos = own.of(account).iter().map(|entry| entry.kvno).max().unwrap_or(0);
            format!("the keytab has version {kvnos} ({})", own.enctypes_of(account).join(", "))
        };
        let is = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if is(&["Server not found"]) {
            let mend = match self.is_directory {
                true => {
                    format!("{}, or on a controller `setspn -S {account} COMPUTER`", self.add_key(account))
                }
                false => self.add_key(account),
            };
            return (format!("the realm has no service principal {account}"), mend);
        }
        if is(&["Clock skew"]) {
            return (said.to_owned(), format!("set the clock: {SET_CLOCK}"));
        }
        if is(&["not found in Kerberos database"]) {
            let mend = format!("`trunkline domain join {}` again", self.of.realm);
            return (format!("the realm has no account {principal}"), mend);
        }
        if is(&[
            "Preauthentication failed",
            "Password incorrect",
            "Decrypt integrity check",
            "version number",
        ]) {
            let seen = format!("the keys are not those of the realm any more: {}", has());
            return (seen, self.rejoin(account));
        }
        if is(&["encryption type", "No key table entry", "not found in keytab", "key table"]) {
            let seen =
                format!("the realm issues tickets of a key that is not in the keytab; {} ({said})", has());
            return (seen, self.rejoin(account));
        }
        (said.to_owned(), "see the KDC's log for its reason".to_owned())
    }

    /// How keys that the realm has replaced are brought here. The old ones open nothing more, not even a
    /// renewal.
    fn rejoin(&self, principal: &str) -> String {
        match self.is_directory {
            true => format!(
                "if no other host has taken the account over, `trunkline domain join {} --take-over`, which \
                 makes new ones",
                self.of.realm
            ),
            false => self.renew(principal),
        }
    }
}
