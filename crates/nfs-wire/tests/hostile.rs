//! No input makes a reader panic or loop for long. A value that is read from a message is read the same from
//! its own encoding.

mod support;

use nfs_wire::callback;
use nfs_wire::compound::{CallWriter, CompoundArgs, Operations, Target};
use nfs_wire::limits::{MAX_LIST, MAX_TAG};
use nfs_wire::op::{Args, Res};
use nfs_wire::rpc::{Credential, record::MARK};
use nfs_wire::xdr::{Decode, Encode};
use nfs_wire::{NfsStat, attr::AttrNum};
use proptest::prelude::*;
use support::*;
use wire::{Cursor, Frame};

/// Words as in messages: mostly small numbers, and rarely any other.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        6 => 0u32..6,
        2 => 0u32..90,
        1 => any::<u32>(),
    ];
    prop::collection::vec(word, 0..80)
        .prop_map(|words| words.into_iter().flat_map(u32::to_be_bytes).collect())
}

/// All samples, as bytes.
fn samples() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = arguments().iter().map(bytes).collect();
    all.extend(results().iter().map(bytes));
    all.extend(callback_arguments().iter().map(bytes));
    all.extend(callback_results().iter().map(bytes));
    all
}

/// A value that was read from `data` is written and read as the same. The bytes may differ, since padding and
/// trailing words of bitmaps are ignored.
fn stays_the_same<'a, T: Encode + Decode<'a> + PartialEq + std::fmt::Debug>(value: &T) {
    let again: &'static [u8] = Box::leak(bytes(value).into_boxed_slice());
    assert_eq!(T::decode(&mut Cursor::new(again)).as_ref(), Ok(value));
}

fn reread(data: &[u8]) {
    if let Ok(operation) = Args::decode(&mut Cursor::new(data))
        && !matches!(operation, Args::Illegal(_))
        && !format!("{operation:?}").contains('+')
    {
        stays_the_same(&operation);
    }
    if let Ok(result) = Res::decode(&mut Cursor::new(data))
        && !format!("{result:?}").contains('+')
    {
        stays_the_same(&result);
    }
}

proptest! {
    #[test]
    fn any_words_are_read_without_harm(data in words(), number in 3u32..76) {
        read_everything(&data);
        let operation = [&number.to_be_bytes()[..], &data].concat();
        read_everything(&operation);
        reread(&operation);
        let result = [&number.to_be_bytes()[..], &[0; 4], &data].concat();
        read_everything(&result);
        reread(&result);
    }

    #[test]
    fn any_bytes_are_read_without_harm(data in prop::collection::vec(any::<u8>(), 0..400)) {
        read_everything(&data);
    }

    #[test]
    fn changed_messages_are_read_without_harm(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let samples = samples();
        let mut data = which.get(&samples).clone();
        for (at, byte) in changes {
            let at = at.index(data.len());
            data[at] = byte;
        }
        read_everything(&data);
        reread(&data);
        read_everything(&data[..cut.index(data.len() + 1)]);
    }
}

#[test]
fn samples_cut_at_every_byte_are_read_without_harm() {
    for sample in samples() {
        (0..=sample.len()).for_each(|len| read_everything(&sample[..len]));
    }
}

#[test]
fn a_bad_operation_ends_the_sequence_and_keeps_its_number() {
    // PUTROOTFH, then RECLAIM_COMPLETE with a bool of 2, then PUTROOTFH.
    let words = [24u32, 58, 2, 24].map(u32::to_be_bytes).concat();
    let mut operations = Operations::<Args<'_>>::new(&words, 1, 3);
    assert_eq!(operations.next(), Some(Ok(Args::PutRootFh)));
    assert_eq!(operations.next().expect("an operation").expect_err("a bool of 2").number, 58);
    assert_eq!(operations.next(), None);
    // An operation that 4.1 does not have ends it too, and so do missing bytes.
    let words = [59u32, 24].map(u32::to_be_bytes).concat();
    let found: Vec<_> = Operations::<Args<'_>>::new(&words, 1, 2).collect();
    assert_eq!(found, [Ok(Args::Illegal(59))]);
    let found: Vec<_> = Operations::<Args<'_>>::new(&words[4..], 1, u32::MAX).collect();
    assert!(matches!(&found[..], [Ok(Args::PutRootFh), Err(bad)] if bad.number == 0), "{found:?}");
}

#[test]
fn bounds_hold_exactly() {
    let call = |tag: usize| {
        let tag = vec![b't'; tag];
        let frame =
            CallWriter::begin(Frame::default(), Target::Server, 1, &Credential::None, &tag, 1).finish();
        let header = MARK + 40;
        let compound = CompoundArgs::parse(&frame.bytes()[header..]).is_ok();
        let target = Target::Client { program: 1, callback_ident: 0 };
        let frame = CallWriter::begin(Frame::default(), target, 1, &Credential::None, &tag, 1).finish();
        let callback = callback::Call::parse(&frame.bytes()[header..]).is_ok();
        assert_eq!(compound, callback);
        compound
    };
    assert!(call(MAX_TAG) && !call(MAX_TAG + 1));
    let handle = |len: usize| {
        let mut words = 22u32.to_be_bytes().to_vec();
        (&vec![1u8; len][..]).encode(&mut words);
        Args::decode(&mut Cursor::new(&words)).is_ok()
    };
    assert!(handle(128) && !handle(129));
    let stateids = |count: usize| {
        let mut words = [55u32, count as u32].map(u32::to_be_bytes).concat();
        words.resize(8 + count * 16, 0);
        Args::decode(&mut Cursor::new(&words)).is_ok()
    };
    assert!(stateids(MAX_LIST) && !stateids(MAX_LIST + 1));
}

// The numbers of RFC 8881 15.1, 5.8 and RFC 8276 8, taken from three parts of each table.
#[test]
fn names_have_the_numbers_of_the_rfcs() {
    let codes = [
        (NfsStat::Stale, 70),
        (NfsStat::BadXdr, 10036),
        (NfsStat::SeqFalseRetry, 10076),
        (NfsStat::ClientIdBusy, 10074),
        (NfsStat::OffloadNoReqs, 10094),
        (NfsStat::Xattr2Big, 10096),
    ];
    for (status, number) in codes {
        assert_eq!((status.get(), NfsStat::new(number)), (number, status));
    }
    let numbers =
        [(AttrNum::MountedOnFileid, 55), (AttrNum::SuppattrExclcreat, 75), (AttrNum::XattrSupport, 82)];
    for (attribute, number) in numbers {
        assert_eq!(attribute.get(), number);
    }
}
