//! The memory of many users and groups.

mod support;

use std::sync::atomic::Ordering::Relaxed;

use identity::mapping::{IdMapping, RidRange};
use identity::{AccountKey, Settings, SourceUser};
use support::{MemorySource, Stage, domain_sid, domains, group, sid, ticket, user};
use testkit::allocations::{LIVE_BYTES, LiveByteCounter};
use volume::security::Sid;

#[global_allocator]
static ALLOCATOR: LiveByteCounter = LiveByteCounter;

const GROUPS: u32 = 2000;
const GROUPS_OF_A_USER: u32 = 200;
const MOST_BYTES: u64 = 64 << 20;

/// Logs on this many users of 200 groups each and looks up this many groups. Returns the bytes that stay.
fn bytes_of(users: u32, groups: u32) -> u64 {
    let range = "10000-199999".parse().unwrap();
    let mapping = IdMapping::rid(vec![RidRange { domain: domain_sid(), range, base_rid: 0 }]).unwrap();
    let all = (0..groups).map(|at| group(&format!("the group number {at}"), 2000 + at, &[])).collect();
    let directory = MemorySource::new(vec![], all);
    let stage = Stage::new(Settings::new(domains(), mapping), directory, MemorySource::new(vec![], vec![]));
    let before = LIVE_BYTES.load(Relaxed);
    for at in 0..users {
        let rids: Vec<u32> =
            (0..GROUPS_OF_A_USER).map(|group| 2000 + (at * 7 + group * 3) % GROUPS).collect();
        let groups: Vec<Sid> = rids.iter().map(|rid| sid(*rid)).collect();
        let user = user(&format!("user.number.{at}"), 10_000 + at, &rids);
        let user = SourceUser { nested_included: true, ..user };
        stage.directory.users.lock().unwrap().clear();
        stage.directory.users.lock().unwrap().push(user.clone());
        stage.resolver.log_on(&ticket(&user, &groups)).unwrap();
        let remembered = stage.resolver.known_user(&AccountKey::Id(20_000 + at)).unwrap();
        assert_eq!(remembered.groups.len() as u32, GROUPS_OF_A_USER + 1);
    }
    for at in 0..groups {
        assert!(stage.resolver.group(&AccountKey::Sid(sid(2000 + at))).unwrap().is_some());
    }
    assert_eq!(stage.resolver.remembered(), (users as usize, groups as usize));
    LIVE_BYTES.load(Relaxed) - before
}

#[test]
fn ten_thousand_users_cost_little_more_than_ten() {
    let few = bytes_of(10, 10);
    let many = bytes_of(10_000, GROUPS);
    println!("10 users: {few} bytes; 10,000 users and {GROUPS} groups: {many} bytes");
    assert!(many - few <= MOST_BYTES, "{} bytes more than with ten users", many - few);
}
