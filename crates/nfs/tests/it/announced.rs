//! The server does everything that it announces to NFS clients: each supported attribute can be read or set,
//! each attribute for an exclusive create is set by it, and EXCHANGE_ID claims nothing else.

use nfs_wire::NfsStat;
use nfs_wire::attr::{Attr, AttrNum, Bitmap, Fattr, ModeUmask};
use nfs_wire::op::exchange_id::ExchangeFlags;
use nfs_wire::op::{Args, Res, getattr, open, setattr};
use nfs_wire::types::{SetTime, StateId};
use nfs_wire::xdr::Encode;
use testkit::nfs::*;

/// The attributes that can only be set (RFC 8881 5.8.2, RFC 8275 4.2, RFC 9754 5; `kept_times.rs` has the
/// last two).
const WRITE_ONLY: [AttrNum; 5] = [
    AttrNum::TimeAccessSet,
    AttrNum::TimeModifySet,
    AttrNum::ModeUmask,
    AttrNum::TimeDelegAccess,
    AttrNum::TimeDelegModify,
];

/// GETATTR of one attribute of the file. `look` gets it with the mask of the reply.
fn attribute<T>(
    client: &mut Client,
    wire: &mut Wire,
    handle: &[u8],
    number: u32,
    look: impl FnOnce(Bitmap, &[Attr<'_>]) -> T,
) -> T {
    let ask = Args::GetAttr(getattr::Args { attr_request: Bitmap::of(&[number]) });
    let done = client.on(wire, handle, &[ask]).ok();
    let Res::GetAttr(Ok(got)) = done.last() else { panic!("{done:?}") };
    let all: Vec<_> = got.obj_attributes.iter().map(|one| one.expect("an attribute")).collect();
    look(got.obj_attributes.mask, &all)
}

/// The numbers in a set of attributes.
fn set_of(client: &mut Client, wire: &mut Wire, handle: &[u8], number: AttrNum) -> Vec<u32> {
    let set = attribute(client, wire, handle, number.get(), |_, told| match told {
        [Attr::SupportedAttrs(set) | Attr::SuppattrExclcreat(set)] => *set,
        other => panic!("{other:?}"),
    });
    (0..96).filter(|number| set.has(*number)).collect()
}

// RFC 8881 5.6, 5.8.1.1
#[test]
fn each_supported_attribute_is_told_or_set_and_no_other() {
    for minor in [1, 2] {
        let world = NfsTestServer::new();
        let mut wire = world.connect();
        let mut client = Client::new(&mut wire, b"client", minor);
        let (handle, _) = client.create(&mut wire, b"file");
        let supported = set_of(&mut client, &mut wire, &handle, AttrNum::SupportedAttrs);
        for number in 0..96 {
            let is_supported = supported.contains(&number);
            if is_supported && WRITE_ONLY.iter().any(|only| only.get() == number) {
                continue;
            }
            attribute(&mut client, &mut wire, &handle, number, |mask, told| {
                assert_eq!(
                    (mask.has(number), told.len()),
                    (is_supported, usize::from(is_supported)),
                    "{number}"
                );
            });
        }
        let mut room = Vec::new();
        for attribute in [Attr::TimeAccessSet(SetTime::Server), Attr::TimeModifySet(SetTime::Server)] {
            let number = attribute.number().get();
            assert!(supported.contains(&number));
            let obj_attributes = Fattr::of(&[attribute], &mut room);
            let set = Args::SetAttr(setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes });
            assert_eq!(client.on(&mut wire, &handle, &[set]).status(), NfsStat::Ok, "{number}");
        }
        for number in [AttrNum::ModeUmask, AttrNum::TimeDelegAccess, AttrNum::TimeDelegModify] {
            assert_eq!(supported.contains(&number.get()), minor == 2, "{number:?}");
        }
    }
}

// RFC 8881 5.8.1.14, 18.16.3
#[test]
fn each_attribute_of_an_exclusive_create_is_set_by_it() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 2);
    let (handle, _) = client.create(&mut wire, b"pattern");
    let announced = set_of(&mut client, &mut wire, &handle, AttrNum::SuppattrExclcreat);
    assert!(announced.contains(&AttrNum::Mode.get()));
    for number in announced {
        let name = format!("made with {number}").into_bytes();
        let mut room = Vec::new();
        // The value of another file, except for attributes that cannot be read.
        let write_only = match number {
            n if n == AttrNum::TimeAccessSet.get() => Some(Attr::TimeAccessSet(SetTime::Server)),
            n if n == AttrNum::TimeModifySet.get() => Some(Attr::TimeModifySet(SetTime::Server)),
            n if n == AttrNum::ModeUmask.get() => {
                Some(Attr::ModeUmask(ModeUmask { mode: 0o640, umask: 0o022 }))
            }
            _ => None,
        };
        match write_only {
            Some(attribute) => attribute.encode(&mut room),
            None => attribute(&mut client, &mut wire, &handle, number, |_, told| {
                told.iter().for_each(|one| one.encode(&mut room))
            }),
        }
        let attrs = Fattr { mask: Bitmap::of(&[number]), values: &room };
        let exclusive = open::CreateHow::Exclusive41(open::CreateVerfAttr { verf: [number as u8; 8], attrs });
        let how = open::OpenHow::Create(exclusive);
        let done = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), opening(how, &name)]);
        let Res::Open(Ok(made)) = done.last() else { panic!("{number}: {done:?}") };
        assert!(made.attrset.has(number), "{number}");
    }
}

// RFC 8881 18.35.3
#[test]
fn exchange_id_claims_no_more_than_a_server_without_pnfs() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let told = |wire: &mut Wire| {
        let done = wire.call(2, &[introduce(b"client")]).ok();
        let Res::ExchangeId(Ok(known)) = done.last() else { panic!("{done:?}") };
        known.flags
    };
    assert_eq!(told(&mut wire), ExchangeFlags::USE_NON_PNFS);
    let _confirmed = Client::new(&mut wire, b"client", 2);
    assert_eq!(told(&mut wire), ExchangeFlags::USE_NON_PNFS | ExchangeFlags::CONFIRMED_R);
}
