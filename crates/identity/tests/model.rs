//! The model: the same person is the same SID, uid and principal, whichever way they come, in any order, with
//! sources that fail at any time; and nobody has a group that no source gives.

mod support;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use identity::mapping::{IdMapping, IdTable, RidRange};
use identity::{AccountKey, Domains, Settings, SourceGroup, SourceUser};
use proptest::prelude::*;
use support::{MemorySource, REALM, Stage, domain_sid, domains, group, sid, ticket, user};
use volume::security::Sid;

#[derive(Debug, Clone)]
enum ModelStep {
    BySid(usize),
    ById(usize),
    ByNtName(usize),
    ByPrincipal(usize),
    ByPlainName(usize),
    ByTicket(usize),
    Known(usize),
    Refresh,
    Advance(u64),
    DirectorySilent(bool),
    HostSilent(bool),
}

fn step() -> impl Strategy<Value = ModelStep> {
    let at = 0..6usize;
    prop_oneof![
        at.clone().prop_map(ModelStep::BySid),
        at.clone().prop_map(ModelStep::ById),
        at.clone().prop_map(ModelStep::ByNtName),
        at.clone().prop_map(ModelStep::ByPrincipal),
        at.clone().prop_map(ModelStep::ByPlainName),
        at.clone().prop_map(ModelStep::ByTicket),
        at.prop_map(ModelStep::Known),
        Just(ModelStep::Refresh),
        prop_oneof![Just(1), Just(31), Just(601), Just(30_000)].prop_map(ModelStep::Advance),
        any::<bool>().prop_map(ModelStep::DirectorySilent),
        any::<bool>().prop_map(ModelStep::HostSilent),
    ]
}

#[derive(Debug, Clone)]
struct World {
    /// For each user: `uidNumber`, the groups, and whether the host knows the user.
    users: Vec<(u32, Vec<u32>, bool)>,
    /// For each group: the groups that have it as a member. Circles are likely.
    groups: Vec<Vec<u32>>,
    mapping: usize,
    default_domain: bool,
    nested_included: bool,
}

fn world() -> impl Strategy<Value = World> {
    let groups = || proptest::collection::vec(2000..2005u32, 0..4);
    let user = (1000..1008u32, groups(), any::<bool>());
    let users = proptest::collection::vec(user, 6);
    let parts = (users, proptest::collection::vec(groups(), 5), 0..4usize, any::<bool>(), any::<bool>());
    parts.prop_map(|(users, groups, mapping, default_domain, nested_included)| World {
        users,
        groups,
        mapping,
        default_domain,
        nested_included,
    })
}

fn rid(at: usize) -> u32 {
    1100 + u32::try_from(at).unwrap()
}

impl World {
    fn mapping(&self) -> IdMapping {
        match self.mapping {
            0 => IdMapping::Attributes("900-1999".parse().unwrap()),
            1 => {
                let range = "10000-19999".parse().unwrap();
                IdMapping::rid(vec![RidRange { domain: domain_sid(), range, base_rid: 0 }]).unwrap()
            }
            2 => {
                let user = |at| format!("user {} {}\n", sid(rid(at)), 700 + at);
                let users: String = (0..4).map(user).collect();
                IdMapping::Table(IdTable::parse(&format!("group {} 600\n{users}", sid(513))).unwrap())
            }
            _ => IdMapping::Host,
        }
    }

    /// All groups of a user, groups of groups included.
    fn closure(&self, at: usize) -> HashSet<Sid> {
        let mut all: HashSet<u32> = HashSet::new();
        let mut next: Vec<u32> = self.users[at].1.clone();
        while let Some(rid) = next.pop() {
            if all.insert(rid) {
                next.extend(&self.groups[rid as usize - 2000]);
            }
        }
        all.into_iter().map(sid).chain([sid(513)]).collect()
    }

    fn directory_users(&self) -> Vec<SourceUser> {
        let one = |(at, (uid, groups, _)): (usize, &(u32, Vec<u32>, bool))| {
            let groups = if self.nested_included {
                self.closure(at).into_iter().collect()
            } else {
                groups.iter().map(|rid| sid(*rid)).collect()
            };
            let base = user(&format!("u{at}"), rid(at), &[]);
            SourceUser {
                uid: Some(*uid),
                gid: Some(999),
                groups,
                nested_included: self.nested_included,
                ..base
            }
        };
        self.users.iter().enumerate().map(one).collect()
    }

    /// The host knows some users of the domain under the ids of its own mapping, which is the same one.
    fn host_users(&self) -> Vec<SourceUser> {
        let mapping = self.mapping();
        let one = |(at, (uid, _, on_host)): (usize, &(u32, Vec<u32>, bool))| {
            let id = mapping.id(&sid(rid(at)), identity::mapping::IdKind::User, Some(*uid));
            let uid = if matches!(mapping, IdMapping::Host) { Some(*uid) } else { id };
            on_host.then_some(())?;
            let realm = Some(REALM.into());
            Some(SourceUser {
                account: format!("u{at}"),
                realm,
                uid: Some(uid?),
                gid: Some(50),
                ..SourceUser::default()
            })
        };
        self.users.iter().enumerate().filter_map(one).collect()
    }

    fn groups(&self) -> Vec<SourceGroup> {
        let one = |(at, parents): (usize, &Vec<u32>)| {
            let gid = u32::try_from(at).unwrap() + 950;
            SourceGroup { gid: Some(gid), ..group(&format!("g{at}"), gid + 1050, parents) }
        };
        let users = SourceGroup { gid: Some(900), ..group("Domain Users", 513, &[]) };
        self.groups.iter().enumerate().map(one).chain([users]).collect()
    }

    fn stage(&self) -> Stage {
        let domains = Domains { default_domain: self.default_domain, ..domains() };
        let directory = MemorySource::new(self.directory_users(), self.groups());
        let host = MemorySource::new(self.host_users(), vec![]);
        Stage::new(Settings::new(domains, self.mapping()), directory, host)
    }
}

fn carry_out(stage: &Stage, world: &World, step: &ModelStep) -> Option<(usize, Arc<identity::User>)> {
    let resolver = &stage.resolver;
    let name = |at: &usize| format!("u{at}");
    let (at, found) = match step {
        ModelStep::BySid(at) => (*at, resolver.user(&AccountKey::Sid(sid(rid(*at))))),
        ModelStep::ById(at) => {
            // The person of a uid is whoever the record names.
            let uid = world.users[*at].0;
            let found = resolver.user(&AccountKey::Id(uid)).ok().flatten()?;
            assert_eq!(found.uid, uid);
            let own = found.account.strip_prefix('u').and_then(|own| own.parse().ok())?;
            (own, Ok(Some(found)))
        }
        ModelStep::ByNtName(at) => (*at, resolver.user_named(&format!("corp\\U{at}"))),
        ModelStep::ByPrincipal(at) => (*at, resolver.user_named(&format!("U{at}@corp.example"))),
        ModelStep::ByPlainName(at) => (*at, resolver.user_named(&name(at))),
        ModelStep::ByTicket(at) => {
            let groups: Vec<Sid> = world.closure(*at).into_iter().collect();
            let logged_on = resolver.log_on(&ticket(&user(&name(at), rid(*at), &[]), &groups));
            (*at, logged_on.map(Some))
        }
        ModelStep::Known(at) => (*at, Ok(resolver.known_user(&AccountKey::Sid(sid(rid(*at)))))),
        ModelStep::Refresh => {
            resolver.refresh(Duration::ZERO);
            return None;
        }
        ModelStep::Advance(seconds) => {
            stage.clock.advance(Duration::from_secs(*seconds));
            return None;
        }
        ModelStep::DirectorySilent(silent) => {
            stage.directory.set_silent(*silent);
            return None;
        }
        ModelStep::HostSilent(silent) => {
            stage.host.set_silent(*silent);
            return None;
        }
    };
    Some((at, found.ok().flatten()?))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_person_is_the_same_whichever_way_they_come(
        world in world(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let stage = world.stage();
        let mut people: HashMap<usize, (Sid, u32, Option<Arc<str>>)> = HashMap::new();
        let mut owners: HashMap<u32, usize> = HashMap::new();
        for step in &steps {
            let Some((at, found)) = carry_out(&stage, &world, step) else { continue };
            prop_assert_eq!(found.sid, sid(rid(at)), "{:?}", step);
            let person = (found.sid, found.uid, found.principal.clone());
            let before = people.entry(at).or_insert_with(|| person.clone());
            prop_assert_eq!(&*before, &person, "{:?}", step);
            prop_assert_eq!(*owners.entry(found.uid).or_insert(at), at, "a uid of two people: {:?}", step);
            let truth = world.closure(at);
            for group in found.groups.iter().filter(|group| group.sid.as_unix_group().is_none()) {
                prop_assert!(truth.contains(&group.sid), "{:?} gave {}", step, group.sid);
            }
        }
    }
}
