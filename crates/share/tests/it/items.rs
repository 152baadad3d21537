//! Objects that were found before and are not open: their properties, lookups in them, opening, amending,
//! linking and moving.

use crate::common::{TestShare, done, name, now, user};
use share::{
    CallResult, Deny, Disposition, LockOwner, LockRule, OpenRequest, OpenResult, Options, RangeKind,
    RangeRequest, Refusal,
};
use volume::security::Rights;
use volume::{HostEvent, NodeKind, Volume};

fn asking<'a>(path: &'a [volume::Name], access: Rights) -> OpenRequest<'a> {
    OpenRequest {
        path,
        stream: None,
        access,
        deny: Deny::empty(),
        disposition: Disposition::Open,
        options: Options::OPEN_LINK | Options::EXACT_CASE,
        attributes: share::Attributes::empty(),
        mode: None,
        descriptor: None,
        extended: &[],
        allocation: 0,
        caching: None,
        step_of: None,
    }
}

fn open_at(
    client: &crate::common::Client,
    from: &share::Item,
    request: &OpenRequest<'_>,
) -> Result<OpenResult, Refusal> {
    done(client.caller(true, now(), |c| client.share.create_from(c, from, request)))
}

#[test]
fn an_address_leads_to_the_same_file_after_it_has_moved_and_to_nothing_once_it_is_gone() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/f", "text");
    let share = &world.share;
    let (d, f) = client.caller(true, now(), |c| {
        let d = share.item_in(c, &share.root_item(), &name("d")).unwrap();
        let f = share.item_in(c, &d, &name("f")).unwrap();
        (d, f)
    });
    let address = f.address().unwrap();
    let open = client.open("d/f").open();
    assert!(matches!(client.rename(&open, "g", false), CallResult::Done(())));
    client.close(&open);
    let again = share.item(&address).unwrap();
    assert_eq!((again.id(), again.kind()), (f.id(), NodeKind::File));
    let opened = open_at(&client, &again, &asking(&[], Rights::READ_DATA)).unwrap();
    assert_eq!(client.read(&opened.open).unwrap(), "text");
    client.close(&opened.open);
    // From a directory found by its address, up to the root.
    let d = share.item(&d.address().unwrap()).unwrap();
    let above = client.caller(true, now(), |c| share.item_above(c, &d)).unwrap().unwrap();
    assert_eq!(above.id(), share.root_item().id());
    assert!(client.caller(true, now(), |c| share.item_above(c, &above)).unwrap().is_none());
    let open = client.open("g").open();
    client.set_delete(&open, true).unwrap();
    client.close(&open);
    assert_eq!(share.item(&address).err(), Some(Refusal::Gone));
    assert_eq!(share.item_info(&f).err(), Some(Refusal::Gone));
}

#[test]
fn what_a_directory_denies_cannot_be_looked_into() {
    let world = TestShare::new();
    let root = world.memory.root().unwrap();
    let owner = volume::Actor { uid: 1, gid: 1, groups: Vec::new() };
    let d = root.create_directory(&name("d"), 0o700, Some(&owner)).unwrap();
    d.create_file(&name("f"), 0o600, Some(&owner)).unwrap();
    let stranger = world.client_of(2, user(2000));
    let unbound = std::sync::Arc::new(share::Identity { unbound: true, ..(*user(2000)).clone() });
    let root = world.client_of(3, unbound);
    let share = &world.share;
    let look = |client: &crate::common::Client| {
        client.caller(true, now(), |c| {
            let d = share.item_in(c, &share.root_item(), &name("d")).unwrap();
            share.item_in(c, &d, &name("f")).map(|item| item.kind())
        })
    };
    assert_eq!(look(&stranger), Err(Refusal::AccessDenied));
    assert_eq!(look(&root), Ok(NodeKind::File));
}

#[test]
fn an_open_is_amended_only_as_far_as_others_allow() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    one.make_with("f", "text");
    let first = one.open("f").access(Rights::READ_DATA).open();
    let other = two.open("f").access(Rights::READ_DATA).deny(Deny::WRITE).open();
    let amend = |open, access, deny| {
        done(one.caller(true, now(), |c| world.share.change_access(c, open, access, deny)))
    };
    let both = Rights::READ_DATA | Rights::WRITE_DATA;
    assert_eq!(amend(&first, both, Deny::empty()).err(), Some(Refusal::SharingConflict));
    assert_eq!(amend(&first, Rights::READ_DATA, Deny::READ).err(), Some(Refusal::SharingConflict));
    two.close(&other);
    let second = amend(&first, both, Deny::WRITE).unwrap();
    assert_eq!((second.id(), second.granted(), second.deny()), (first.id(), both, Deny::WRITE));
    one.write(&second, 0, "TEXT").unwrap();
    assert_eq!(two.open("f").access(Rights::WRITE_DATA).refusal(), Refusal::SharingConflict);
    let third = amend(&second, Rights::READ_DATA, Deny::empty()).unwrap();
    assert_eq!(one.write(&third, 0, "x"), Err(Refusal::AccessDenied));
    let writer = two.open("f").access(Rights::WRITE_DATA).open();
    two.close(&writer);
    one.close(&third);
    assert_eq!(world.share.open_count(), 0);
}

#[test]
fn the_version_moves_with_every_change_within_one_tick_of_the_host() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "a");
    let share = &world.share;
    let item = client.caller(true, now(), |c| share.item_in(c, &share.root_item(), &name("f"))).unwrap();
    let version = || {
        let told = share.item_info(&item).unwrap().version;
        assert_eq!(share.item_info(&item).unwrap().version, told);
        told
    };
    let mut last = version();
    let mut moved = |what: &str| {
        let new = version();
        assert!(new > last, "{what}");
        last = new;
    };
    let open = client.open("f").open();
    for _ in 0..3 {
        // The host's clock stands still.
        world.memory.set_clock(volume::Time { secs: 1_000_000_000, nanos: 5 });
        client.write(&open, 0, "b").unwrap();
        moved("a write");
    }
    client.write(&open, 0, "c").unwrap();
    client.close(&open);
    moved("a write and the last close");
    let root = || share.item_info(&share.root_item()).unwrap().version;
    let before = root();
    world.memory.set_clock(volume::Time { secs: 1_000_000_000, nanos: 5 });
    client.make_with("g", "");
    assert!(root() > before);
}

#[test]
fn names_are_made_and_moved_in_directories_that_were_found() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("a");
    client.make_directory("b");
    client.make_with("a/f", "1");
    client.make_with("b/f", "2");
    let share = &world.share;
    let find = |text: &str| {
        client.caller(true, now(), |c| share.item_in(c, &share.root_item(), &name(text))).unwrap()
    };
    let (a, b) = (find("a"), find("b"));
    let f = [name("f")];
    let opened = open_at(&client, &a, &asking(&f, Rights::DELETE)).unwrap();
    done(client.caller(true, now(), |c| share.link_into(c, &opened.open, &b, &name("g")))).unwrap();
    let again = client.caller(true, now(), |c| share.link_into(c, &opened.open, &b, &name("f")));
    assert_eq!(done(again), Err(Refusal::Exists));
    // Another client has the replaced file open, and goes on with it.
    let held = client.open("b/f").access(Rights::READ_DATA).open();
    done(client.caller(true, now(), |c| share.rename_into(c, &opened.open, &b, &name("f")))).unwrap();
    client.close(&opened.open);
    assert_eq!(client.read(&held).unwrap(), "2");
    client.close(&held);
    assert_eq!(client.names_in("b"), ["f", "g"]);
    assert!(client.names_in("a").is_empty());
}

#[test]
fn what_is_replaced_or_moved_must_not_be_held_fast() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    one.make_directory("d");
    one.make_with("d/f", "1");
    one.make_with("f", "2");
    let share = &world.share;
    let f = [name("f")];
    let held = two.open("f").access(Rights::READ_DATA).deny(Deny::DELETE).open();
    let d = one.caller(true, now(), |c| share.item_in(c, &share.root_item(), &name("d"))).unwrap();
    let opened = open_at(&one, &d, &asking(&f, Rights::DELETE)).unwrap();
    let root = share.root_item();
    let moves = || done(one.caller(false, now(), |c| share.rename_into(c, &opened.open, &root, &name("f"))));
    assert_eq!(moves(), Err(Refusal::AccessDenied));
    two.close(&held);
    assert_eq!(moves(), Ok(()));
    one.close(&opened.open);
}

#[test]
fn a_range_in_the_way_is_told_with_its_owner() {
    let world = TestShare::new();
    let client = world.client(1);
    let open = client.make("f");
    let owner = |n| LockOwner { client: client.key, owner: n };
    let range = |start, len, kind| RangeRequest { start, len, kind };
    client
        .call(|c| {
            let taken = [range(10, 5, RangeKind::Exclusive)];
            world.share.lock(c, &open, owner(1), LockRule::Merging, &taken)
        })
        .unwrap();
    let ask = |who, start, kind| {
        world
            .share
            .conflicting_range(open.node_id(), owner(who), LockRule::Merging, &range(start, 4, kind))
            .unwrap()
    };
    assert_eq!(ask(1, 8, RangeKind::Exclusive), None);
    assert_eq!(ask(2, 2, RangeKind::Exclusive), None);
    let found = ask(2, 8, RangeKind::Shared).unwrap();
    assert_eq!(found, (owner(1), range(10, 5, RangeKind::Exclusive)));
    client.close(&open);
}

#[test]
fn a_directory_that_a_client_moves_has_no_other_one_asked_where_it_stands() {
    let (world, plan) = TestShare::planned(share::Config::default());
    let client = world.client(1);
    let share = &world.share;
    let found = ["d", "d/e", "into", "other"].map(|at| {
        client.make_directory(at);
        client.caller(true, now(), |c| {
            let step = |item, name: &volume::Name| share.item_in(c, &item, name).unwrap();
            crate::common::path(at).iter().fold(share.root_item(), step)
        })
    });
    let [d, e, into, other] = &found;
    let asked = || {
        let before = plan.metadata_calls();
        found.iter().for_each(|item| share.check_place(item).unwrap());
        plan.metadata_calls() - before
    };
    let above = |item| client.caller(true, now(), |c| share.item_above(c, item)).unwrap().unwrap().id();
    assert_eq!(asked(), 0);
    // The second move takes another directory with it.
    for (from, to) in [("other", "into/moved"), ("d", "into/moved/d")] {
        let open = client.open(from).open();
        done(client.rename(&open, to, false)).unwrap();
        client.close(&open);
        assert_eq!(asked(), 0, "{to}");
    }
    assert_eq!([d, e, other].map(above), [other, d, into].map(share::Item::id));
    world.memory.tell(HostEvent::Mounts);
    share.tick(now().plus(std::time::Duration::from_secs(1)));
    assert!(asked() > 0);
    assert_eq!(asked(), 0);
    assert_eq!([d, e, other].map(above), [other, d, into].map(share::Item::id));
}
