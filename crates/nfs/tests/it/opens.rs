//! OPENs that create a file that exists already, and truncate it.

use std::time::Duration;

use nfs_wire::NfsStat;
use nfs_wire::attr::{Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::op::open::{CreateHow, OpenHow, ShareAccess, ShareDeny};
use nfs_wire::op::{Args, Res, getattr, open, read};
use nfs_wire::types::{Identity, StateId, StateOwner};
use testkit::nfs::*;
use volume::faulty::{PlannedFault, VolumeCall};
use volume::{Failure, Name, NodeId, Volume};

/// OPEN of the file, which may exist already and is to be empty.
fn cutting<'a>(owner: &'a [u8], share_access: ShareAccess, empty: &'a [u8]) -> Args<'a> {
    let attrs = Fattr { mask: Bitmap::of(&[AttrNum::Size.get()]), values: empty };
    opened_by(owner, share_access, ShareDeny::empty(), OpenHow::Create(CreateHow::Unchecked(attrs)))
}

fn opened_by<'a>(
    owner: &'a [u8],
    share_access: ShareAccess,
    share_deny: ShareDeny,
    how: OpenHow<'a>,
) -> Args<'a> {
    let Args::Open(asked) = opening(how, b"file") else { unreachable!() };
    let owner = StateOwner { clientid: 0, owner: Identity(owner) };
    Args::Open(open::Args { share_access, share_deny, owner, ..asked })
}

/// A file of four bytes that nobody has open, and two clients.
struct TwoOpeners {
    one: (Wire, Client),
    two: (Wire, Client),
    handle: Vec<u8>,
    world: NfsTestServer,
}

impl TwoOpeners {
    fn new() -> TwoOpeners {
        let world = NfsTestServer::new();
        let [mut one, two] = [&b"one"[..], b"two"].map(|name| {
            let mut wire = world.connect();
            let client = Client::new(&mut wire, name, 1);
            (wire, client)
        });
        let (handle, open) = one.1.create(&mut one.0, b"file");
        one.1.on(&mut one.0, &handle, &[writing(open, 0, b"data"), closing(open)]).ok();
        TwoOpeners { one, two, handle, world }
    }

    fn open((wire, client): &mut (Wire, Client), open: Args<'_>) -> Result<StateId, NfsStat> {
        let answer = client.run(wire, &[Args::PutRootFh, lookup(EXPORT), open]);
        match answer.last() {
            Res::Open(Ok(opened)) => Ok(opened.stateid),
            Res::Open(Err(status)) => Err(status),
            other => panic!("{other:?}"),
        }
    }

    /// The content of the file.
    fn content(&mut self) -> Vec<u8> {
        let (wire, client) = &mut self.one;
        let answer = client.on(wire, &self.handle, &[reading(StateId::READ_BYPASS, 0, 100)]).ok();
        let Res::Read(Ok(read::ResOk { data, .. })) = answer.last() else { panic!("{answer:?}") };
        data.to_vec()
    }
}

// RFC 8881 18.16.3
#[test]
fn an_open_that_is_refused_leaves_in_the_file_what_is_there() {
    for has_it_open in [false, true] {
        let mut scene = TwoOpeners::new();
        let write = || opened_by(b"one", ShareAccess::WRITE, ShareDeny::empty(), OpenHow::NoCreate);
        let before = has_it_open.then(|| TwoOpeners::open(&mut scene.one, write()).expect("an open"));
        let denies = opened_by(b"two", ShareAccess::WRITE, ShareDeny::READ, OpenHow::NoCreate);
        let denying = TwoOpeners::open(&mut scene.two, denies).expect("an open");
        let refused = TwoOpeners::open(&mut scene.one, cutting(b"one", ShareAccess::BOTH, &[0; 8]));
        assert_eq!(refused, Err(NfsStat::ShareDenied), "{has_it_open}");
        let (wire, client) = &mut scene.two;
        client.on(wire, &scene.handle, &[closing(denying)]).ok();
        assert_eq!(scene.content(), b"data", "{has_it_open}");
        // The earlier open is still valid.
        if let Some(stateid) = before {
            let (wire, client) = &mut scene.one;
            let written = client.on(wire, &scene.handle, &[writing(stateid, 0, b"D"), closing(stateid)]);
            assert_eq!(written.status(), NfsStat::Ok);
        }
        assert_eq!(scene.world.engine.open_count(), 0);
    }
}

#[test]
fn an_open_cuts_the_file_also_where_it_may_not_write_itself() {
    for first in [None, Some(ShareAccess::READ), Some(ShareAccess::WRITE)] {
        for access in [ShareAccess::READ, ShareAccess::WRITE, ShareAccess::BOTH] {
            let mut scene = TwoOpeners::new();
            if let Some(first) = first {
                let open = opened_by(b"one", first, ShareDeny::empty(), OpenHow::NoCreate);
                TwoOpeners::open(&mut scene.one, open).expect("an open");
            }
            let (wire, client) = &mut scene.one;
            let size = Args::GetAttr(getattr::Args { attr_request: Bitmap::of(&[AttrNum::Size.get()]) });
            let open = cutting(b"one", access, &[0; 8]);
            let answer = client.run(wire, &[Args::PutRootFh, lookup(EXPORT), open, size]).ok();
            let results = answer.results();
            let (Res::Open(Ok(opened)), Res::GetAttr(Ok(shown))) = (results[3], results[4]) else {
                panic!("{results:?}")
            };
            assert!(opened.attrset.has(AttrNum::Size.get()));
            let shown: Vec<_> = shown.obj_attributes.iter().map(|one| one.expect("an attribute")).collect();
            assert_eq!(shown, [Attr::Size(0)]);
            let stateid = opened.stateid;
            let wrote = client.on(wire, &scene.handle, &[writing(stateid, 0, b"x")]).status();
            let may_write = (access | first.unwrap_or(access)).contains(ShareAccess::WRITE);
            assert_eq!(
                wrote,
                if may_write { NfsStat::Ok } else { NfsStat::OpenMode },
                "{first:?} {access:?}"
            );
            client.on(wire, &scene.handle, &[closing(stateid)]).ok();
            assert_eq!(scene.world.engine.open_count(), 0);
        }
    }
}

// RFC 8881 18.16.3: UNCHECKED4 accepts an existing file
#[test]
fn a_file_that_somebody_else_makes_at_the_same_moment_is_opened_by_who_would_make_it() {
    let (world, plan) = NfsTestServer::counted();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let mut make = |how| {
        plan.add(VolumeCall::Create, 1, PlannedFault::Hold);
        let request = [Args::PutRootFh, lookup(EXPORT), opening(OpenHow::Create(how), b"file")];
        std::thread::scope(|scope| {
            let made = scope.spawn(|| client.run(&mut wire, &request).status());
            assert!(plan.wait_held(1, Duration::from_secs(60)), "it has not found the file");
            let (root, name) = (world.memory.root().unwrap(), Name::new(b"file").unwrap());
            root.create_file(&name, 0o666, None).unwrap();
            plan.release();
            let status = made.join().expect("the thread ends");
            root.remove(&name, false, None).unwrap();
            status
        })
    };
    assert_eq!(make(CreateHow::Guarded(Fattr::default())), NfsStat::Exist);
    assert_eq!(make(CreateHow::Unchecked(Fattr::default())), NfsStat::Ok);
}

#[test]
fn a_file_that_cannot_be_furnished_is_made_anew_when_it_is_asked_for_again() {
    let (world, plan) = NfsTestServer::counted();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let root = world.memory.root().unwrap();
    let make = |client: &mut Client, wire: &mut Wire, how| {
        let request = [Args::PutRootFh, lookup(EXPORT), opening(OpenHow::Create(how), b"file")];
        client.run(wire, &request).status()
    };
    plan.always(VolumeCall::SetAttributes, Some(Failure::NoSpace));
    assert_eq!(make(&mut client, &mut wire, CreateHow::Exclusive([1; 8])), NfsStat::NoSpc);
    plan.always(VolumeCall::SetAttributes, None);
    assert!(root.stat_name(&Name::new(b"file").unwrap()).is_err() && world.engine.open_count() == 0);
    let known = world.server.clients.get(client.clientid).unwrap();
    let device = root.id().device;
    let is_plain = |inode| known.cache_key(1, NodeId { device, inode }).0 >> 64 == u128::from(device);
    assert!((0..1000).all(is_plain), "no key is kept for it");
    assert_eq!(make(&mut client, &mut wire, CreateHow::Guarded(Fattr::default())), NfsStat::Ok);
    assert!(!(0..1000).all(is_plain), "one is while it is open");
}
