//! Symbolic links of the host by the names that clients use. A removal or rename acts on the link itself; a
//! read acts on its target.

use crate::common::*;
use share::engine::Symlinks;
use share::{Attributes, Config, Deny, Disposition, Info, NewItem, Options, Refusal};
use volume::security::Rights;
use volume::{HostChange, HostEvent, Volume};

/// A share with files and directories in `real`, and links to them at the top.
fn world_with(config: Config) -> TestShare {
    let world = TestShare::with(config);
    let client = world.client(9);
    for directory in ["real", "real/full", "real/empty", "other"] {
        client.make_directory(directory);
    }
    for file in ["real/f", "real/full/g"] {
        client.make_with(file, "text");
    }
    for (at, text) in [
        ("filelink", "real/f"),
        ("second", "filelink"),
        ("fulllink", "real/full"),
        ("emptylink", "real/empty"),
        ("nowhere", "real/missing"),
        ("out", "../etc/passwd"),
    ] {
        link(&world, at, text);
    }
    world
}

fn link(world: &TestShare, at: &str, text: &str) {
    let root = world.memory.root().unwrap();
    root.create_link(&name(at), text.as_bytes(), None).unwrap();
    let (directory, name, change) = (root.id(), Some(name(at)), HostChange::Created);
    world.memory.tell(HostEvent::Changed { directory, name, is_directory: false, change });
    world.share.maintain(now());
}

fn targets_are_whole(client: &Client) {
    assert_eq!(client.names_in("real"), ["empty", "f", "full"]);
    assert_eq!(client.names_in("real/full"), ["g"]);
    let open = client.open("real/f").access(READ).open();
    assert_eq!(client.read(&open).unwrap(), "text");
    client.close(&open);
}

const LINKS: [(&str, Options); 6] = [
    ("filelink", Options::NOT_DIRECTORY),
    ("second", Options::empty()),
    ("fulllink", Options::DIRECTORY),
    ("emptylink", Options::DIRECTORY),
    ("nowhere", Options::NOT_DIRECTORY),
    ("out", Options::empty()),
];

#[test]
fn a_name_that_is_a_link_is_removed_and_its_target_stays() {
    for by_close in [true, false] {
        for access in [Rights::DELETE, READ | Rights::DELETE, Rights::GENERIC_ALL] {
            let world = world_with(Config::default());
            let client = world.client(1);
            for (at, kind) in LINKS {
                let reads = access != Rights::DELETE;
                if reads && ["nowhere", "out"].contains(&at) {
                    continue;
                }
                let on_close = if by_close { Options::DELETE_ON_CLOSE } else { Options::empty() };
                let open = client.open(at).access(access).deny(Deny::all()).options(kind | on_close).open();
                if reads && at == "filelink" {
                    assert_eq!(client.read(&open).unwrap(), "text");
                }
                if !by_close {
                    client.set_delete(&open, true).unwrap();
                }
                assert!(world.share.info(&open).unwrap().delete_pending || by_close, "{at}");
                client.close(&open);
                assert!(!client.names_in("").contains(&at.to_owned()), "{at} {access:?}");
                targets_are_whole(&client);
                if at == "filelink" {
                    link(&world, at, "real/f");
                }
            }
        }
    }
}

#[test]
fn a_mark_to_go_is_taken_back_from_a_link() {
    let world = world_with(Config::default());
    let client = world.client(1);
    let open = client.open("filelink").open();
    client.set_delete(&open, true).unwrap();
    assert_eq!(client.open("filelink").options(Options::OPEN_LINK).refusal(), Refusal::DeletePending);
    client.set_delete(&open, false).unwrap();
    client.close(&open);
    assert_eq!(client.read(&client.open("filelink").open()).unwrap(), "text");
}

#[test]
fn a_name_that_is_a_link_is_renamed_and_its_target_stays() {
    for access in [Rights::DELETE, READ | Rights::DELETE] {
        let world = world_with(Config::default());
        let client = world.client(1);
        for at in ["filelink", "fulllink"] {
            let open = client.open(at).access(access).open();
            let to = format!("other/{at}");
            done(client.rename(&open, &to, false)).unwrap();
            targets_are_whole(&client);
            client.close(&open);
            let moved = client.open(&to).options(Options::OPEN_LINK).access(READ).open();
            assert!(world.share.link_text(&moved).unwrap().starts_with(b"real/"));
            assert!(!client.names_in("").contains(&at.to_owned()));
        }
    }
}

#[test]
fn a_link_gives_its_name_to_what_replaces_it() {
    let world = world_with(Config::default());
    let client = world.client(1);
    client.make_with("new", "new");
    let open = client.open("new").open();
    done(client.rename(&open, "filelink", true)).unwrap();
    client.close(&open);
    assert_eq!(client.read(&client.open("filelink").open()).unwrap(), "new");
    targets_are_whole(&client);
}

#[test]
fn a_link_is_of_the_kind_that_it_leads_to_when_it_is_removed() {
    let world = world_with(Config::default());
    let client = world.client(1);
    let refusal = |at: &str, kind| client.open(at).access(Rights::DELETE).options(kind).refusal();
    assert_eq!(refusal("filelink", Options::DIRECTORY), Refusal::NotADirectory);
    assert_eq!(refusal("fulllink", Options::NOT_DIRECTORY), Refusal::IsADirectory);
    assert_eq!(refusal("nowhere", Options::DIRECTORY), Refusal::NotADirectory);
    let itself = |at: &str, kind| client.open(at).access(Rights::DELETE).options(Options::OPEN_LINK | kind);
    for kind in [Options::DIRECTORY, Options::NOT_DIRECTORY] {
        client.close(&itself("fulllink", kind).open());
    }
    assert_eq!(itself("filelink", Options::DIRECTORY).refusal(), Refusal::NotADirectory);
    assert_eq!(client.open("fulllink").options(Options::NOT_DIRECTORY).refusal(), Refusal::IsADirectory);
}

#[test]
fn what_stands_behind_a_link_is_not_removed_through_it_unless_the_share_says_so() {
    let world = world_with(Config::default());
    let client = world.client(1);
    for access in [Rights::DELETE, ALL] {
        let ask = || client.open("fulllink/g").access(access);
        assert_eq!(ask().options(Options::DELETE_ON_CLOSE).refusal(), Refusal::CannotDelete);
        let open = ask().open();
        assert_eq!(client.set_delete(&open, true), Err(Refusal::CannotDelete));
        client.close(&open);
    }
    targets_are_whole(&client);
    // Objects that it has created itself are removed, and objects that it renames keep their data.
    let made = client.open("fulllink/new").disposition(Disposition::Create).open();
    client.set_delete(&made, true).unwrap();
    client.close(&made);
    targets_are_whole(&client);
    let open = client.open("fulllink/g").open();
    done(client.rename(&open, "fulllink/h", false)).unwrap();
    client.close(&open);
    assert_eq!(client.names_in("real/full"), ["h"]);

    let world = world_with(Config { delete_through_links: true, ..Config::default() });
    let client = world.client(1);
    let open = client.open("fulllink/g").access(Rights::DELETE).options(Options::DELETE_ON_CLOSE).open();
    client.close(&open);
    assert!(client.names_in("real/full").is_empty());
}

/// The listed properties of the names in a directory.
fn listed(client: &Client, at: &str, options: Options) -> Vec<(String, Info)> {
    let open = client.open(at).access(READ).options(options | Options::DIRECTORY).open();
    let mut entries = Vec::new();
    client
        .caller(true, now(), |c| {
            client.share.scan(c, &open, 0, &mut |_| true, &mut |entry| {
                entries.push((entry.name().display().into_owned(), entry.info().unwrap()));
                std::ops::ControlFlow::Continue(())
            })
        })
        .unwrap();
    client.close(&open);
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries
}

fn kinds(entries: &[(String, Info)]) -> Vec<(&str, bool, bool)> {
    let has = |info: &Info, bit| info.attributes.contains(bit);
    let kind = |info| (has(info, Attributes::DIRECTORY), has(info, Attributes::REPARSE));
    entries.iter().map(|(name, info)| (name.as_str(), kind(info).0, kind(info).1)).collect()
}

#[test]
fn a_link_that_is_followed_is_listed_as_what_it_leads_to() {
    let world = world_with(Config::default());
    let client = world.client(1);
    let entries = listed(&client, "", Options::empty());
    assert_eq!(
        kinds(&entries),
        [
            ("emptylink", true, false),
            ("filelink", false, false),
            ("fulllink", true, false),
            ("nowhere", false, true),
            ("other", true, false),
            ("out", false, true),
            ("real", true, false),
            ("second", false, false),
        ]
    );
    // The listing and an open of the name agree.
    for (at, info) in &entries {
        let open = client.open(at).access(Rights::READ_ATTRIBUTES).open();
        let opened = world.share.info(&open).unwrap();
        assert_eq!(
            (opened.id, opened.size, opened.attributes),
            (info.id, info.size, info.attributes),
            "{at}"
        );
        client.close(&open);
    }
    // A client that follows links itself sees links.
    let own = listed(&client, "", Options::STOP_AT_LINKS);
    assert!(own.iter().all(|(at, info)| {
        let is_link = !["other", "real"].contains(&at.as_str());
        info.attributes.contains(Attributes::REPARSE) == is_link
    }));
}

#[test]
fn who_only_looks_at_a_link_that_leads_nowhere_finds_the_link() {
    let world = world_with(Config::default());
    let client = world.client(1);
    link(&world, "lost", "missing/f");
    for (at, refusal) in
        [("nowhere", Refusal::NotFound), ("out", Refusal::BadLink), ("lost", Refusal::PathNotFound)]
    {
        for access in [Rights::READ_ATTRIBUTES, Rights::READ_CONTROL, Rights::MAXIMUM_ALLOWED] {
            let open = client.open(at).access(access).options(Options::NOT_DIRECTORY).open();
            assert_eq!(world.share.info(&open).unwrap().reparse_tag, 0xa000_000c, "{at} {access:?}");
            client.close(&open);
        }
        // A request for data, for a directory or for a name below gets the target of the link.
        for access in [READ, WRITE, READ | Rights::MAXIMUM_ALLOWED] {
            assert_eq!(client.open(at).access(access).refusal(), refusal, "{at}");
        }
        let directory = client.open(at).access(Rights::READ_ATTRIBUTES).options(Options::DIRECTORY);
        assert_eq!(directory.refusal(), refusal, "{at}");
        let below = format!("{at}/f");
        assert!(client.open(&below).access(Rights::READ_ATTRIBUTES).result().is_err(), "{at}");
    }
    // A request that creates a file by such a name creates its target.
    client.close(&client.open("nowhere").access(WRITE).disposition(Disposition::OpenOrCreate).open());
    assert_eq!(client.names_in("real"), ["empty", "f", "full", "missing"]);
}

#[test]
fn nobody_walks_in_circles() {
    let world = world_with(Config::default());
    let client = world.client(1);
    let in_directory = |at: &str, name_there: &str, text: &str| {
        let open = client.open(at).access(READ | WRITE).options(Options::DIRECTORY).open();
        let item = world.share.item_of(&open);
        client
            .call(|c| world.share.make_in(c, &item, &name(name_there), &NewItem::Link(text.as_bytes())))
            .unwrap();
        client.close(&open);
    };
    for directory in ["a", "b", "a/deep"] {
        client.make_directory(directory);
    }
    in_directory("a", "here", ".");
    in_directory("a/deep", "up", "..");
    in_directory("a/deep", "top", "../..");
    in_directory("a", "across", "../b");
    in_directory("b", "back", "../a");
    // A walk that trusts the listings ends.
    let mut seen = 0;
    let mut left = vec![String::new()];
    while let Some(at) = left.pop() {
        seen += 1;
        assert!(seen < 100, "the walk does not end: {at}");
        for (name, info) in listed(&client, &at, Options::empty()) {
            if info.attributes.contains(Attributes::DIRECTORY) {
                left.push(format!("{at}/{name}"));
            } else if info.attributes.contains(Attributes::REPARSE) {
                // An open of the name is of the link as well.
                let open = client.open(&format!("{at}/{name}")).access(Rights::READ_ATTRIBUTES).open();
                let opened = world.share.info(&open).unwrap();
                assert!(opened.attributes.contains(Attributes::REPARSE), "{at}/{name}");
                client.close(&open);
            }
        }
    }
    let across = listed(&client, "a/across", Options::empty());
    assert_eq!(kinds(&across), [("back", false, true)]);
    assert_eq!(kinds(&listed(&client, "b", Options::empty())), [("back", true, false)]);
    // A request that names a directory gets it.
    assert!(client.open("a/deep/up/deep").options(Options::DIRECTORY).open().is_directory());
    assert!(client.open("a/deep/up").options(Options::DIRECTORY).open().is_directory());
}

#[test]
fn a_share_says_which_links_may_be_made() {
    let make = |config: Symlinks, at: &str, text: &str| {
        let world =
            world_with(Config { symlinks: config, host_path: b"/srv/share".to_vec(), ..Config::default() });
        let client = world.client(1);
        let open = client.open(at).access(READ | WRITE).options(Options::DIRECTORY).open();
        let item = world.share.item_of(&open);
        let fresh = NewItem::Link(text.as_bytes());
        let made = client.call(|c| world.share.make_in(c, &item, &name("made"), &fresh)).map(|_| ());
        let placeholder = client.make(&format!("{at}/placeholder"));
        let put = client.caller(true, now(), |c| world.share.make_link(c, &placeholder, text.as_bytes()));
        assert_eq!(made, put, "{text}");
        made.is_ok()
    };
    for (at, text, inside) in [
        ("real", "f", true),
        ("real/full", "../../other", true),
        ("real", "../../etc", false),
        ("real", "fulllink/../../x", false),
        ("", "real/f", true),
        ("", "..", false),
        ("real", "/srv/share/other", true),
        ("real", "/srv/share/../other", false),
        ("real", "/etc/passwd", false),
    ] {
        assert!(make(Symlinks::All, at, text), "{text}");
        assert_eq!(make(Symlinks::Inside, at, text), inside, "{text}");
        assert!(!make(Symlinks::None, at, text), "{text}");
    }
    // It does not leave by moving up either.
    let world = world_with(Config { symlinks: Symlinks::Inside, ..Config::default() });
    let client = world.client(1);
    let open = client.make("real/full/climbs");
    client.caller(true, now(), |c| world.share.make_link(c, &open, b"../../other")).unwrap();
    client.close(&open);
    let open = client.open("real/full/climbs").access(Rights::DELETE).options(Options::OPEN_LINK).open();
    assert_eq!(done(client.rename(&open, "real/climbs", false)), Err(Refusal::AccessDenied));
    done(client.rename(&open, "real/empty/climbs", false)).unwrap();
}
