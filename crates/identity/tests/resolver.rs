//! The resolver over a directory and a host in memory.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use identity::mapping::{IdMapping, IdTable, RidRange};
use identity::{
    AccountKey, Domain, Domains, IdentityError, LocalUser, LocalUsers, Settings, SourceUser, TicketLogon,
};
use support::{MemorySource, REALM, Stage, domain_sid, domains, group, sid, ticket, user};
use volume::security::Sid;

const MINUTE: Duration = Duration::from_secs(60);

fn rid_mapping() -> IdMapping {
    let range = "10000-199999".parse().unwrap();
    IdMapping::rid(vec![RidRange { domain: domain_sid(), range, base_rid: 0 }]).unwrap()
}

fn attributes() -> IdMapping {
    IdMapping::Attributes("1000-9999".parse().unwrap())
}

fn stage(mapping: IdMapping, users: Vec<SourceUser>, groups: Vec<identity::SourceGroup>) -> Stage {
    let settings = Settings::new(domains(), mapping);
    Stage::new(settings, MemorySource::new(users, groups), MemorySource::new(vec![], vec![]))
}

fn by_name(name: &str) -> AccountKey {
    AccountKey::in_realm(&REALM.into(), name)
}

#[test]
fn nested_groups_count_and_circles_end() {
    let groups = vec![
        group("Domain Users", 513, &[]),
        group("a", 2001, &[2002]),
        group("b", 2002, &[2003]),
        group("c", 2003, &[2001, 2004]),
        group("d", 2004, &[]),
        group("other", 2005, &[]),
    ];
    let stage = stage(rid_mapping(), vec![user("bob", 1104, &[2001])], groups);
    let bob = stage.resolver.user_named("CORP\\bob").unwrap().unwrap();
    let sids: Vec<Sid> = bob.groups.iter().map(|group| group.sid).collect();
    assert_eq!(sids, [513, 2001, 2002, 2003, 2004].map(sid));
    assert_eq!((bob.uid, bob.gid, bob.gids()), (11_104, 10_513, vec![12_001, 12_002, 12_003, 12_004]));
    assert_eq!(bob.nt_name(), "CORP\\bob");
    let group = stage.resolver.group_named("corp\\A").unwrap().unwrap();
    assert_eq!((group.sid, group.gid), (sid(2001), Some(12_001)));
}

#[test]
fn a_user_of_1200_groups_has_them_all() {
    let rids: Vec<u32> = (2000..3200).collect();
    let groups = rids.iter().map(|rid| group(&format!("g{rid}"), *rid, &[])).collect();
    let stage = stage(rid_mapping(), vec![user("bob", 1104, &rids)], groups);
    let bob = stage.resolver.user(&by_name("bob")).unwrap().unwrap();
    assert_eq!((bob.groups.len(), bob.gids().len()), (1201, 1200));
    let sids: Vec<Sid> = rids.iter().map(|rid| sid(*rid)).collect();
    let logged_on = stage.resolver.log_on(&ticket(&user("bob", 1104, &[]), &sids)).unwrap();
    assert_eq!(logged_on.gids(), bob.gids());
}

#[test]
fn suffixes_of_the_forest_name_users_of_the_domain() {
    let bob = SourceUser { principal: Some("B.Smith@Other.Example".to_owned()), ..user("bob", 1104, &[]) };
    let stage = stage(rid_mapping(), vec![bob], vec![]);
    let (text, resolver) = ("b.smith@other.example", &stage.resolver);
    stage.directory.set_silent(true);
    assert!(matches!(resolver.user_named(text), Err(IdentityError::Unavailable(_))));
    stage.directory.set_silent(false);
    stage.clock.advance(MINUTE);
    // The user has this name, but no forest lists the suffix.
    assert_eq!(resolver.user_named(text).unwrap(), None);
    assert!(!resolver.is_known_suffix("other.example"));
    *stage.directory.suffixes.lock().unwrap() = vec!["other.example".to_owned()];
    stage.clock.advance(11 * MINUTE);
    // Those who may not wait have the old list at first.
    assert_eq!(resolver.known_user_named(text), None);
    while resolver.refresh(Duration::ZERO) {}
    assert!(resolver.is_known_suffix("OTHER.example") && !resolver.is_known_suffix("other"));
    assert_eq!(resolver.user_named(text).unwrap().unwrap().sid, sid(1104));
    assert_eq!(resolver.known_user_named(text).unwrap().sid, sid(1104));
    // There is no implicit name with such a suffix.
    assert_eq!(resolver.user_named("bob@other.example").unwrap(), None);
    stage.directory.set_silent(true);
    stage.clock.advance(11 * MINUTE);
    assert!(resolver.user_named(text).unwrap().is_some(), "a silent directory takes no name away");
}

#[test]
fn many_names_with_an_unknown_suffix_are_one_question_to_the_directory() {
    let stage = stage(rid_mapping(), vec![], vec![]);
    let ask_many = || {
        let before = stage.directory.queries();
        let gate = stage.directory.gate.lock().unwrap();
        let started = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (resolver, started) = (Arc::clone(&stage.resolver), Arc::clone(&started));
                std::thread::spawn(move || {
                    started.fetch_add(1, Ordering::SeqCst);
                    resolver.user_named(&format!("user{number}@other.example")).is_ok()
                })
            })
            .collect();
        while stage.directory.queries() == before || started.load(Ordering::SeqCst) < 8 {
            std::thread::yield_now();
        }
        drop(gate);
        let found: Vec<bool> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        (found, stage.directory.queries() - before)
    };
    stage.directory.set_silent(true);
    assert_eq!(ask_many(), (vec![false; 8], 1), "a directory that does not answer");
    stage.directory.set_silent(false);
    assert!(stage.resolver.user_named("user9@other.example").is_err());
    stage.clock.advance(MINUTE);
    assert_eq!(ask_many(), (vec![true; 8], 1));
    stage.clock.advance(11 * MINUTE);
    assert_eq!(ask_many(), (vec![true; 8], 1), "the old list is asked for once more");
}

#[test]
fn nobody_waits_longer_than_the_limit_for_the_suffixes() {
    let settings = Settings { answer_limit: Duration::ZERO, ..Settings::new(domains(), rid_mapping()) };
    let directory = MemorySource::new(vec![], vec![]);
    let stage = Stage::new(settings, directory, MemorySource::new(vec![], vec![]));
    let gate = stage.directory.gate.lock().unwrap();
    let first = {
        let resolver = Arc::clone(&stage.resolver);
        std::thread::spawn(move || resolver.user_named("bob@other.example").is_ok())
    };
    while stage.directory.queries() == 0 {
        std::thread::yield_now();
    }
    let late = stage.resolver.user_named("ann@other.example");
    assert!(matches!(late, Err(IdentityError::Unavailable(_))), "{late:?}");
    drop(gate);
    assert!(first.join().unwrap());
}

#[test]
fn a_trusted_domain_takes_no_principal_name_of_the_own_forest() {
    let lab_sid = Sid::new(5, &[21, 4, 5, 6]);
    let lab = Domain { sid: Some(lab_sid), ..Domain::new("LAB.EXAMPLE", Some("LAB")) };
    let range = |domain, range: &str| RidRange { domain, range: range.parse().unwrap(), base_rid: 0 };
    let ranges = vec![range(domain_sid(), "10000-199999"), range(lab_sid, "200000-299999")];
    let named = |text: &str, user: SourceUser| SourceUser { principal: Some(text.to_owned()), ..user };
    let eve = |principal: &str| {
        let in_lab = SourceUser { realm: Some("LAB.EXAMPLE".into()), ..user("eve", 0, &[]) };
        let (sid, group) = (lab_sid.child(1104), lab_sid.child(513));
        named(principal, SourceUser { sid, primary_group: group, ..in_lab })
    };
    let stage = |users| {
        let settings = Settings::new(
            Domains { trusted: vec![lab.clone()], ..domains() },
            IdMapping::rid(ranges.clone()).unwrap(),
        );
        let directory = MemorySource::new(users, vec![]);
        *directory.suffixes.lock().unwrap() = vec!["other.example".to_owned()];
        Stage::new(settings, directory, MemorySource::new(vec![], vec![]))
    };
    let text = "bob@other.example";
    let alone = stage(vec![eve(text)]);
    let key = AccountKey::Sid(lab_sid.child(1104).unwrap());
    let found = alone.resolver.user(&key).unwrap().unwrap();
    assert_eq!(found.principal.as_deref(), Some("eve@LAB.EXAMPLE"));
    assert_eq!(alone.resolver.known_user_named(text), None);
    let own = stage(vec![eve("eve@lab.example")]);
    assert_eq!(own.resolver.user(&key).unwrap().unwrap().principal.as_deref(), Some("eve@lab.example"));
    // Within a domain a second account takes the name from no other either.
    let both = stage(vec![named(text, user("bob", 1104, &[])), named(text, user("zed", 1105, &[]))]);
    let bob = both.resolver.user(&by_name("bob")).unwrap().unwrap();
    both.resolver.user(&by_name("zed")).unwrap().unwrap();
    assert_eq!(both.resolver.known_user(&AccountKey::Principal(text.into())).unwrap().sid, bob.sid);
}

#[test]
fn sources_that_disagree_refuse() {
    let stage = stage(rid_mapping(), vec![user("bob", 1104, &[])], vec![]);
    let on_host = |uid| SourceUser {
        account: "bob".to_owned(),
        realm: Some(REALM.into()),
        uid: Some(uid),
        gid: Some(10_513),
        ..SourceUser::default()
    };
    *stage.host.users.lock().unwrap() = vec![on_host(7)];
    let refusal = stage.resolver.user(&by_name("bob")).unwrap_err();
    assert!(matches!(refusal, IdentityError::Disagreement { subject: "uid", .. }), "{refusal}");
    *stage.host.users.lock().unwrap() = vec![on_host(11_104)];
    // The refusal is remembered for 30 s, as a miss is.
    assert!(stage.resolver.user(&by_name("bob")).is_err());
    stage.clock.advance(MINUTE);
    assert!(stage.resolver.user(&by_name("bob")).unwrap().is_some());
    // The account was made anew, and the ticket is of the former one.
    let refusal = stage.resolver.log_on(&ticket(&user("bob", 1999, &[]), &[])).unwrap_err();
    assert!(matches!(refusal, IdentityError::Disagreement { subject: "SID", .. }), "{refusal}");
    // A SID of another domain than the ticket's.
    let foreign = SourceUser { sid: Some(Sid::new(5, &[21, 9, 9, 9, 1104])), ..user("eve", 1, &[]) };
    let refusal = stage.resolver.log_on(&ticket(&foreign, &[])).unwrap_err();
    assert!(matches!(refusal, IdentityError::Disagreement { subject: "SID", .. }), "{refusal}");
}

#[test]
fn two_users_of_one_uid_are_refused() {
    let with_uid = |name, rid, uid| SourceUser { uid: Some(uid), gid: Some(1000), ..user(name, rid, &[]) };
    let users = vec![with_uid("ann", 1, 2000), with_uid("bob", 2, 2000), with_uid("eve", 3, 2001)];
    let stage = stage(attributes(), users, vec![]);
    for name in ["ann", "bob"] {
        let refusal = stage.resolver.user(&by_name(name)).unwrap_err();
        assert!(matches!(refusal, IdentityError::SharedId { id: 2000, .. }), "{refusal}");
    }
    assert!(matches!(stage.resolver.user(&AccountKey::Id(2000)), Err(IdentityError::SharedId { .. })));
    assert_eq!(stage.resolver.user(&by_name("eve")).unwrap().unwrap().uid, 2001);
    // The server's own user has the uid: the own user goes before the domain's.
    let own = LocalUser { name: "own".to_owned(), sid: sid(1), uid: 2001, gid: 1, groups: vec![] };
    let own = LocalUser { sid: Sid::new(5, &[21, 1, 1, 1, 1000]), ..own };
    stage.resolver.set_local_users(LocalUsers::new(&[own]));
    stage.clock.advance(11 * MINUTE);
    assert!(matches!(stage.resolver.user(&by_name("eve")), Err(IdentityError::SharedId { .. })));
    assert_eq!(&*stage.resolver.user(&AccountKey::Id(2001)).unwrap().unwrap().account, "own");
}

#[test]
fn an_account_that_no_range_covers_is_refused() {
    let users = vec![user("bob", 500_000, &[]), user("ann", 1104, &[])];
    let stage = stage(rid_mapping(), users, vec![]);
    let refusal = stage.resolver.log_on(&ticket(&user("bob", 500_000, &[]), &[])).unwrap_err();
    assert_eq!(refusal, IdentityError::NotCovered { account: "bob".to_owned(), sid: sid(500_000) });
    assert!(stage.resolver.log_on(&ticket(&user("ann", 1104, &[]), &[])).is_ok());
    // A table without the primary group.
    let table = IdMapping::Table(IdTable::parse(&format!("user {} 5000", sid(1104))).unwrap());
    let stage = self::stage(table, vec![user("ann", 1104, &[])], vec![]);
    let refusal = stage.resolver.user(&by_name("ann")).unwrap_err();
    assert_eq!(refusal, IdentityError::NotCovered { account: "ann".to_owned(), sid: sid(513) });
}

#[test]
fn records_live_ten_minutes_misses_thirty_seconds_and_silence_eight_hours() {
    let stage = stage(rid_mapping(), vec![user("bob", 1104, &[])], vec![]);
    let find = |name| stage.resolver.user(&by_name(name));
    assert!(find("bob").unwrap().is_some());
    assert!(find("eve").unwrap().is_none());
    let asked = stage.directory.queries();
    stage.clock.advance(Duration::from_secs(29));
    assert!(find("bob").unwrap().is_some() && find("eve").unwrap().is_none());
    assert_eq!(stage.directory.queries(), asked);
    stage.directory.users.lock().unwrap().push(user("eve", 1105, &[]));
    stage.clock.advance(Duration::from_secs(2));
    assert!(find("eve").unwrap().is_some());
    // Silence: known users stay, unknown ones are refused, and each silence costs one query in 30 s.
    stage.directory.set_silent(true);
    stage.clock.advance(11 * MINUTE);
    let asked = stage.directory.queries();
    assert!(find("bob").unwrap().is_some() && find("eve").unwrap().is_some());
    assert!(matches!(find("zoe"), Err(IdentityError::Unavailable(_))));
    assert_eq!(stage.directory.queries(), asked + 1);
    stage.clock.advance(7 * 60 * MINUTE);
    assert!(find("bob").unwrap().is_some());
    stage.clock.advance(60 * MINUTE);
    assert!(matches!(find("bob"), Err(IdentityError::Unavailable(_))));
    // The directory answers again, and says that bob is gone.
    stage.directory.set_silent(false);
    stage.directory.users.lock().unwrap().retain(|user| user.account != "bob");
    stage.clock.advance(MINUTE);
    assert!(find("bob").unwrap().is_none());
    assert_eq!(stage.resolver.known_user(&AccountKey::Sid(sid(1104))), None);
}

#[test]
fn known_lookups_ask_nobody_and_are_refreshed_elsewhere() {
    let groups = vec![group("staff", 2001, &[])];
    let stage = stage(rid_mapping(), vec![user("bob", 1104, &[])], groups);
    let resolver = &stage.resolver;
    let (bob, staff) = (AccountKey::Id(11_104), AccountKey::Id(12_001));
    assert!(resolver.known_user(&bob).is_none() && resolver.known_group(&staff).is_none());
    assert_eq!(stage.directory.queries(), 0);
    while resolver.refresh(Duration::ZERO) {}
    assert_eq!(&*resolver.known_user(&bob).unwrap().account, "bob");
    assert_eq!(&*resolver.known_group(&staff).unwrap().name, "staff");
    let asked = stage.directory.queries();
    stage.clock.advance(11 * MINUTE);
    assert!(resolver.known_user(&bob).is_some());
    assert_eq!(stage.directory.queries(), asked);
    assert!(resolver.refresh(Duration::ZERO) && !resolver.refresh(Duration::ZERO));
    assert!(stage.directory.queries() > asked);
}

#[test]
fn concurrent_lookups_of_one_user_are_one_query() {
    let stage = stage(rid_mapping(), vec![user("bob", 1104, &[])], vec![group("u", 513, &[])]);
    // The queries of one lookup alone.
    assert!(stage.resolver.user(&by_name("bob")).unwrap().is_some());
    let alone = stage.directory.queries();
    stage.clock.advance(11 * MINUTE);
    let gate = stage.directory.gate.lock().unwrap();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let resolver = Arc::clone(&stage.resolver);
            std::thread::spawn(move || resolver.user(&by_name("bob")).unwrap().unwrap().uid)
        })
        .collect();
    while stage.directory.queries() == alone {
        std::thread::yield_now();
    }
    drop(gate);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 11_104);
    }
    assert_eq!(stage.directory.queries(), 2 * alone);
}

#[test]
fn nobody_waits_longer_than_the_limit_for_another_query() {
    let settings = Settings { answer_limit: Duration::ZERO, ..Settings::new(domains(), rid_mapping()) };
    let directory = MemorySource::new(vec![user("bob", 1104, &[])], vec![]);
    let stage = Stage::new(settings, directory, MemorySource::new(vec![], vec![]));
    let gate = stage.directory.gate.lock().unwrap();
    let first = {
        let resolver = Arc::clone(&stage.resolver);
        std::thread::spawn(move || resolver.user(&by_name("bob")).is_ok())
    };
    while stage.directory.queries() == 0 {
        std::thread::yield_now();
    }
    assert!(matches!(stage.resolver.user(&by_name("bob")), Err(IdentityError::Unavailable(_))));
    drop(gate);
    assert!(first.join().unwrap());
}

#[test]
fn a_ticket_gives_the_groups_of_its_pac_and_needs_one_in_a_domain() {
    let stage = stage(rid_mapping(), vec![user("bob", 1104, &[2001])], vec![group("g", 2001, &[])]);
    let bob = user("bob", 1104, &[]);
    let logged_on = stage.resolver.log_on(&ticket(&bob, &[sid(2002)])).unwrap();
    let sids: Vec<Sid> = logged_on.groups.iter().map(|group| group.sid).collect();
    assert_eq!(sids, [sid(513), sid(2002)]);
    let without = TicketLogon { pac: None, ..ticket(&bob, &[]) };
    assert_eq!(
        stage.resolver.log_on(&without).unwrap_err(),
        IdentityError::NoPac("bob@CORP.EXAMPLE".to_owned())
    );
    let elsewhere = TicketLogon { realm: "EVIL.EXAMPLE".to_owned(), ..ticket(&bob, &[]) };
    assert!(matches!(stage.resolver.log_on(&elsewhere), Err(IdentityError::UnknownRealm(_))));
    // The directory disables bob. The next log-on after the record's life fails.
    stage.directory.users.lock().unwrap()[0].disabled = true;
    stage.clock.advance(11 * MINUTE);
    let refusal = stage.resolver.log_on(&ticket(&bob, &[])).unwrap_err();
    assert_eq!(refusal, IdentityError::Disabled("CORP\\bob".to_owned()));
}

#[test]
fn a_silent_directory_gives_nobody_a_right() {
    let with_uid = SourceUser { uid: Some(2000), gid: Some(1000), ..user("bob", 1104, &[]) };
    let by_attributes = stage(attributes(), vec![with_uid.clone()], vec![]);
    by_attributes.directory.set_silent(true);
    let refusal = by_attributes.resolver.log_on(&ticket(&with_uid, &[])).unwrap_err();
    assert!(matches!(refusal, IdentityError::Unavailable(_)), "{refusal}");
    // The formula needs no directory: all rights are those of the PAC.
    let by_rid = stage(rid_mapping(), vec![], vec![]);
    by_rid.directory.set_silent(true);
    assert_eq!(by_rid.resolver.log_on(&ticket(&with_uid, &[])).unwrap().uid, 11_104);
    // Nobody is without the host's groups because the host is silent. Those who are known keep theirs.
    by_rid.host.set_silent(true);
    let refusal = by_rid.resolver.log_on(&ticket(&user("ann", 1105, &[]), &[])).unwrap_err();
    assert!(matches!(refusal, IdentityError::Unavailable(_)), "{refusal}");
    assert!(by_rid.resolver.log_on(&ticket(&with_uid, &[])).is_ok());
    let by_host = stage(IdMapping::Host, vec![with_uid.clone()], vec![]);
    by_host.host.set_silent(true);
    assert!(matches!(by_host.resolver.log_on(&ticket(&with_uid, &[])), Err(IdentityError::Unavailable(_))));
}

#[test]
fn the_engine_learns_users_and_groups_apart() {
    let stage = stage(rid_mapping(), vec![user("bob", 1104, &[2001])], vec![group("staff", 2001, &[])]);
    let resolver = &stage.resolver;
    // A formula alone cannot tell a user from a group.
    assert_eq!((resolver.known_uid(&sid(1104)), resolver.known_gid(&sid(2001))), (None, None));
    resolver.user(&by_name("bob")).unwrap().unwrap();
    assert_eq!(
        (resolver.known_uid(&sid(1104)), resolver.known_gid(&sid(2001))),
        (Some(11_104), Some(12_001))
    );
    assert_eq!((resolver.known_uid(&sid(2001)), resolver.known_gid(&sid(1104))), (None, None));
    assert_eq!(
        (resolver.known_user_sid(11_104), resolver.known_group_sid(12_001)),
        (Some(sid(1104)), Some(sid(2001)))
    );
    assert_eq!(resolver.known_user_named("corp\\BOB").unwrap().uid, 11_104);
}

#[test]
fn a_client_that_names_unknown_accounts_keeps_the_names_of_others_from_nobody() {
    let stage = stage(rid_mapping(), vec![user("bob", 1104, &[])], vec![]);
    let resolver = &stage.resolver;
    let scope = share::RequesterScope::enter("192.0.2.1".parse().unwrap());
    for number in 0..5000 {
        assert_eq!(resolver.known_user(&by_name(&format!("nobody{number}"))), None);
    }
    drop(scope);
    let scope = share::RequesterScope::enter("192.0.2.2".parse().unwrap());
    assert_eq!(resolver.known_user(&by_name("bob")), None);
    drop(scope);
    let mut looked_up = 0;
    while resolver.refresh(Duration::ZERO) {
        looked_up += 1;
    }
    assert_eq!(looked_up, 4096 / 8 + 1);
    assert!(resolver.known_user(&by_name("bob")).is_some());
    // Its share is free again.
    let _scope = share::RequesterScope::enter("192.0.2.1".parse().unwrap());
    assert_eq!(resolver.known_user(&by_name("nobody4999")), None);
    assert!(resolver.refresh(Duration::ZERO));
}

#[test]
fn the_hosts_groups_of_a_user_stay_while_the_host_is_silent() {
    let on_host = SourceUser {
        account: "bob".to_owned(),
        realm: Some(REALM.into()),
        uid: Some(11_104),
        gid: Some(100),
        gids: vec![50],
        ..SourceUser::default()
    };
    let directory = MemorySource::new(vec![user("bob", 1104, &[])], vec![]);
    let host = MemorySource::new(vec![on_host], vec![]);
    let stage = Stage::new(Settings::new(domains(), rid_mapping()), directory, host);
    let gids = || stage.resolver.user(&by_name("bob")).unwrap().unwrap().gids();
    assert_eq!(gids(), [50, 100]);
    stage.host.set_silent(true);
    stage.clock.advance(11 * MINUTE);
    assert_eq!(gids(), [50, 100]);
    stage.host.set_silent(false);
    stage.host.users.lock().unwrap()[0].gids.clear();
    stage.clock.advance(11 * MINUTE);
    assert_eq!(gids(), [100]);
}
