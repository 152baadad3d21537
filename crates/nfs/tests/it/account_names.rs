//! The names of a domain's users and groups in access lists (RFC 8881 5.9), which a directory knows.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use nfs::{Export, Squash};
use nfs_wire::NfsStat;
use nfs_wire::attr::{Ace, AceFlags, AceMask, AceType, Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::op::create::{self, CreateType};
use nfs_wire::op::{Args, Res, getattr, setattr};
use nfs_wire::types::StateId;
use nfs_wire::xdr::List;
use share::engine::{AccountDomain, AccountKind, AccountMapping, AccountName, AccountQuery};
use testkit::nfs::*;
use volume::security::Sid;
use volume::{Name, Volume};

const BOB: u32 = 1104;
const STAFF: u32 = 1109;
/// The first id of the domain.
const FIRST_ID: u32 = 100_000;

/// A domain with a user and a group. Nobody knows their names before they are looked up.
#[derive(Default)]
struct Directory {
    known: Mutex<BTreeSet<u32>>,
    /// The names and identifiers that were looked up.
    asked: Mutex<Vec<String>>,
    is_silent: bool,
}

fn domain() -> Sid {
    "S-1-5-21-1-2-3".parse().unwrap()
}

fn sid(rid: u32) -> Sid {
    domain().child(rid).unwrap()
}

/// The accounts of the domain: the last number of the SID, the type and the name.
const ACCOUNTS: [(u32, AccountKind, &str); 2] =
    [(BOB, AccountKind::User, "bob"), (STAFF, AccountKind::Group, "staff")];

impl Directory {
    fn known(&self, is: impl Fn(u32, &str) -> bool) -> Option<(u32, AccountKind, &'static str)> {
        let (rid, kind, name) = ACCOUNTS.into_iter().find(|(rid, _, name)| is(*rid, name))?;
        self.known.lock().unwrap().contains(&rid).then_some((rid, kind, name))
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl AccountMapping for Directory {
    fn user_sid(&self, uid: u32) -> Sid {
        if uid < FIRST_ID { Sid::unix_user(uid) } else { sid(uid - FIRST_ID) }
    }

    fn uid(&self, of: &Sid) -> Option<u32> {
        of.as_unix_user().or_else(|| of.rid_in(&domain()).map(|rid| FIRST_ID + rid))
    }

    fn account_name(&self, of: &Sid) -> Option<AccountName> {
        let (_, kind, name) = self.known(|rid, _| sid(rid) == *of)?;
        let (domain, dns_domain) = ("CORP".to_owned(), Some("corp.example".to_owned()));
        Some(AccountName { kind, domain, dns_domain, name: name.to_owned() })
    }

    fn account_named(&self, domain: Option<&str>, wanted: &str) -> Option<(Sid, AccountKind)> {
        let is_ours = domain.is_some_and(|domain| domain.eq_ignore_ascii_case("corp.example"));
        let (rid, kind, _) = self.known(|_, name| name.eq_ignore_ascii_case(wanted)).filter(|_| is_ours)?;
        Some((sid(rid), kind))
    }

    fn look_up(&self, queries: &[AccountQuery<'_>]) {
        for query in queries {
            let is_asked = |rid: u32, name: &str| match *query {
                AccountQuery::Sid(asked) => sid(rid) == asked,
                AccountQuery::Name(_, asked) => name.eq_ignore_ascii_case(asked),
            };
            self.asked.lock().unwrap().push(match *query {
                AccountQuery::Sid(asked) => asked.to_string(),
                AccountQuery::Name(_, asked) => asked.to_owned(),
            });
            let found = ACCOUNTS.iter().find(|(rid, _, name)| !self.is_silent && is_asked(*rid, name));
            self.known.lock().unwrap().extend(found.map(|(rid, ..)| *rid));
        }
    }

    fn domains(&self) -> Vec<AccountDomain> {
        let (name, dns_name) = ("CORP".to_owned(), "corp.example".to_owned());
        vec![AccountDomain { name, dns_name, sid: domain() }]
    }
}

/// A server whose accounts a directory knows, with the file `file`, and a client.
struct NamedFile {
    directory: Arc<Directory>,
    wire: Wire,
    client: Client,
}

impl NamedFile {
    fn new(directory: Directory) -> NamedFile {
        let directory = Arc::new(directory);
        let world = NfsTestServer::new();
        let volume = Arc::new(world.memory.clone());
        world.memory.root().unwrap().create_file(&Name::new(b"file").unwrap(), 0o644, None).unwrap();
        let accounts: Arc<dyn AccountMapping> = Arc::<Directory>::clone(&directory);
        let config = share::Config { name: "share".into(), accounts, ..share::Config::default() };
        world.server.set_exports([Export {
            name: "share".into(),
            id: 1,
            engine: share::Share::open(volume, config).unwrap(),
            read_only: false,
            squash: Squash::None,
            anonymous: (65_534, 65_534),
            clients: Vec::new(),
            secure: false,
            manage_gids: None,
        }]);
        let mut wire = world.connect();
        let client = Client::new(&mut wire, b"client", 1);
        NamedFile { directory, wire, client }
    }

    fn on(&mut self, name: &[u8], operation: Args<'_>) -> ReceivedCompound {
        self.client.run(&mut self.wire, &[Args::PutRootFh, lookup(EXPORT), lookup(name), operation])
    }

    /// Sets the access list of the file.
    fn set(&mut self, entries: &[Ace<'_>]) -> NfsStat {
        let mut room = Vec::new();
        let obj_attributes = Fattr::of(&[Attr::Acl(List::of(entries))], &mut room);
        let set = Args::SetAttr(setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes });
        self.on(b"file", set).status()
    }

    /// The names of the access list, each with whether it is a group's.
    fn names(&mut self, name: &[u8]) -> Vec<(String, bool)> {
        let attr_request = Bitmap::of(&[AttrNum::Acl.get()]);
        let answer = self.on(name, Args::GetAttr(getattr::Args { attr_request })).ok();
        let Res::GetAttr(Ok(found)) = answer.last() else { panic!("{answer:?}") };
        let Some(Ok(Attr::Acl(list))) = found.obj_attributes.iter().next() else { panic!("{found:?}") };
        let of = |ace: Ace<'_>| {
            let is_group = ace.flag.contains(AceFlags::IDENTIFIER_GROUP);
            (String::from_utf8(ace.who.to_vec()).unwrap(), is_group)
        };
        list.iter().map(of).collect()
    }
}

fn entry(who: &str, flag: AceFlags) -> Ace<'_> {
    let access_mask = AceMask::from_bits_retain(0x12_0089);
    Ace { ace_type: AceType::Allowed, flag, access_mask, who: who.as_bytes() }
}

fn bob() -> Ace<'static> {
    entry("bob@corp.example", AceFlags::empty())
}

fn staff() -> Ace<'static> {
    entry("Staff@CORP.example", AceFlags::IDENTIFIER_GROUP)
}

fn owned(names: &[(&str, bool)]) -> Vec<(String, bool)> {
    names.iter().map(|(name, is_group)| ((*name).to_owned(), *is_group)).collect()
}

#[test]
fn names_that_nobody_knew_before_are_set_and_shown_at_once() {
    let mut stage = NamedFile::new(Directory::default());
    assert_eq!(stage.set(&[bob(), staff()]), NfsStat::Ok);
    assert_eq!(stage.directory.asked(), ["bob", "Staff"]);
    let shown = owned(&[("bob@corp.example", false), ("staff@corp.example", true)]);
    assert_eq!(stage.names(b"file"), shown);
    // What was read can be set again, and the number of the user is the same account.
    assert_eq!(stage.set(&[bob(), staff()]), NfsStat::Ok);
    assert_eq!(stage.names(b"file"), shown);
    let number = (FIRST_ID + BOB).to_string();
    assert_eq!(stage.set(&[entry(&number, AceFlags::empty())]), NfsStat::Ok);
    assert_eq!(stage.names(b"file"), shown[..1]);
    assert_eq!(stage.directory.asked(), [""; 0], "known names are not asked for");
    // After a restart nobody knows the names, and a client that caches the list gets them all the same.
    stage.directory.known.lock().unwrap().clear();
    assert_eq!(stage.names(b"file"), shown[..1]);
    assert_eq!(stage.directory.asked(), [sid(BOB).to_string()]);
}

#[test]
fn a_new_object_gets_the_entries_that_name_unknown_accounts() {
    let mut stage = NamedFile::new(Directory::default());
    let mut room = Vec::new();
    let createattrs = Fattr::of(&[Attr::Acl(List::of(&[bob()]))], &mut room);
    let make = create::Args { objtype: CreateType::Dir, objname: b"made", createattrs };
    let path = [Args::PutRootFh, lookup(EXPORT), Args::Create(make)];
    stage.client.run(&mut stage.wire, &path).ok();
    assert_eq!(stage.names(b"made"), owned(&[("bob@corp.example", false)]));
}

#[test]
fn what_the_directory_does_not_know_is_refused_and_its_silence_changes_nothing() {
    let mut stage = NamedFile::new(Directory::default());
    for unknown in ["zoe@corp.example", "bob@other.example", "@corp.example", "bob@"] {
        assert_eq!(stage.set(&[entry(unknown, AceFlags::empty())]), NfsStat::BadOwner, "{unknown}");
    }
    assert_eq!(stage.directory.asked(), ["zoe", "bob"], "names that no account can have are not asked for");
    let mut stage = NamedFile::new(Directory { is_silent: true, ..Directory::default() });
    let before = stage.names(b"file");
    assert_eq!(stage.set(&[bob()]), NfsStat::BadOwner);
    assert_eq!(stage.names(b"file"), before);
    // The text of a SID and a number need no directory.
    assert_eq!(stage.set(&[entry(&sid(BOB).to_string(), AceFlags::empty())]), NfsStat::Ok);
    assert_eq!(stage.names(b"file"), owned(&[("101104", false)]));
}
