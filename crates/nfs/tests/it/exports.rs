//! The rules of an export about its users and their identities, as the client sees them.

use nfs::{Export, Network, Squash};
use nfs_wire::NfsStat;
use nfs_wire::attr::{Attr, AttrNum, Bitmap};
use nfs_wire::op::{Args, Res, getattr, readdir};
use testkit::nfs::*;
use volume::Failure;
use volume::faulty::VolumeCall;

/// Changes the export.
fn change(world: &NfsTestServer, change: impl Fn(&mut Export)) {
    let exports = world.server.exports();
    let mut export = Export::clone(&exports.list()[0]);
    change(&mut export);
    world.server.set_exports([export]);
}

/// The names that the pseudo root shows.
fn listed(client: &mut Client, wire: &mut Wire) -> usize {
    let list = Args::ReadDir(readdir::Args {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 4096,
        maxcount: 4096,
        attr_request: Bitmap::EMPTY,
    });
    let answer = client.run(wire, &[Args::PutRootFh, list]).ok();
    let Res::ReadDir(Ok(found)) = answer.last() else { panic!("{answer:?}") };
    found.entries.iter().count()
}

// RFC 8881 5.8.1.4
#[test]
fn the_change_attribute_of_the_root_grows() {
    let mut world = NfsTestServer::with_stable_storage();
    let mut last = 0;
    for round in 0..8 {
        if round == 4 {
            world = world.restarted();
        }
        let mut wire = world.connect();
        let wanted = Bitmap::of(&[AttrNum::Change.get()]);
        let mut client = Client::before_reclaim(&mut wire, b"client", 1);
        let get = Args::GetAttr(getattr::Args { attr_request: wanted });
        let answer = client.run(&mut wire, &[Args::PutRootFh, get]).ok();
        let Res::GetAttr(Ok(found)) = answer.last() else { panic!("{answer:?}") };
        let found: Vec<_> = found.obj_attributes.iter().map(|attr| attr.expect("an attribute")).collect();
        let [Attr::Change(now)] = found[..] else { panic!("{found:?}") };
        assert!(now > last, "{round}: {last:x} {now:x}");
        last = now;
        change(&world, |_| {});
    }
}

// RFC 8881 18.23.3
#[test]
fn a_list_fails_with_attributes_that_cannot_be_read_unless_the_client_wants_to_know_which() {
    let (world, plan) = NfsTestServer::counted();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    client.create(&mut wire, b"file");
    let mut list = |attributes: &[AttrNum]| {
        let attributes: Vec<_> = attributes.iter().map(|one| one.get()).collect();
        let list = Args::ReadDir(readdir::Args {
            cookie: 0,
            cookieverf: [0; 8],
            dircount: 4096,
            maxcount: 4096,
            attr_request: Bitmap::of(&attributes),
        });
        let all = [client.sequence(0, false), Args::PutRootFh, lookup(EXPORT), list];
        plan.always(VolumeCall::Space, Some(Failure::Io));
        let answer = wire.call(1, &all).status();
        plan.always(VolumeCall::Space, None);
        answer
    };
    assert_eq!(list(&[]), NfsStat::Ok);
    assert_eq!(list(&[AttrNum::SpaceAvail, AttrNum::RdattrError]), NfsStat::Ok);
    assert_eq!(list(&[AttrNum::SpaceAvail]), NfsStat::Io);
}

#[test]
fn who_may_not_use_an_export_neither_sees_it_nor_enters_it_nor_uses_its_handles() {
    let world = NfsTestServer::new();
    let mut near = world.connect_from("198.51.100.7:700");
    let mut client = Client::new(&mut near, b"near", 1);
    let (file, _) = client.create(&mut near, b"file");
    change(&world, |export| {
        export.clients = vec![Network { address: "198.51.100.0".parse().expect("an address"), bits: 24 }];
        export.secure = true;
    });
    client.run(&mut near, &[Args::PutRootFh, lookup(EXPORT)]).ok();
    client.on(&mut near, &file, &[Args::GetFh]).ok();
    assert_eq!(listed(&mut client, &mut near), 1);
    // From another network, from an unprivileged port, and over IPv6.
    for remote in
        ["192.0.2.2:700", "198.51.101.7:700", "198.51.100.7:1024", "198.51.100.7:50000", "[2001:db8::1]:700"]
    {
        let mut far = world.connect_from(remote);
        let mut client = Client::new(&mut far, remote.as_bytes(), 1);
        let entered = client.run(&mut far, &[Args::PutRootFh, lookup(EXPORT)]);
        assert_eq!(entered.status(), NfsStat::Access, "{remote}");
        assert_eq!(client.on(&mut far, &file, &[Args::GetFh]).status(), NfsStat::Stale, "{remote}");
        assert_eq!(listed(&mut client, &mut far), 0, "{remote}");
    }
    // The same client, written as an IPv6 address.
    let mut mapped = world.connect_from("[::ffff:198.51.100.8]:700");
    let mut client = Client::new(&mut mapped, b"mapped", 1);
    client.on(&mut mapped, &file, &[Args::GetFh]).ok();
}

#[test]
fn what_a_squashed_client_makes_belongs_to_the_anonymous_user() {
    for (squash, wanted) in
        [(Squash::None, (0, 0)), (Squash::Root, (1234, 4321)), (Squash::All, (1234, 4321))]
    {
        let world = NfsTestServer::new();
        change(&world, |export| (export.squash, export.anonymous) = (squash, (1234, 4321)));
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", 1);
        let (file, _) = client.create(&mut wire, b"file");
        let attr_request = Bitmap::of(&[AttrNum::Owner.get(), AttrNum::OwnerGroup.get()]);
        let answer = client.on(&mut wire, &file, &[Args::GetAttr(getattr::Args { attr_request })]).ok();
        let Res::GetAttr(Ok(found)) = answer.last() else { panic!("{answer:?}") };
        let found: Vec<_> = found.obj_attributes.iter().map(|attr| attr.expect("an attribute")).collect();
        let (uid, gid) = (wanted.0.to_string(), wanted.1.to_string());
        assert_eq!(found, [Attr::Owner(uid.as_bytes()), Attr::OwnerGroup(gid.as_bytes())], "{squash:?}");
    }
}

#[test]
fn an_export_that_is_taken_away_takes_along_what_is_open_on_it() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"one", 1);
    let (file, stateid) = client.create(&mut wire, b"file");
    client.on(&mut wire, &file, &[writing(stateid, 0, b"data")]).ok();
    let name = String::from_utf8(EXPORT.to_vec()).expect("text");
    assert_eq!(world.server.clients_of_export(&name), 1);
    assert_eq!(world.server.clients_of_export("another"), 0);
    let engine = std::sync::Arc::clone(&world.server.exports().list()[0].engine);
    let export = Export::clone(&world.server.exports().list()[0]);
    world.server.set_exports([]);
    assert!(world.server.end_export(&name, world.now) >= 1);
    assert_eq!((engine.open_count(), world.server.state_count()), (0, 0));
    assert_eq!(world.server.end_export(&name, world.now), 0);
    assert_eq!(client.on(&mut wire, &file, &[writing(stateid, 0, b"more")]).status(), NfsStat::Stale);
    // The session is unaffected, and the export can come back.
    assert_eq!(listed(&mut client, &mut wire), 0);
    world.server.set_exports([export]);
    client.on(&mut wire, &file, &[Args::GetFh]).ok();
    assert_eq!(client.on(&mut wire, &file, &[writing(stateid, 0, b"more")]).status(), NfsStat::BadStateId);
}

#[test]
fn what_is_open_goes_on_when_its_export_is_served_from_elsewhere_and_all_else_there_is_stale() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"one", 1);
    let (file, stateid) = client.create(&mut wire, b"file");
    let (other, closed) = client.create(&mut wire, b"other");
    client.on(&mut wire, &other, &[closing(closed)]).ok();
    let old = std::sync::Arc::clone(&world.engine);
    let elsewhere = NfsTestServer::new();
    change(&world, |export| {
        export.id += 1;
        export.engine = std::sync::Arc::clone(&elsewhere.engine);
    });
    let (before, after) = (old.open_count(), elsewhere.engine.open_count());
    // Over a connection that has checked the handle, and over another one.
    let mut second = world.connect();
    for wire in [&mut wire, &mut second] {
        client.on(wire, &file, &[writing(stateid, 0, b"data"), reading(stateid, 0, 4)]).ok();
        assert_eq!(client.on(wire, &other, &[Args::GetFh]).status(), NfsStat::Stale);
    }
    // Under its name the export is the new one.
    let entered = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), lookup(b"file")]);
    assert_eq!(entered.status(), NfsStat::NoEnt);
    let (made, new) = client.create(&mut wire, b"file");
    assert_ne!(made, file);
    client.on(&mut wire, &made, &[writing(new, 0, b"new"), closing(new)]).ok();
    assert_eq!((old.open_count(), elsewhere.engine.open_count()), (before, after));
    // The present rules for users apply to the old directory too, and the last close ends it.
    let only = |address: &str| vec![Network { address: address.parse().expect("an address"), bits: 32 }];
    change(&world, |export| export.clients = only("203.0.113.1"));
    assert_eq!(client.on(&mut wire, &file, &[writing(stateid, 0, b"x")]).status(), NfsStat::Stale);
    change(&world, |export| export.clients = Vec::new());
    client.on(&mut wire, &file, &[closing(stateid)]).ok();
    assert_eq!(client.on(&mut wire, &file, &[Args::GetFh]).status(), NfsStat::Stale);
    world.server.tick(world.now);
    // The test's own reference and the world's. The new world has none.
    assert_eq!((old.open_count(), std::sync::Arc::strong_count(&old)), (0, 2), "nobody holds it any more");
}

/// A source of groups that answers as the test says.
struct Groups(std::sync::Mutex<Result<Option<Vec<u32>>, nfs::NoGroups>>);

impl nfs::ManagedGids for Groups {
    fn groups(&self, _: u32) -> Result<Option<Vec<u32>>, nfs::NoGroups> {
        self.0.lock().expect("the lock").clone()
    }
}

// RFC 8881 15.1.1.3
#[test]
fn a_user_whose_groups_are_not_known_comes_again_and_gives_back_what_it_has() {
    let mut world = NfsTestServer::new();
    let silent = || Err(nfs::NoGroups::Unavailable("silent".to_owned()));
    let source = std::sync::Arc::new(Groups(Ok(Some(vec![5])).into()));
    let set = |groups| *source.0.lock().expect("the lock") = groups;
    let managed: std::sync::Arc<dyn nfs::ManagedGids> = std::sync::Arc::<Groups>::clone(&source);
    change(&world, |export| (export.squash, export.manage_gids) = (Squash::None, Some(managed.clone())));
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let (file, stateid) = client.create(&mut wire, b"file");
    client.on(&mut wire, &file, &[writing(stateid, 0, b"data")]).ok();
    // The groups of a minute ago do not count any more, and there are no newer ones.
    set(silent());
    let second = 1_000_000_000;
    for (after_s, wanted) in [(31, NfsStat::Delay), (59, NfsStat::Delay), (2, NfsStat::Access)] {
        world.now.mono_ns += after_s * second;
        wire.now = world.now;
        let found = client.on(&mut wire, &file, &[writing(stateid, 0, b"more")]).status();
        assert_eq!(found, wanted, "after {after_s} s");
        let entered = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT)]).status();
        assert_eq!(entered, wanted, "after {after_s} s");
    }
    client.on(&mut wire, &file, &[closing(stateid)]).ok();
    world.now.mono_ns += 2 * second;
    wire.now = world.now;
    set(Ok(None));
    client
        .on(
            &mut wire,
            &file,
            &[Args::Access(nfs_wire::op::access::Args { access: nfs_wire::op::access::AccessBits::READ })],
        )
        .ok();
}
