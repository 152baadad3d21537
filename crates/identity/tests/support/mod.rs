//! A directory and a host in memory, for the tests of the resolver.

#![allow(dead_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use identity::{
    AccountKey, AccountSource, Clock, Domain, Domains, ManualClock, PacLogon, Resolver, Settings,
    SilenceScope, Silent, SourceGroup, SourceUser, TicketLogon,
};
use volume::security::Sid;

pub const REALM: &str = "CORP.EXAMPLE";

pub fn domain_sid() -> Sid {
    Sid::new(5, &[21, 11, 22, 33])
}

pub fn sid(rid: u32) -> Sid {
    domain_sid().child(rid).unwrap()
}

pub fn domains() -> Domains {
    let own = Domain { sid: Some(domain_sid()), ..Domain::new(REALM, Some("CORP")) };
    Domains { own: Some(own), ..Domains::default() }
}

/// A user of the domain. The primary group is Domain Users.
pub fn user(name: &str, rid: u32, groups: &[u32]) -> SourceUser {
    SourceUser {
        account: name.to_owned(),
        realm: Some(REALM.into()),
        principal: Some(format!("{name}@{REALM}")),
        sid: Some(sid(rid)),
        primary_group: Some(sid(513)),
        groups: groups.iter().map(|rid| sid(*rid)).collect(),
        ..SourceUser::default()
    }
}

pub fn group(name: &str, rid: u32, member_of: &[u32]) -> SourceGroup {
    SourceGroup {
        name: name.to_owned(),
        realm: Some(REALM.into()),
        sid: Some(sid(rid)),
        gid: None,
        groups: member_of.iter().map(|rid| sid(*rid)).collect(),
    }
}

pub fn ticket(user: &SourceUser, groups: &[Sid]) -> TicketLogon {
    let pac = PacLogon {
        account: user.account.clone(),
        netbios: "CORP".to_owned(),
        sid: user.sid.unwrap(),
        primary_group: sid(513),
        groups: groups.to_vec(),
        principal: user.principal.clone(),
    };
    TicketLogon { name: user.account.clone(), realm: REALM.to_owned(), pac: Some(pac) }
}

/// Users and groups in memory.
#[derive(Default)]
pub struct MemorySource {
    pub users: Mutex<Vec<SourceUser>>,
    pub groups: Mutex<Vec<SourceGroup>>,
    pub suffixes: Mutex<Vec<String>>,
    pub silent: AtomicBool,
    pub queries: AtomicUsize,
    /// A lock that a query waits for, to hold queries up.
    pub gate: Mutex<()>,
}

impl MemorySource {
    pub fn new(users: Vec<SourceUser>, groups: Vec<SourceGroup>) -> Arc<MemorySource> {
        Arc::new(MemorySource { users: users.into(), groups: groups.into(), ..MemorySource::default() })
    }

    pub fn set_silent(&self, silent: bool) {
        self.silent.store(silent, SeqCst);
    }

    pub fn queries(&self) -> usize {
        self.queries.load(SeqCst)
    }

    fn answer(&self) -> Result<(), Silent> {
        self.queries.fetch_add(1, SeqCst);
        drop(self.gate.lock().unwrap());
        let silent = || Silent {
            source_name: "memory".to_owned(),
            reason: "told to be silent".to_owned(),
            scope: SilenceScope::Source,
        };
        if self.silent.load(SeqCst) { Err(silent()) } else { Ok(()) }
    }
}

impl AccountSource for MemorySource {
    fn users(&self, key: &AccountKey, _: Instant) -> Result<Vec<SourceUser>, Silent> {
        self.answer()?;
        let matches = |user: &&SourceUser| match key {
            AccountKey::Sid(sid) => user.sid == Some(*sid),
            AccountKey::Id(uid) => user.uid == Some(*uid),
            AccountKey::Name { realm: Some(realm), name } => {
                user.realm.as_ref() == Some(realm) && user.account.eq_ignore_ascii_case(name)
            }
            AccountKey::Name { realm: None, name } => user.realm.is_none() && user.account == **name,
            AccountKey::Principal(text) => {
                user.principal.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(text))
            }
        };
        Ok(self.users.lock().unwrap().iter().filter(matches).cloned().collect())
    }

    fn groups(&self, keys: &[AccountKey], _: Instant) -> Result<Vec<SourceGroup>, Silent> {
        self.answer()?;
        let is = |group: &SourceGroup, key: &AccountKey| match key {
            AccountKey::Sid(sid) => group.sid == Some(*sid),
            AccountKey::Id(gid) => group.gid == Some(*gid),
            AccountKey::Name { realm, name } => {
                group.realm == *realm && group.name.eq_ignore_ascii_case(name)
            }
            AccountKey::Principal(_) => false,
        };
        let groups = self.groups.lock().unwrap();
        Ok(groups.iter().filter(|group| keys.iter().any(|key| is(group, key))).cloned().collect())
    }

    fn upn_suffixes(&self, _: Instant) -> Result<Vec<String>, Silent> {
        self.answer()?;
        Ok(self.suffixes.lock().unwrap().clone())
    }
}

pub struct Stage {
    pub resolver: Arc<Resolver>,
    pub directory: Arc<MemorySource>,
    pub host: Arc<MemorySource>,
    pub clock: Arc<ManualClock>,
}

impl Stage {
    pub fn new(settings: Settings, directory: Arc<MemorySource>, host: Arc<MemorySource>) -> Stage {
        let clock = Arc::new(ManualClock::default());
        let as_clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let as_directory: Arc<dyn AccountSource> = Arc::<MemorySource>::clone(&directory);
        let as_host: Arc<dyn AccountSource> = Arc::<MemorySource>::clone(&host);
        let resolver = Resolver::new(settings, Some(as_directory), Some(as_host), as_clock);
        Stage { resolver: Arc::new(resolver), directory, host, clock }
    }
}
