//! PACs of MS-PAC's example, of a Samba domain controller, and built ones.

use super::*;

/// MS-PAC 3, without the ASN.1 around it.
const EXAMPLE: &[u8] = include_bytes!("../../../../fuzz/corpus/pac/ms-pac_3");

/// As Samba's own library writes them, with 3 and with 40 groups.
const SAMBA: [(usize, &[u8]); 2] = [
    (3, include_bytes!("../../../../fuzz/corpus/pac/samba_0")),
    (40, include_bytes!("../../../../fuzz/corpus/pac/samba_1")),
];

fn sid(text: &str) -> Sid {
    text.parse().unwrap()
}

#[test]
fn the_example_of_the_specification_is_read() {
    let pac = Pac::parse(EXAMPLE).unwrap();
    let domain = sid("S-1-5-21-397955417-626881126-188441444");
    assert_eq!((pac.domain, pac.domain_name.as_str()), (domain, "NTDEV"));
    assert_eq!((pac.name.as_str(), pac.client_name.as_str()), ("lzhu", "lzhu"));
    assert_eq!(pac.full_name, "Liqiang(Larry) Zhu");
    assert_eq!((pac.user, pac.primary_group), (domain.child(2_914_711).unwrap(), domain.child(513).unwrap()));
    assert_eq!(pac.groups.len(), 26 + 13);
    let first = pac.groups[0];
    assert_eq!((first.sid, first.attributes.0), (domain.child(0x0033_c461).unwrap(), 7));
    let extra = pac.groups[26];
    let foreign = sid("S-1-5-21-773533881-1816936887-355810188-513");
    assert_eq!((extra.sid, extra.source), (foreign, GroupSource::Extra));
    assert!(pac.groups[27].attributes.is_resource() && !extra.attributes.is_resource());
    assert_eq!(pac.groups[38].sid, domain.child(0x002e_5f07).unwrap());
    assert_eq!((pac.authenticated, pac.user_account_control), (0x01c6_6a65_0ed9_4900, 0x10));
    assert_eq!((pac.kick_off, pac.requester, pac.upn.clone(), pac.attributes), (None, None, None, None));
    assert_eq!(pac.check_logon(1_700_000_000_000_000_000), Ok(()));
    assert_eq!(pac.enabled_groups().len(), 26 + 13, "the primary group is one of them");
}

#[test]
fn what_samba_writes_is_read() {
    let domain = sid("S-1-5-21-10-20-30");
    for (count, bytes) in SAMBA {
        let pac = Pac::parse(bytes).unwrap();
        let user = domain.child(1104).unwrap();
        assert_eq!((pac.user, pac.requester, pac.domain), (user, Some(user), domain));
        assert_eq!((pac.name.as_str(), pac.client_name.as_str()), ("gröup bob", "gröup bob"));
        assert_eq!(pac.upn.as_deref(), Some("bob@corp.example"));
        assert_eq!((pac.groups.len(), pac.attributes), (count + 3, Some(1)));
        let local = LocalDomains { own: domain, machine: sid("S-1-5-21-7-7-7") };
        let kept = pac.filtered(&local).unwrap().enabled_groups();
        assert_eq!(kept.len(), 1 + count + 2, "all but S-1-18-1");
    }
}

#[test]
fn no_cut_and_no_flip_of_the_example_panics() {
    for length in 0..EXAMPLE.len() {
        let cut = Pac::parse(&EXAMPLE[..length]);
        assert!(cut.is_err() || length > EXAMPLE.len() - 20, "{length}");
    }
    let mut bytes = EXAMPLE.to_vec();
    for at in 0..bytes.len() * 8 {
        bytes[at / 8] ^= 1 << (at % 8);
        let _ = Pac::parse(&bytes);
        bytes[at / 8] ^= 1 << (at % 8);
    }
}

/// A PAC that is built field by field.
#[derive(Clone)]
struct Built {
    name: &'static str,
    user_id: u32,
    groups: Vec<(u32, u32)>,
    flags: u32,
    control: u32,
    kick_off: u64,
    extra: Vec<Sid>,
    resource: Option<(Sid, Vec<u32>)>,
    requester: Option<Sid>,
    extended: Option<(&'static str, Sid)>,
}

const DOMAIN: Sid = Sid::new(5, &[21, 1, 2, 3]);

fn built() -> Built {
    Built {
        name: "bob",
        user_id: 1104,
        groups: vec![(513, 7)],
        flags: 0x220,
        control: 0x10,
        kick_off: NEVER,
        extra: Vec::new(),
        resource: None,
        requester: None,
        extended: None,
    }
}

fn sid_bytes(sid: &Sid) -> Vec<u8> {
    let mut out = Vec::new();
    sid.encode(&mut wire::Writer::new(&mut out));
    out
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[derive(Default)]
struct Stub {
    fixed: Vec<u8>,
    deferred: Vec<u8>,
}

impl Stub {
    fn u32(&mut self, value: u32) {
        self.fixed.extend(value.to_le_bytes());
    }
    fn later(&mut self, values: &[u32]) {
        while !self.deferred.len().is_multiple_of(4) {
            self.deferred.push(0);
        }
        values.iter().for_each(|value| self.deferred.extend(value.to_le_bytes()));
    }
    fn string(&mut self, text: &str) {
        let units = text.encode_utf16().count() as u32;
        self.u32((units * 2) << 16 | (units * 2));
        self.u32(u32::from(units != 0));
        if units != 0 {
            self.later(&[units, 0, units]);
            self.deferred.extend(utf16(text));
        }
    }
    fn later_sid(&mut self, sid: &Sid) {
        self.later(&[sid.subs().len() as u32]);
        self.deferred.extend(sid_bytes(sid));
    }
    fn memberships(&mut self, groups: &[(u32, u32)]) {
        self.u32(groups.len() as u32);
        self.u32(u32::from(!groups.is_empty()));
        if !groups.is_empty() {
            self.later(&[groups.len() as u32]);
            groups.iter().for_each(|&(rid, attributes)| self.later(&[rid, attributes]));
        }
    }
}

impl Built {
    fn validation_info(&self) -> Vec<u8> {
        let mut stub = Stub::default();
        for time in [0, NEVER, self.kick_off, 0, 0, NEVER] {
            stub.fixed.extend(time.to_le_bytes());
        }
        for text in [self.name, "", "", "", "", ""] {
            stub.string(text);
        }
        [0, self.user_id, 513].into_iter().for_each(|value| stub.u32(value));
        stub.memberships(&self.groups);
        stub.u32(self.flags);
        stub.fixed.extend([0; 16]);
        stub.string("DC1");
        stub.string("CORP");
        stub.u32(1);
        stub.later_sid(&DOMAIN);
        [0, 0, self.control, 0, 0, 0, 0, 0, 0, 0].into_iter().for_each(|value| stub.u32(value));
        stub.u32(self.extra.len() as u32);
        stub.u32(u32::from(!self.extra.is_empty()));
        if !self.extra.is_empty() {
            stub.later(&[self.extra.len() as u32]);
            self.extra.iter().for_each(|_| stub.later(&[1, 7]));
            self.extra.iter().for_each(|sid| stub.later_sid(sid));
        }
        stub.u32(u32::from(self.resource.is_some()));
        if let Some((domain, _)) = &self.resource {
            stub.later_sid(domain);
        }
        let rids = self.resource.as_ref().map(|(_, rids)| rids.clone()).unwrap_or_default();
        stub.memberships(&rids.into_iter().map(|rid| (rid, 0x2000_0007)).collect::<Vec<_>>());
        let length = 4 + stub.fixed.len() + stub.deferred.len();
        let mut out = vec![1, 0x10, 8, 0, 0xcc, 0xcc, 0xcc, 0xcc];
        for value in [length as u32, 0, 0x0002_0000] {
            out.extend(value.to_le_bytes());
        }
        [out, stub.fixed, stub.deferred].concat()
    }

    fn upn_dns_info(&self) -> Vec<u8> {
        let (sam, user) = self.extended.unwrap_or((self.name, DOMAIN));
        let parts = [utf16("bob@corp.example"), utf16("CORP.EXAMPLE"), utf16(sam), sid_bytes(&user)];
        let (mut head, mut body) = (Vec::new(), Vec::new());
        for (at, part) in parts.iter().enumerate() {
            if at == 2 {
                head.extend((2 * u32::from(self.extended.is_some())).to_le_bytes());
            }
            head.extend((part.len() as u16).to_le_bytes());
            head.extend((20 + body.len() as u16).to_le_bytes());
            body.extend(part);
        }
        [head, body].concat()
    }

    fn bytes(&self) -> Vec<u8> {
        let client = [vec![0; 8], vec![6, 0], utf16("bob")].concat();
        let mut buffers = vec![
            (1u32, self.validation_info()),
            (10, client),
            (12, self.upn_dns_info()),
            (17, vec![2, 0, 0, 0, 0xff, 0, 0, 0]),
        ];
        buffers.extend(self.requester.map(|sid| (18, sid_bytes(&sid))));
        let mut head = (buffers.len() as u64).to_le_bytes().to_vec();
        let start = head.len() + 16 * buffers.len();
        let mut body = Vec::new();
        for (kind, bytes) in buffers {
            head.extend(kind.to_le_bytes());
            head.extend((bytes.len() as u32).to_le_bytes());
            head.extend(((start + body.len()) as u64).to_le_bytes());
            body.extend(bytes);
            body.resize(body.len().next_multiple_of(8), 0);
        }
        [head, body].concat()
    }

    fn parse(&self) -> Result<Pac, PacError> {
        Pac::parse(&self.bytes())
    }
}

#[test]
fn every_part_of_a_pac_gives_its_groups() {
    let other = sid("S-1-5-21-4-5-6-1200");
    let pac = Built {
        groups: vec![(513, 7), (1105, 3), (1106, 0x17)],
        extra: vec![other],
        resource: Some((sid("S-1-5-21-1-2-3"), vec![1300])),
        ..built()
    };
    let read = pac.parse().unwrap();
    assert_eq!(read.user, DOMAIN.child(1104).unwrap());
    assert_eq!(
        (read.upn.as_deref(), read.dns_domain.as_deref()),
        (Some("bob@corp.example"), Some("CORP.EXAMPLE"))
    );
    assert_eq!(read.attributes, Some(3), "only two of the flags are defined");
    let of = |rid| DOMAIN.child(rid).unwrap();
    assert_eq!(read.enabled_groups(), [of(513), other, of(1300)], "1105 is off, 1106 only denies");
    // Lists without their flags do not count.
    assert_eq!(Built { flags: 0, ..pac.clone() }.parse().unwrap().enabled_groups(), [of(513)]);
    // A user without a RID is the first of the extra SIDs.
    let foreign = Built { user_id: 0, ..pac.clone() }.parse().unwrap();
    assert_eq!((foreign.user, foreign.enabled_groups()), (other, vec![of(513), of(1300)]));
    assert!(Built { user_id: 0, extra: Vec::new(), ..pac }.parse().is_err());
}

#[test]
fn many_groups_are_read_up_to_the_limit() {
    let with = |count: u32| Built { groups: (0..count).map(|rid| (2000 + rid, 7)).collect(), ..built() };
    for count in [1200, MAX_GROUPS as u32] {
        assert_eq!(with(count).parse().unwrap().enabled_groups().len(), 1 + count as usize);
    }
    assert!(with(MAX_GROUPS as u32 + 1).parse().is_err());
    let extra = vec![sid("S-1-5-21-4-5-6-1200")];
    assert!(matches!(Built { extra, ..with(MAX_GROUPS as u32) }.parse(), Err(PacError::TooLarge { .. })));
}

#[test]
fn a_pac_whose_parts_name_different_users_is_refused() {
    let (bob, eve) = (DOMAIN.child(1104).unwrap(), DOMAIN.child(1105).unwrap());
    let fine = Built { requester: Some(bob), extended: Some(("BOB", bob)), ..built() };
    assert_eq!(fine.parse().unwrap().requester, Some(bob));
    for (pac, wrong) in [
        (Built { requester: Some(eve), ..fine.clone() }, "PAC_REQUESTOR_SID"),
        (Built { extended: Some(("bob", eve)), ..fine.clone() }, "UPN_DNS_INFO"),
        (Built { extended: Some(("eve", bob)), ..fine }, "UPN_DNS_INFO"),
    ] {
        let refusal = pac.parse().unwrap_err();
        assert!(
            matches!(refusal, PacError::AnotherUser { structure, .. } if structure == wrong),
            "{refusal}"
        );
    }
}

#[test]
fn an_account_that_may_not_log_on_is_known_by_its_flags_and_hours() {
    let now = 1_700_000_000_000_000_000;
    let at = |ns: i64| (ns / 100) as u64 + UNIX_EPOCH;
    let check = |control, kick_off| Built { control, kick_off, ..built() }.parse().unwrap().check_logon(now);
    assert_eq!(check(0x10, at(now) + 1), Ok(()));
    assert_eq!(check(0x10, at(now)), Err(NoLogon::Hours));
    assert_eq!(check(0x10, 0), Ok(()), "no time is set");
    assert_eq!(check(0x11, NEVER), Err(NoLogon::Disabled));
    assert_eq!(check(0x410, NEVER), Err(NoLogon::Locked));
    assert_eq!(check(0x40, NEVER), Err(NoLogon::Trust));
}

#[test]
fn filtering_drops_groups_and_refuses_a_user_of_this_machine() {
    let local = LocalDomains { own: sid("S-1-5-21-8-8-8"), machine: sid("S-1-5-21-7-7-7") };
    let own_group = sid("S-1-5-21-8-8-8-1500");
    let pac = Built {
        extra: vec![own_group, sid("S-1-5-32-544")],
        resource: Some((local.own, vec![1600, 512])),
        ..built()
    };
    let kept = pac.parse().unwrap().filtered(&local).unwrap().enabled_groups();
    assert_eq!(kept, [DOMAIN.child(513).unwrap(), sid("S-1-5-21-8-8-8-1600")]);
    let machine = LocalDomains { machine: DOMAIN, ..local };
    assert!(matches!(pac.parse().unwrap().filtered(&machine), Err(PacError::FilteredUser(_))));
    // A trusted domain that names a user of the own domain.
    let extra = vec![sid("S-1-5-21-8-8-8-500")];
    let forged = Built { user_id: 0, extra, ..built() }.parse().unwrap();
    assert_eq!(forged.filtered(&local), Err(PacError::FilteredUser(sid("S-1-5-21-8-8-8-500"))));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400),
        at in 0usize..1344,
    ) {
        let _ = Pac::parse(&bytes);
        let mut spliced = EXAMPLE.to_vec();
        for (to, from) in spliced.iter_mut().skip(at).zip(&bytes) {
            *to = *from;
        }
        let _ = Pac::parse(&spliced);
    }
}
