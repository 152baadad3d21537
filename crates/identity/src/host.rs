//! The host's users and groups by its own configuration (nsswitch.conf): files, sssd, winbind, LDAP.
//!
//! A call of the C library may hang as long as a module of NSS does. So all calls run on threads of their
//! own, and callers wait for a bounded time.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use nix::unistd;

use crate::names::{AccountKey, Domains};
use crate::source::{AccountSource, SilenceScope, Silent, SourceGroup, SourceUser};

/// The number of calls of NSS at one time. More of them wait.
const THREADS: usize = 4;
/// The number of calls that may wait. Further ones are refused at once.
const WAITING: usize = 256;
const SOURCE_NAME: &str = "the host's user database";

/// A user of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostUser {
    /// The name in the host's spelling.
    pub name: String,
    /// The uid.
    pub uid: u32,
    /// The primary gid.
    pub gid: u32,
    /// Further gids.
    pub groups: Vec<u32>,
}

/// A group of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostGroup {
    /// The name in the host's spelling.
    pub name: String,
    /// The gid.
    pub gid: u32,
}

/// The calls of the C library.
pub trait HostDatabase: Send + Sync {
    /// `getpwnam_r` and `getgrouplist`.
    ///
    /// # Errors
    /// The host's error.
    fn user_named(&self, name: &str) -> std::io::Result<Option<HostUser>>;
    /// `getpwuid_r` and `getgrouplist`.
    ///
    /// # Errors
    /// The host's error.
    fn user(&self, uid: u32) -> std::io::Result<Option<HostUser>>;
    /// `getgrnam_r`.
    ///
    /// # Errors
    /// The host's error.
    fn group_named(&self, name: &str) -> std::io::Result<Option<HostGroup>>;
    /// `getgrgid_r`.
    ///
    /// # Errors
    /// The host's error.
    fn group(&self, gid: u32) -> std::io::Result<Option<HostGroup>>;
}

/// The C library of the host.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nss;

impl HostDatabase for Nss {
    fn user_named(&self, name: &str) -> std::io::Result<Option<HostUser>> {
        user_of(unistd::User::from_name(name))
    }

    fn user(&self, uid: u32) -> std::io::Result<Option<HostUser>> {
        user_of(unistd::User::from_uid(uid.into()))
    }

    fn group_named(&self, name: &str) -> std::io::Result<Option<HostGroup>> {
        group_of(unistd::Group::from_name(name))
    }

    fn group(&self, gid: u32) -> std::io::Result<Option<HostGroup>> {
        group_of(unistd::Group::from_gid(gid.into()))
    }
}

/// Whether an error means that there is no such account: getpwnam(3) lists these for it.
fn is_miss(error: nix::Error) -> bool {
    matches!(error, nix::Error::ENOENT | nix::Error::ESRCH | nix::Error::EBADF | nix::Error::EPERM)
}

fn user_of(found: nix::Result<Option<unistd::User>>) -> std::io::Result<Option<HostUser>> {
    let user = match found {
        Ok(Some(user)) => user,
        Ok(None) => return Ok(None),
        Err(error) if is_miss(error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
    let name = CString::new(user.name.as_str()).map_err(std::io::Error::other)?;
    let mut groups: Vec<u32> =
        unistd::getgrouplist(&name, user.gid)?.iter().map(|gid| gid.as_raw()).collect();
    groups.retain(|group| *group != gid);
    Ok(Some(HostUser { name: user.name, uid, gid, groups }))
}

fn group_of(found: nix::Result<Option<unistd::Group>>) -> std::io::Result<Option<HostGroup>> {
    match found {
        Ok(group) => Ok(group.map(|group| HostGroup { name: group.name, gid: group.gid.as_raw() })),
        Err(error) if is_miss(error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

type NssCall = Box<dyn FnOnce(&dyn HostDatabase) + Send>;

/// The host's users and groups, asked on threads of their own.
#[derive(Clone)]
pub struct HostAccounts {
    calls: SyncSender<NssCall>,
}

impl HostAccounts {
    /// Starts the threads. They end when the last copy of this value is gone and their calls have returned.
    ///
    /// # Errors
    /// The host's error if it gives no thread.
    pub fn start(database: Arc<dyn HostDatabase>) -> std::io::Result<HostAccounts> {
        let (calls, queue) = sync_channel::<NssCall>(WAITING);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let (queue, database) = (Arc::clone(&queue), Arc::clone(&database));
            let thread = std::thread::Builder::new().name("trunkline-nss".to_owned());
            thread.spawn(move || serve(&queue, &*database))?;
        }
        Ok(HostAccounts { calls })
    }

    fn call<T: Send + 'static>(
        &self,
        deadline: Instant,
        call: impl FnOnce(&dyn HostDatabase) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, Silent> {
        let silent = |reason: String| Silent {
            source_name: SOURCE_NAME.to_owned(),
            reason,
            scope: SilenceScope::Account,
        };
        if Instant::now() >= deadline {
            return Err(silent("no time was left to ask".to_owned()));
        }
        let (result, answer) = sync_channel(1);
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let job: NssCall = Box::new(move |database| {
            begins.store(true, Ordering::Release);
            // Nobody may wait any more.
            let _ = result.send(call(database));
        });
        if self.calls.try_send(job).is_err() {
            return Err(silent(format!("{WAITING} calls wait already; check the modules in nsswitch.conf")));
        }
        match answer.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(result) => result.map_err(|error| silent(error.to_string())),
            Err(RecvTimeoutError::Timeout) => {
                let late = silent("no answer in time; check the modules in nsswitch.conf".to_owned());
                // All threads are in calls that do not return.
                let scope = if begun.load(Ordering::Acquire) { late.scope } else { SilenceScope::Source };
                Err(Silent { scope, ..late })
            }
            Err(RecvTimeoutError::Disconnected) => Err(silent("the call ended without an answer".to_owned())),
        }
    }

    /// The user of this name.
    ///
    /// # Errors
    /// [`Silent`].
    pub fn user_named(&self, name: &str, deadline: Instant) -> Result<Option<HostUser>, Silent> {
        let name = name.to_owned();
        self.call(deadline, move |database| database.user_named(&name))
    }

    /// The user with this uid.
    ///
    /// # Errors
    /// [`Silent`].
    pub fn user(&self, uid: u32, deadline: Instant) -> Result<Option<HostUser>, Silent> {
        self.call(deadline, move |database| database.user(uid))
    }

    /// The group of this name.
    ///
    /// # Errors
    /// [`Silent`].
    pub fn group_named(&self, name: &str, deadline: Instant) -> Result<Option<HostGroup>, Silent> {
        let name = name.to_owned();
        self.call(deadline, move |database| database.group_named(&name))
    }

    /// The group with this gid.
    ///
    /// # Errors
    /// [`Silent`].
    pub fn group(&self, gid: u32, deadline: Instant) -> Result<Option<HostGroup>, Silent> {
        self.call(deadline, move |database| database.group(gid))
    }
}

fn serve(queue: &Mutex<Receiver<NssCall>>, database: &dyn HostDatabase) {
    loop {
        let call = crate::sync::lock(queue).recv();
        match call {
            Ok(call) => call(database),
            Err(_) => return,
        }
    }
}

/// The host as a source of the resolver.
pub struct HostSource {
    /// The threads.
    pub accounts: HostAccounts,
    /// The domains whose accounts the host may know.
    pub domains: Arc<Domains>,
}

impl HostSource {
    /// The realm and the name of an account that the host writes as `name`.
    fn parts(&self, name: &str) -> (Option<Arc<str>>, String) {
        let keys = self.domains.keys(name);
        match keys.into_iter().find(|key| matches!(key, AccountKey::Name { realm: Some(_), .. })) {
            Some(AccountKey::Name { realm: Some(realm), name: account }) if name.contains(['\\', '@']) => {
                (Some(realm), account.to_string())
            }
            _ => (None, name.to_owned()),
        }
    }

    fn source_user(&self, user: HostUser) -> SourceUser {
        let (realm, account) = self.parts(&user.name);
        SourceUser {
            account,
            realm,
            uid: Some(user.uid),
            gid: Some(user.gid),
            gids: user.groups,
            nested_included: true,
            ..SourceUser::default()
        }
    }

    fn source_group(&self, group: HostGroup) -> SourceGroup {
        let (realm, name) = self.parts(&group.name);
        SourceGroup { name, realm, gid: Some(group.gid), ..SourceGroup::default() }
    }

    /// The first of the names that `find` knows.
    fn first<T>(
        &self,
        key: &AccountKey,
        find: impl Fn(&str) -> Result<Option<T>, Silent>,
    ) -> Result<Option<T>, Silent> {
        let forms = match key {
            AccountKey::Name { realm: Some(realm), name } => self.domains.host_forms(realm, name),
            AccountKey::Name { realm: None, name } => vec![name.to_string()],
            _ => Vec::new(),
        };
        for form in forms {
            if let Some(found) = find(&form)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl AccountSource for HostSource {
    fn users(&self, key: &AccountKey, deadline: Instant) -> Result<Vec<SourceUser>, Silent> {
        let found = match key {
            AccountKey::Id(uid) => self.accounts.user(*uid, deadline)?,
            key => self.first(key, |name| self.accounts.user_named(name, deadline))?,
        };
        Ok(found.into_iter().map(|user| self.source_user(user)).collect())
    }

    fn groups(&self, keys: &[AccountKey], deadline: Instant) -> Result<Vec<SourceGroup>, Silent> {
        let mut groups = Vec::new();
        for key in keys {
            let found = match key {
                AccountKey::Id(gid) => self.accounts.group(*gid, deadline)?,
                key => self.first(key, |name| self.accounts.group_named(name, deadline))?,
            };
            groups.extend(found.map(|group| self.source_group(group)));
        }
        Ok(groups)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn the_host_knows_root_and_its_group() {
        let accounts = HostAccounts::start(Arc::new(Nss)).unwrap();
        let root = accounts.user_named("root", soon()).unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(accounts.user(0, soon()).unwrap().unwrap().name, "root");
        assert_eq!(accounts.group(0, soon()).unwrap().unwrap().name, "root");
        assert_eq!(accounts.group_named("root", soon()).unwrap().unwrap().gid, 0);
        assert_eq!(accounts.user_named("no such user", soon()), Ok(None));
        assert_eq!(accounts.user_named("nul\0", soon()), Ok(None));
    }

    /// A database that hangs until the test lets it go.
    struct Hanging(Mutex<Receiver<()>>);

    impl HostDatabase for Hanging {
        fn user_named(&self, name: &str) -> std::io::Result<Option<HostUser>> {
            let _ = crate::sync::lock(&self.0).recv();
            Ok(Some(HostUser { name: name.to_owned(), uid: 7, gid: 8, groups: vec![] }))
        }
        fn user(&self, _: u32) -> std::io::Result<Option<HostUser>> {
            Err(std::io::ErrorKind::TimedOut.into())
        }
        fn group_named(&self, _: &str) -> std::io::Result<Option<HostGroup>> {
            Ok(None)
        }
        fn group(&self, _: u32) -> std::io::Result<Option<HostGroup>> {
            Ok(None)
        }
    }

    #[test]
    fn a_module_that_hangs_keeps_no_caller() {
        let shortly = || Instant::now() + Duration::from_millis(20);
        let (release, held): (Sender<()>, _) = channel();
        let accounts = HostAccounts::start(Arc::new(Hanging(Mutex::new(held)))).unwrap();
        let silent = accounts.user_named("bob", shortly()).unwrap_err();
        assert!(silent.reason.contains("nsswitch.conf"), "{silent}");
        // Without time nothing is asked, and nothing is said about the host.
        assert_eq!(accounts.user_named("bob", Instant::now()).unwrap_err().scope, SilenceScope::Account);
        // An error of the host is no miss, and says nothing about other accounts.
        assert_eq!(accounts.user(7, soon()).unwrap_err().scope, SilenceScope::Account);
        // A call that finds all threads in others is the silence of all modules.
        for _ in 1..THREADS {
            assert!(accounts.user_named("bob", shortly()).is_err());
        }
        let silent = accounts.user_named("ann", shortly()).unwrap_err();
        assert_eq!(silent.scope, SilenceScope::Source);
        (0..THREADS + 2).for_each(|_| release.send(()).unwrap());
        assert_eq!(accounts.user_named("ann", soon()).unwrap().unwrap().uid, 7);
    }

    #[test]
    fn names_of_domains_are_found_in_the_hosts_spelling() {
        struct Winbind;
        impl HostDatabase for Winbind {
            fn user_named(&self, name: &str) -> std::io::Result<Option<HostUser>> {
                let known = name.eq_ignore_ascii_case("corp\\bob");
                let user = HostUser { name: "CORP\\bob".to_owned(), uid: 7, gid: 8, groups: vec![9] };
                Ok(known.then_some(user))
            }
            fn user(&self, _: u32) -> std::io::Result<Option<HostUser>> {
                self.user_named("CORP\\bob")
            }
            fn group_named(&self, _: &str) -> std::io::Result<Option<HostGroup>> {
                Ok(None)
            }
            fn group(&self, gid: u32) -> std::io::Result<Option<HostGroup>> {
                Ok(Some(HostGroup { name: "staff@corp.example".to_owned(), gid }))
            }
        }
        let own = Some(crate::names::Domain::new("CORP.EXAMPLE", Some("CORP")));
        let domains = Arc::new(Domains { own, ..Domains::default() });
        let source = HostSource { accounts: HostAccounts::start(Arc::new(Winbind)).unwrap(), domains };
        let realm: Arc<str> = "CORP.EXAMPLE".into();
        for key in [AccountKey::in_realm(&realm, "Bob"), AccountKey::Id(7)] {
            let bob = source.users(&key, soon()).unwrap().remove(0);
            assert_eq!((bob.account.as_str(), bob.realm.as_ref(), bob.uid), ("bob", Some(&realm), Some(7)));
        }
        let staff = source.groups(&[AccountKey::Id(5)], soon()).unwrap().remove(0);
        assert_eq!((staff.name.as_str(), staff.realm), ("staff", Some(realm)));
        assert!(source.users(&AccountKey::local("bob"), soon()).unwrap().is_empty());
    }
}
