//! Users whose paths begin in their own directory, and who leave it by no name and no link. All of them
//! own all files here, so that nothing but the home keeps them apart.

use std::sync::Arc;

use crate::common::*;
use share::engine::Symlinks;
use share::{Config, Deny, Disposition, Identity, NewItem, Options, Refusal};
use volume::security::Rights;
use volume::{HostChange, HostEvent, Volume};

/// A share at `/home` with the homes of ann and bob, and with links of the host in that of ann.
struct Homes {
    world: TestShare,
    ann: Client,
    bob: Client,
}

fn homes_with(config: Config) -> Homes {
    let world = TestShare::with(Config { host_path: b"/home".to_vec(), ..config });
    let all = world.client(9);
    for directory in ["ann", "ann/docs", "bob", "bob/docs", "annex"] {
        all.make_directory(directory);
    }
    for file in ["ann/docs/f", "bob/docs/f", "bob/secret", "annex/secret"] {
        all.make_with(file, file);
    }
    for (at, text) in [
        ("docslink", "docs/f"),
        ("own", "/home/ann/docs/f"),
        ("up", ".."),
        ("beside", "../bob/secret"),
        ("deep", "docs/../../bob/secret"),
        ("whole", "/home/bob/secret"),
        ("all", "/home"),
        ("annex", "/home/annex/secret"),
        ("round", "/home/ann/../bob/secret"),
    ] {
        let home = world.memory.root().unwrap().lookup(&name("ann"), volume::OpenHow::Attributes).unwrap();
        home.create_link(&name(at), text.as_bytes(), None).unwrap();
        let (directory, name, change) = (home.id(), Some(name(at)), HostChange::Created);
        world.memory.tell(HostEvent::Changed { directory, name, is_directory: false, change });
    }
    world.share.maintain(now());
    let (ann, bob) = (world.client_of(1, at_home("ann")), world.client_of(2, at_home("bob")));
    Homes { world, ann, bob }
}

fn homes() -> Homes {
    homes_with(Config::default())
}

fn at_home(home: &str) -> Arc<Identity> {
    Arc::new(Identity { home: Some(name(home)), ..Identity::clone(&user(1001)) })
}

fn text(client: &Client, at: &str) -> Result<String, Refusal> {
    let open = client.open(at).access(READ).result()?.open;
    let text = client.read(&open);
    client.close(&open);
    text
}

#[test]
fn the_same_path_leads_each_user_to_a_file_of_his_own() {
    let Homes { world, ann, bob } = homes();
    assert_eq!(text(&ann, "docs/f").unwrap(), "ann/docs/f");
    assert_eq!(text(&bob, "docs/f").unwrap(), "bob/docs/f");
    ann.make_with("new", "of ann");
    assert!(!bob.names_in("").contains(&"new".to_owned()));
    assert_eq!(bob.names_in(""), ["docs", "secret"]);
    // Someone without a home reaches the same files from the root.
    let all = world.client(3);
    assert_eq!(text(&all, "ann/new").unwrap(), "of ann");
    let open = ann.open("docs/f").access(READ).open();
    let whole = world.share.path_of(&open);
    assert_eq!(whole, path("ann/docs/f"));
    assert_eq!(ann.identity.path_from_home(&whole), path("docs/f"));
    assert_eq!(bob.identity.path_from_home(&whole), whole);
    assert!(ann.identity.path_from_root(&path("docs/f")).eq(&whole));
}

#[test]
fn an_open_of_one_user_counts_for_whoever_reaches_the_file_from_the_root() {
    let Homes { world, ann, .. } = homes();
    let open = ann.open("docs/f").deny(Deny::all()).open();
    let all = world.client(3);
    assert_eq!(all.open("ann/docs/f").access(READ).refusal(), Refusal::SharingConflict);
    ann.close(&open);
    assert_eq!(text(&all, "ann/docs/f").unwrap(), "ann/docs/f");
}

#[test]
fn no_name_leads_out_of_a_home() {
    let Homes { ann, .. } = homes();
    for at in ["bob", "bob/secret", "ann/docs/f", "home/bob/secret"] {
        let refusal = ann.open(at).access(READ).refusal();
        assert!([Refusal::NotFound, Refusal::PathNotFound].contains(&refusal), "{at}: {refusal:?}");
        let exists = ann.caller(false, now(), |c| ann.share.exists(c, &path(at), Options::empty()));
        assert!(!exists.unwrap_or(false), "{at}");
    }
}

#[test]
fn links_lead_inside_a_home_alone() {
    let Homes { ann, .. } = homes();
    for at in ["docslink", "own"] {
        assert_eq!(text(&ann, at).unwrap(), "ann/docs/f", "{at}");
    }
    let outside =
        ["up", "up/bob/secret", "beside", "deep", "whole", "all", "all/bob/secret", "annex", "round"];
    for at in outside {
        assert_eq!(ann.open(at).access(READ).refusal(), Refusal::BadLink, "{at}");
        let make = ann.open(at).disposition(Disposition::OpenOrCreate);
        assert_eq!(make.refusal(), Refusal::BadLink, "{at}");
    }
    // They can be removed, as links.
    let link = ann.open("whole").access(Rights::DELETE).options(Options::DELETE_ON_CLOSE).open();
    ann.close(&link);
    assert!(!ann.names_in("").contains(&"whole".to_owned()));
    assert_eq!(ann.names_in("docs"), ["f"]);
}

#[test]
fn a_file_is_renamed_and_linked_within_a_home() {
    let Homes { world, ann, bob } = homes();
    let open = ann.open("docs/f").open();
    done(ann.rename(&open, "moved", false)).unwrap();
    assert_eq!(world.share.path_of(&open), path("ann/moved"));
    assert_eq!(done(ann.rename(&open, "up/bob/f", false)).unwrap_err(), Refusal::BadLink);
    let linked = ann.caller(true, now(), |c| ann.share.link(c, &open, &path("all/f"), false));
    assert_eq!(done(linked).unwrap_err(), Refusal::BadLink);
    ann.close(&open);
    assert_eq!(bob.names_in(""), ["docs", "secret"]);
}

#[test]
fn the_link_at_the_end_of_a_path_is_renamed_in_place_of_its_target() {
    let Homes { ann, .. } = homes();
    let link = ann.open("own").access(READ | Rights::DELETE).open();
    done(ann.rename(&link, "docs/link", false)).unwrap();
    ann.close(&link);
    assert_eq!(ann.names_in("docs"), ["f", "link"]);
    assert_eq!(text(&ann, "docs/link").unwrap(), "ann/docs/f");
}

#[test]
fn a_home_keeps_its_name() {
    let Homes { world, ann, .. } = homes();
    for name in ann.names_in("docs") {
        let open = ann.open(&format!("docs/{name}")).options(Options::DELETE_ON_CLOSE).open();
        ann.close(&open);
    }
    let open = ann.open("").access(READ | Rights::DELETE).options(Options::DIRECTORY).open();
    assert_eq!(ann.set_delete(&open, true).unwrap_err(), Refusal::CannotDelete);
    assert_eq!(done(ann.rename(&open, "docs/home", false)).unwrap_err(), Refusal::AccessDenied);
    let made = ann.caller(false, now(), |c| ann.share.make_link(c, &open, b"../bob"));
    assert_eq!(made.unwrap_err(), Refusal::AccessDenied);
    ann.close(&open);
    let goes = Options::DIRECTORY | Options::DELETE_ON_CLOSE;
    assert_eq!(ann.open("").access(Rights::DELETE).options(goes).refusal(), Refusal::CannotDelete);
    assert!(world.client(3).names_in("").contains(&"ann".to_owned()));
}

#[test]
fn a_home_that_is_missing_or_a_link_is_not_found() {
    let Homes { world, .. } = homes();
    world.memory.root().unwrap().create_link(&name("eve"), b"bob", None).unwrap();
    for home in ["eve", "nobody"] {
        let client = world.client_of(5, at_home(home));
        for at in ["", "secret"] {
            assert_eq!(client.open(at).access(READ).refusal(), Refusal::PathNotFound, "{home} {at}");
        }
    }
}

#[test]
fn links_that_stay_inside_stay_in_the_home() {
    let Homes { ann, .. } = homes_with(Config { symlinks: Symlinks::Inside, ..Config::default() });
    let home = || ann.share.item_of(&ann.open("").access(READ).options(Options::DIRECTORY).open());
    let make = |at: &str, text: &str| {
        let made =
            |c: &share::Caller<'_>| ann.share.make_in(c, &home(), &name(at), &NewItem::Link(text.as_bytes()));
        ann.call(made).map(|_| ())
    };
    for (at, text) in [("a", "docs/f"), ("b", "/home/ann/docs"), ("c", "bob")] {
        assert_eq!(make(at, text), Ok(()), "{text}");
    }
    for (at, text) in [("d", "../bob"), ("e", "/home/bob"), ("f", "/home/annex"), ("g", "/home")] {
        assert_eq!(make(at, text), Err(Refusal::AccessDenied), "{text}");
    }
}
