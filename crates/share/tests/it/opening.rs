//! Opening by path: dispositions, kinds, attributes, sharing, deleting.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::common::*;
use share::{Attributes, Caching, Config, Deny, Disposition, Options, Outcome, Refusal};
use volume::faulty::VolumeCall;
use volume::security::Rights;
use volume::{Failure, Volume};

#[test]
fn dispositions_decide_by_existence() {
    use Disposition::*;
    let cases = [
        (Supersede, Ok(Outcome::Superseded), Ok(Outcome::Created)),
        (Open, Ok(Outcome::Opened), Err(Refusal::NotFound)),
        (Create, Err(Refusal::Exists), Ok(Outcome::Created)),
        (OpenOrCreate, Ok(Outcome::Opened), Ok(Outcome::Created)),
        (Overwrite, Ok(Outcome::Overwritten), Err(Refusal::NotFound)),
        (OverwriteOrCreate, Ok(Outcome::Overwritten), Ok(Outcome::Created)),
    ];
    for (disposition, there, missing) in cases {
        let world = TestShare::new();
        let client = world.client(1);
        client.make_with("there", "text");
        for (at, expected) in [("there", there), ("missing", missing)] {
            let result = client.open(at).disposition(disposition).result();
            let kept = matches!(expected, Ok(Outcome::Opened));
            assert_eq!(
                result.as_ref().map(|o| o.outcome).map_err(Clone::clone),
                expected,
                "{disposition:?} {at}"
            );
            if let Ok(opened) = result {
                let size = if at == "there" && kept { 4 } else { 0 };
                assert_eq!(opened.info.size, size, "{disposition:?} {at}");
            }
        }
    }
}

#[test]
fn kinds_must_fit_the_options() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("file", "");
    client.make_directory("dir");
    let refused = |at: &str, options, disposition| {
        client.open(at).options(options).disposition(disposition).result().map(|o| o.outcome)
    };
    use Disposition::{Create, Open, OpenOrCreate, Overwrite, OverwriteOrCreate};
    assert_eq!(refused("file", Options::DIRECTORY, Open), Err(Refusal::NotADirectory));
    assert_eq!(refused("file", Options::DIRECTORY, Create), Err(Refusal::Exists));
    assert_eq!(refused("dir", Options::NOT_DIRECTORY, Open), Err(Refusal::IsADirectory));
    assert_eq!(refused("dir", Options::empty(), OverwriteOrCreate), Err(Refusal::Exists));
    assert_eq!(refused("dir", Options::DIRECTORY, OverwriteOrCreate), Err(Refusal::Invalid));
    assert_eq!(refused("", Options::empty(), Overwrite), Err(Refusal::AccessDenied));
    assert_eq!(refused("dir", Options::empty(), OpenOrCreate), Ok(Outcome::Opened));
    assert_eq!(refused("file/x", Options::empty(), OpenOrCreate), Err(Refusal::PathNotFound));
    assert_eq!(refused("none/x", Options::empty(), OpenOrCreate), Err(Refusal::PathNotFound));
    let both = Options::DIRECTORY | Options::NOT_DIRECTORY;
    assert_eq!(refused("dir", both, Open), Err(Refusal::Invalid));
}

/// If a request is refused for several reasons, the first one is reported. Each reason is added in front of
/// the earlier ones.
#[test]
fn the_first_reason_in_the_order_is_the_one_that_is_told() {
    let world = TestShare::new();
    let holder = world.client(1);
    let open = holder.open("f").disposition(Disposition::Create).attributes(Attributes::READ_ONLY);
    let everything = Caching::READ | Caching::HANDLE | Caching::WRITE;
    let kept = open.deny(Deny::all()).keyed(1, everything).open();
    let client = world.client(2);
    let stranger = world.client_of(3, user(2002));
    // Share modes, after the holder was asked to release its right.
    waits(client.open("f").access(READ).step());
    assert_eq!(holder.breaks().len(), 1);
    holder.acknowledge(1, true, Caching::empty()).unwrap();
    assert_eq!(client.open("f").access(READ).refusal(), Refusal::SharingConflict);
    // Before that: the mark for deletion.
    let marks = client.open("f").access(Rights::DELETE | Rights::READ_ATTRIBUTES);
    assert_eq!(marks.refusal(), Refusal::SharingConflict);
    holder.call(|c| world.share.set_delete(c, &kept, true, false, true)).unwrap();
    assert_eq!(client.open("f").access(READ).refusal(), Refusal::DeletePending);
    // Before that: the attribute, then the rights, the disposition, the kind.
    assert_eq!(client.open("f").access(WRITE).refusal(), Refusal::AccessDenied);
    let maximum = client.open("f").access(Rights::MAXIMUM_ALLOWED);
    assert_eq!(maximum.options(Options::DELETE_ON_CLOSE).refusal(), Refusal::CannotDelete);
    let deletes = stranger.open("f").access(Rights::WRITE_DAC | Rights::DELETE);
    assert_eq!(deletes.options(Options::DELETE_ON_CLOSE).refusal(), Refusal::AccessDenied);
    let makes = stranger.open("f").access(Rights::WRITE_DAC).disposition(Disposition::Create);
    assert_eq!(makes.refusal(), Refusal::Exists);
    let opens = stranger.open("f").access(Rights::WRITE_DAC).options(Options::DIRECTORY);
    assert_eq!(opens.refusal(), Refusal::NotADirectory);
    assert!(holder.breaks().is_empty(), "nobody is asked to give way for what is refused anyway");
}

#[test]
fn sharing_counts_in_both_directions() {
    let read = Rights::READ_DATA;
    let write = Rights::WRITE_DATA;
    for (first, denies, second, denies_second, fits) in [
        (read, Deny::empty(), read, Deny::empty(), true),
        (read, Deny::WRITE, read, Deny::empty(), true),
        (read, Deny::WRITE, write, Deny::empty(), false),
        (read, Deny::READ, read, Deny::empty(), false),
        (write, Deny::empty(), read, Deny::WRITE, false),
        (read, Deny::empty(), Rights::DELETE, Deny::empty(), true),
        (read, Deny::DELETE, Rights::DELETE, Deny::empty(), false),
        (Rights::EXECUTE, Deny::empty(), write, Deny::READ, false),
        (Rights::READ_ATTRIBUTES, Deny::all(), write, Deny::all(), true),
        (write, Deny::all(), Rights::READ_ATTRIBUTES, Deny::all(), true),
        (Rights::APPEND_DATA, Deny::empty(), read, Deny::WRITE, false),
    ] {
        let world = TestShare::new();
        let client = world.client(1);
        client.make_with("f", "");
        let _first = client.open("f").access(first).deny(denies).open();
        let second_open = client.open("f").access(second).deny(denies_second).result().map(|_| ());
        let expected = if fits { Ok(()) } else { Err(Refusal::SharingConflict) };
        assert_eq!(second_open, expected, "{first:?} {denies:?} {second:?} {denies_second:?}");
    }
}

#[test]
fn a_closed_open_denies_nothing_and_closing_twice_does_nothing() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "");
    let first = client.open("f").deny(Deny::all()).open();
    client.close(&first);
    client.close(&first);
    assert_eq!(world.share.open_count(), 0);
    assert!(client.open("f").deny(Deny::all()).result().is_ok());
}

#[test]
fn a_name_goes_with_its_last_open_and_nobody_opens_it_meanwhile() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "");
    let first = client.open("f").open();
    let second = client.open("f").open();
    client.set_delete(&first, true).unwrap();
    assert!(world.share.info(&second).unwrap().delete_pending);
    assert_eq!(client.open("f").refusal(), Refusal::DeletePending);
    client.close(&first);
    assert_eq!(client.open("f").refusal(), Refusal::DeletePending);
    client.set_delete(&second, false).unwrap();
    assert!(client.open("f").access(READ).result().is_ok());
    client.set_delete(&second, true).unwrap();
    client.close(&second);
    assert_eq!(client.names_in(""), ["f"]);
}

#[test]
fn delete_on_close_counts_when_its_open_is_closed() {
    let world = TestShare::new();
    let client = world.client(1);
    let other = client.make("f");
    let going = client.open("f").options(Options::DELETE_ON_CLOSE).open();
    client.close(&client.open("f").open());
    client.close(&going);
    assert_eq!(client.open("f").refusal(), Refusal::DeletePending);
    client.close(&other);
    assert_eq!(client.open("f").refusal(), Refusal::NotFound);
    let needs_right = client.open("g").disposition(Disposition::Create).options(Options::DELETE_ON_CLOSE);
    assert_eq!(needs_right.access(READ).refusal(), Refusal::Invalid);
}

#[test]
fn a_posix_deletion_takes_the_name_at_once_and_leaves_others_their_file() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "text");
    let going = client.open("f").open();
    let other = client.open("f").open();
    client.call(|c| world.share.set_delete(c, &going, true, true, false)).unwrap();
    client.close(&going);
    assert_eq!(client.names_in(""), Vec::<String>::new());
    assert_eq!(client.read(&other).unwrap(), "text");
    client.make_with("f", "new");
    client.close(&other);
    assert_eq!(client.names_in(""), ["f"]);
}

#[test]
fn a_delete_on_close_takes_the_name_at_once_where_that_is_asked() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "text");
    let other = client.open("f").open();
    let late = client.open("f").options(Options::DELETE_ON_CLOSE).open();
    client.close(&client.open("f").options(Options::DELETE_ON_CLOSE | Options::DELETE_AT_ONCE).open());
    assert_eq!(client.names_in(""), Vec::<String>::new());
    client.make_with("f", "new");
    client.close(&late);
    assert_eq!(client.read(&other).unwrap(), "text");
    client.close(&other);
    assert_eq!(client.read(&client.open("f").open()).unwrap(), "new");
    client.close(&client.open("f").options(Options::DELETE_AT_ONCE).open());
    assert_eq!(client.names_in(""), ["f"]);
}

#[test]
fn only_empty_directories_are_deleted_and_nothing_is_made_in_one_that_goes() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/f", "");
    let directory = client.open("d").open();
    assert_eq!(client.set_delete(&directory, true), Err(Refusal::NotEmpty));
    let file = client.open("d/f").options(Options::DELETE_ON_CLOSE).open();
    client.close(&file);
    client.set_delete(&directory, true).unwrap();
    assert_eq!(client.open("d/g").disposition(Disposition::Create).refusal(), Refusal::DeletePending);
    client.close(&directory);
    assert_eq!(client.open("d").refusal(), Refusal::NotFound);
    let root = client.open("").open();
    assert_eq!(client.set_delete(&root, true), Err(Refusal::CannotDelete));
}

#[test]
fn the_read_only_attribute_keeps_from_writing_and_deleting() {
    let world = TestShare::new();
    let client = world.client(1);
    let make = client.open("f").disposition(Disposition::Create).attributes(Attributes::READ_ONLY);
    let first = make.open();
    client.write(&first, 0, "the maker may write").unwrap();
    client.close(&first);
    assert_eq!(client.open("f").access(WRITE).refusal(), Refusal::AccessDenied);
    let deletes = client.open("f").access(READ | Rights::DELETE);
    assert_eq!(client.set_delete(&deletes.open(), true), Err(Refusal::CannotDelete));
    assert_eq!(deletes.options(Options::DELETE_ON_CLOSE).refusal(), Refusal::CannotDelete);
    let maximum = client.open("f").access(Rights::MAXIMUM_ALLOWED).open();
    assert!(!maximum.granted().intersects(Rights::WRITE_DATA | Rights::APPEND_DATA));
    assert!(maximum.granted().contains(Rights::READ_DATA | Rights::DELETE));
    // MS-FSA 2.1.5.1.2.1
    assert!(!maximum.granted().contains(Rights::DELETE_CHILD));
    let makes = client.open("g").disposition(Disposition::Create).attributes(Attributes::READ_ONLY);
    assert_eq!(makes.options(Options::DELETE_ON_CLOSE).refusal(), Refusal::CannotDelete);
}

#[test]
fn overwriting_must_name_the_bits_that_protect() {
    let world = TestShare::new();
    let client = world.client(1);
    let hidden = Attributes::HIDDEN;
    client.close(&client.open("f").disposition(Disposition::Create).attributes(hidden).open());
    let overwrite =
        |attributes| client.open("f").disposition(Disposition::Overwrite).attributes(attributes).result();
    assert_eq!(overwrite(Attributes::empty()).map(|_| ()), Err(Refusal::AccessDenied));
    let info = overwrite(hidden | Attributes::SYSTEM).unwrap().info;
    assert_eq!(info.attributes, hidden | Attributes::SYSTEM | Attributes::ARCHIVE);
}

#[test]
fn names_match_without_regard_to_case_and_keep_theirs() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("Größe");
    client.make_with("Größe/ReadMe.TXT", "text");
    let open = client.open("GRÖßE/readme.txt").open();
    assert_eq!(world.share.path_of(&open), path("Größe/ReadMe.TXT"));
    assert_eq!(client.open("größe/README.txt").disposition(Disposition::Create).refusal(), Refusal::Exists);
    client.close(&open);
    let exact = client.open("größe/readme.txt").options(Options::EXACT_CASE);
    assert_eq!(exact.refusal(), Refusal::PathNotFound);
    let gone = client.open("größe/README.txt").options(Options::DELETE_ON_CLOSE).open();
    client.close(&gone);
    assert_eq!(client.open("Größe/readme.txt").refusal(), Refusal::NotFound);
    client.make_with("Größe/README.txt", "");
    assert_eq!(client.names_in("größe"), ["README.txt"]);
}

#[test]
fn names_that_one_client_has_told_apart_the_others_see_and_reach_by_their_exact_spelling() {
    let world = TestShare::new();
    let (posix, client) = (world.client(1), world.client(2));
    for (at, text) in [("Name", "one"), ("name", "two")] {
        let open = posix.open(at).disposition(Disposition::Create).options(Options::EXACT_CASE).open();
        posix.write(&open, 0, text).unwrap();
        posix.close(&open);
    }
    assert_eq!(client.names_in(""), ["Name", "name"]);
    for (at, text) in [("Name", "one"), ("name", "two")] {
        let open = client.open(at).open();
        assert_eq!(client.read(&open).unwrap(), text);
    }
    assert!(client.open("NAME").result().is_ok(), "one of them");
    assert_eq!(client.open("NAME").disposition(Disposition::Create).refusal(), Refusal::Exists);
}

#[test]
fn a_case_sensitive_share_tells_names_apart() {
    let world = TestShare::with(Config { case_sensitive: true, ..Config::default() });
    let client = world.client(1);
    client.make_with("a", "small");
    client.make_with("A", "large");
    assert_eq!(client.read(&client.open("A").open()).unwrap(), "large");
    assert_eq!(client.names_in(""), ["A", "a"]);
}

#[test]
fn a_read_only_share_only_reads() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "text");
    world.share.configure(Config { read_only: true, ..Config::default() });
    assert_eq!(client.open("f").access(WRITE).refusal(), Refusal::AccessDenied);
    assert_eq!(client.open("g").disposition(Disposition::Create).refusal(), Refusal::AccessDenied);
    let open = client.open("f").access(Rights::MAXIMUM_ALLOWED).open();
    assert!(!open.granted().intersects(Rights::WRITE_DATA | Rights::DELETE | Rights::WRITE_DAC));
    assert_eq!(client.read(&open).unwrap(), "text");
}

#[test]
fn opens_are_bounded() {
    let world = TestShare::with(Config { max_opens: 2, ..Config::default() });
    let client = world.client(1);
    let (_a, b) = (client.make("a"), client.make("b"));
    assert_eq!(client.open("a").refusal(), Refusal::Exhausted);
    client.close(&b);
    assert!(client.open("a").result().is_ok());
}

#[test]
fn names_that_begin_with_a_dot_are_shown_as_hidden() {
    let world = TestShare::new();
    let client = world.client(1);
    let open = client.make(".profile");
    assert!(world.share.info(&open).unwrap().attributes.contains(Attributes::HIDDEN));
}

#[test]
fn who_meets_a_program_of_the_host_that_keeps_the_file_tries_again_until_it_lets_go() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    client.make_with("f", "text");
    plan.always(VolumeCall::Lookup, Some(Failure::HostKeeps));
    assert_eq!(client.open("f").without_waiting().refusal(), Refusal::HostKeeps);
    let ticket = waits(client.open("f").step());
    world.share.cancel(ticket);
    waits(client.open("f").step());
    let at = |ms| now().plus(Duration::from_millis(ms));
    assert_eq!(world.share.next_deadline(), Some(at(100).mono_ns));
    world.share.tick(at(99));
    assert_eq!(client.woken(), 0);
    world.share.tick(at(100));
    assert_eq!((client.woken(), world.share.next_deadline()), (1, None));
    waits(client.open("f").at(at(100)).step());
    plan.always(VolumeCall::Lookup, None);
    world.share.tick(at(200));
    assert_eq!(client.woken(), 1);
    assert_eq!(client.read(&client.open("f").open()).unwrap(), "text");
    assert_eq!(world.share.open_count(), 1);
}

/// Keeps the time of a client that is gone. It ends the client by closing its opens.
struct GoneClient(Arc<share::Share>, Mutex<Vec<Arc<share::Open>>>);

impl share::ClientExpiry for GoneClient {
    fn end_expired(&self, _: &[share::ClientKey], now: wire::Now) -> bool {
        let opens = std::mem::take(&mut *self.1.lock().unwrap());
        opens.iter().for_each(|open| self.0.close(open, now).unwrap());
        !opens.is_empty()
    }

    fn end_all_expired(&self, now: wire::Now) -> bool {
        self.end_expired(&[], now)
    }
}

#[test]
fn what_is_kept_for_a_client_whose_time_is_over_goes_when_anything_is_short() {
    let (world, plan) =
        TestShare::planned(Config { max_opens: 2, metadata_caching: false, ..Config::default() });
    let (gone, here) = (world.client(1), world.client(2));
    let keeper = Arc::new(GoneClient(Arc::clone(&world.share), Mutex::default()));
    let weak: Weak<GoneClient> = Arc::downgrade(&keeper);
    world.share.register_expiry(weak);
    let lapses = |at: &str| keeper.1.lock().unwrap().push(gone.make(at));
    lapses("a");
    plan.add(
        volume::faulty::VolumeCall::Create,
        1,
        volume::faulty::PlannedFault::Fail(volume::Failure::Exhausted),
    );
    here.close(&here.make("b"));
    assert_eq!(world.share.open_count(), 0);
    lapses("c");
    lapses("d");
    here.close(&here.make("e"));
    assert_eq!(world.share.open_count(), 0);
}

#[test]
fn what_is_kept_for_a_client_whose_time_is_over_is_in_nobodys_way() {
    let world = TestShare::new();
    let (gone, here) = (world.client(1), world.client(2));
    gone.make_with("f", "text");
    let keeper = Arc::new(GoneClient(Arc::clone(&world.share), Mutex::default()));
    let weak: Weak<GoneClient> = Arc::downgrade(&keeper);
    world.share.register_expiry(weak);
    let lapses = |open| keeper.1.lock().unwrap().push(open);
    // A denial.
    let denying = gone.open("f").access(READ).deny(Deny::WRITE).open();
    assert_eq!(here.open("f").access(WRITE).refusal(), Refusal::SharingConflict);
    lapses(denying);
    here.close(&here.open("f").access(WRITE).open());
    // A caching right that is released as a whole.
    let holds = gone.open("f").access(READ).keyed(1, Caching::READ | Caching::HANDLE).whole().open();
    lapses(holds);
    here.close(&here.open("f").access(WRITE).open());
    // Byte ranges, also of a client that zeroes or copies data.
    let open = here.open("f").access(READ | WRITE).open();
    let locked = || {
        let open = gone.open("f").access(READ | WRITE).open();
        let range = share::RangeRequest { start: 0, len: 2, kind: share::RangeKind::Exclusive };
        gone.call(|c| world.share.lock(c, &open, gone.owner(&open), share::LockRule::Exact, &[range]))
            .unwrap();
        lapses(open);
    };
    locked();
    here.call(|c| world.share.zero(c, &open, here.owner(&open), 0..1)).unwrap();
    locked();
    let side = |at| share::CopySide { open: &open, owner: here.owner(&open), at };
    here.call(|c| world.share.copy(c, side(0), side(2), 1)).unwrap();
    here.close(&open);
    // A name that is removed with the open that marks it, while another client has it open.
    gone.make_with("g", "text");
    lapses(gone.open("g").access(READ).open());
    here.close(&here.open("g").access(Rights::DELETE).options(Options::DELETE_ON_CLOSE).open());
    assert_eq!(here.names_in(""), ["f"]);
    // A name that is removed with the last open.
    lapses(gone.open("f").access(READ).open());
    let open = here.open("f").open();
    here.set_delete(&open, true).unwrap();
    here.close(&open);
    assert!(here.names_in("").is_empty());
}

#[test]
fn a_deletion_that_the_host_would_refuse_is_refused_when_it_is_asked_for() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    let sticky = world.memory.root().unwrap().create_directory(&name("sticky"), 0o777, None).unwrap();
    sticky.set_owner(Some(7), Some(7)).unwrap();
    sticky.set_mode(0o1777).unwrap();
    client.make_with("sticky/f", "text");
    client.make_directory("sticky/d");
    client.make_with("own", "text");
    plan.always(VolumeCall::CheckRemoval, Some(Failure::Denied));
    for at in ["sticky/f", "sticky/d"] {
        let open = client.open(at).open();
        assert_eq!(client.set_delete(&open, true), Err(Refusal::AccessDenied), "{at}");
        client.close(&open);
        let on_close = client.open(at).options(Options::DELETE_ON_CLOSE);
        assert_eq!(on_close.refusal(), Refusal::AccessDenied, "{at}");
    }
    // A stream is a sidecar of the share, and needs no permission for its removal.
    let stream = client.open("sticky/f").stream("s").disposition(Disposition::Create).open();
    client.set_delete(&stream, true).unwrap();
    client.close(&stream);
    assert_eq!(client.names_in("sticky"), ["d", "f"]);
    // This directory belongs to the client's user, so the host need not be asked.
    client.close(&client.open("own").options(Options::DELETE_ON_CLOSE).open());
    assert_eq!(client.names_in(""), ["sticky"]);
}
