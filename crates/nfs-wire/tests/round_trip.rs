//! Everything that one side writes is read by the other as the same. Nothing shorter is accepted.

mod support;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use nfs_wire::compound::{CallWriter, CompoundArgs, Reply, ReplyWriter, Target};
use nfs_wire::op::{Args, OpNum, Operation, Res};
use nfs_wire::rpc::record::{MARK, RecordMark};
use nfs_wire::rpc::{self, Accepted, AuthSys, Credential, Message};
use nfs_wire::xdr::{Decode, Encode};
use nfs_wire::{NfsStat, callback, op};
use support::*;
use wire::{Cursor, FileRange, Frame};

/// `value` is read back from its bytes, and from nothing shorter.
fn comes_back<'a, T: Encode + Decode<'a> + PartialEq + Debug>(value: &T) {
    let bytes: &'static [u8] = Box::leak(support::bytes(value).into_boxed_slice());
    assert_eq!(bytes.len() % 4, 0, "{value:?}");
    let mut r = Cursor::new(bytes);
    assert_eq!(T::decode(&mut r).as_ref(), Ok(value));
    assert_eq!(r.remaining(), 0, "{value:?}");
    for len in 0..bytes.len() {
        assert!(T::decode(&mut Cursor::new(&bytes[..len])).is_err(), "{value:?} cut at {len}");
    }
}

#[test]
fn every_argument_and_every_result_comes_back() {
    arguments().iter().for_each(comes_back);
    results().iter().for_each(comes_back);
    callback_arguments().iter().for_each(comes_back);
    callback_results().iter().for_each(comes_back);
}

#[test]
fn no_operation_is_missing_among_the_samples() {
    let seen: BTreeSet<u32> = arguments().iter().map(|operation| operation.number().get()).collect();
    assert_eq!(seen, (3..=75).collect());
    let seen: BTreeSet<u32> = callback_arguments().iter().map(|operation| operation.number().get()).collect();
    assert_eq!(seen, (3..=15).collect());
    // Operations without a result of their own are all read in the same way.
    let seen: BTreeSet<u32> = results().iter().map(|result| word(&bytes(result), 0)).collect();
    let with_result = |number: &u32| {
        let fails = [*number, NfsStat::Ok.get()].map(u32::to_be_bytes).concat();
        Res::decode(&mut Cursor::new(&fails)).is_err()
    };
    let missing: Vec<_> = (3..=75).filter(with_result).filter(|number| !seen.contains(number)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[test]
fn an_operation_is_known_from_its_minor_version_on() {
    for (number, first) in [(3, 0), (39, 0), (40, 1), (58, 1), (59, 2), (75, 2), (2, 9), (76, 9), (10044, 9)]
    {
        for minor in 0..=2 {
            assert_eq!(
                <Args<'_> as Operation<'_>>::is_known(number, minor),
                minor >= first,
                "{number} in {minor}"
            );
        }
    }
    for (number, first) in [(4, 0), (5, 1), (14, 1), (15, 2), (2, 9), (16, 9)] {
        for minor in 0..=2 {
            let known = <callback::Args<'_> as Operation<'_>>::is_known(number, minor);
            assert_eq!(known, minor >= first, "{number} in {minor}");
        }
    }
}

#[test]
fn a_call_goes_through_record_mark_rpc_and_compound() {
    let groups = [4, 24, 27];
    let credential = Credential::Sys(AuthSys::new(b"host", 1000, 100, &groups));
    let mut writer = CallWriter::begin(Frame::default(), Target::Server, 0xabcd, &credential, b"tag", 2);
    let wanted = arguments();
    wanted.iter().for_each(|operation| {
        writer.push(operation);
    });
    let frame = writer.finish();
    let (mark, message) = frame.bytes().split_at(MARK);
    let mark = RecordMark::parse(mark.try_into().expect("a mark"));
    assert_eq!(mark, RecordMark { last: true, len: message.len() });
    let Ok(Message::Call(Ok(call))) = Message::parse(message) else { panic!("a call") };
    assert_eq!((call.xid, call.program, call.version, call.procedure), (0xabcd, 100_003, 4, 1));
    let sys = AuthSys::parse(call.credential.body).expect("a credential");
    assert_eq!((sys.uid, sys.gid, sys.groups()), (1000, 100, &groups[..]));
    let compound = CompoundArgs::parse(call.body).expect("a COMPOUND");
    assert_eq!((compound.tag, compound.minorversion), (&b"tag"[..], 2));
    let mut operations = compound.operations();
    for (at, operation) in wanted.iter().enumerate() {
        // A reader that stopped here can continue with the same operations.
        let rest = &compound.argarray[operations.position()..];
        let mut again = op_rest(rest, operations.left());
        assert_eq!(again.next(), Some(Ok(*operation)), "{at}");
        assert_eq!(operations.next(), Some(Ok(*operation)), "{at}");
    }
    assert_eq!(operations.next(), None);
}

fn op_rest(argarray: &[u8], left: u32) -> nfs_wire::compound::Operations<'_, Args<'_>> {
    nfs_wire::compound::Operations::new(argarray, 2, left)
}

#[test]
fn a_callback_goes_the_other_way() {
    let target = Target::Client { program: 0x4000_0001, callback_ident: 0 };
    let mut writer = CallWriter::begin(Frame::default(), target, 5, &Credential::None, b"", 2);
    callback_arguments().iter().for_each(|operation| {
        writer.push(operation);
    });
    let frame = writer.finish();
    let Ok(Message::Call(Ok(call))) = Message::parse(&frame.bytes()[MARK..]) else { panic!("a call") };
    assert_eq!((call.program, call.version, call.procedure), (0x4000_0001, 1, 1));
    let compound = callback::Call::parse(call.body).expect("a CB_COMPOUND");
    let found: Result<Vec<_>, _> = compound.operations().collect();
    assert_eq!(found, Ok(callback_arguments()));

    let mut reply = ReplyWriter::begin(Frame::default(), 5, b"");
    reply.put(callback::OpNum::Recall, &Err::<(), _>(NfsStat::BadStateId));
    let frame = reply.finish(NfsStat::BadStateId);
    let results: Vec<_> = parsed(&frame).callback_results().collect();
    assert_eq!(results, [Ok(callback::Res::Recall(Err(NfsStat::BadStateId)))]);
}

fn parsed(frame: &Frame) -> Reply<'_> {
    let message = &frame.bytes()[MARK..];
    let mark = RecordMark::parse(*frame.bytes().first_chunk().expect("a mark"));
    assert_eq!((mark.last, mark.len), (true, frame.len() - MARK));
    let Ok(Message::Reply(rpc::RpcReply { outcome: Ok(Accepted::Success(body)), .. })) =
        Message::parse(message)
    else {
        panic!("an accepted reply")
    };
    Reply::parse(body).expect("COMPOUND4res")
}

#[test]
fn a_reply_is_cut_back_to_a_mark_and_counts_its_results() {
    let mut reply = ReplyWriter::begin(Frame::default(), 9, b"abcde");
    assert!(reply.is_empty());
    reply.put(OpNum::PutRootFh, &Ok::<(), NfsStat>(()));
    let before = reply.len();
    let mark = reply.mark();
    let read_place = reply.begin_read();
    reply.tail().extend_from_slice(&[1; 4099]);
    reply.finish_read(read_place, false);
    // Number, status, eof, length, data, padding.
    assert_eq!(reply.len(), before + 16 + 4100);
    reply.truncate(mark);
    assert_eq!((reply.len(), reply.count()), (before, 1));
    reply.put_status(OpNum::Read, NfsStat::RepTooBig);
    reply.put_status(OpNum::SetAttr, NfsStat::Inval);
    reply.put_illegal();
    let frame = reply.finish(NfsStat::RepTooBig);
    let read = parsed(&frame);
    assert_eq!((read.status, read.tag), (NfsStat::RepTooBig, &b"abcde"[..]));
    let results: Vec<_> = read.results().map(|result| result.expect("a result")).collect();
    let nothing_set = op::setattr::Res { status: NfsStat::Inval, attrsset: nfs_wire::attr::Bitmap::EMPTY };
    assert_eq!(
        results,
        [
            Res::PutRootFh(Ok(())),
            Res::Read(Err(NfsStat::RepTooBig)),
            Res::SetAttr(nothing_set),
            Res::Illegal(NfsStat::OpIllegal)
        ]
    );
}

#[test]
fn data_read_in_place_is_padded() {
    for len in 0..9 {
        let mut reply = ReplyWriter::begin(Frame::default(), 9, b"");
        let read_place = reply.begin_read();
        reply.tail().extend_from_slice(&b"datadatad"[..len]);
        reply.finish_read(read_place, len > 4);
        reply.put(OpNum::GetFh, &Err::<op::filehandle::GetResOk<'_>, _>(NfsStat::NoFileHandle));
        let frame = reply.finish(NfsStat::NoFileHandle);
        let read = op::read::ResOk { eof: len > 4, data: &b"datadatad"[..len] };
        let results: Vec<_> = parsed(&frame).results().collect();
        assert_eq!(results, [Ok(Res::Read(Ok(read))), Ok(Res::GetFh(Err(NfsStat::NoFileHandle)))]);
    }
}

/// A file of which only the length matters here.
struct Nothing(std::fs::File);

impl wire::Source for Nothing {
    fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }

    fn is_cached(&self, _: u64, _: usize) -> bool {
        true
    }
}

#[test]
fn a_piece_of_a_file_stands_for_the_data_where_its_padding_can_only_be_zeros() {
    let file = Arc::new(Nothing(std::fs::File::open("/dev/null").expect("/dev/null")));
    for (len, eof, taken) in [(4096, false, true), (4097, false, false), (4097, true, true), (0, true, true)]
    {
        let mut reply = ReplyWriter::begin(Frame::default(), 9, b"");
        let before = reply.len();
        let range = FileRange { file: file.clone(), at: 512, len };
        assert_eq!(reply.attach_read(range, eof).is_ok(), taken, "{len} {eof}");
        if !taken {
            assert_eq!((reply.len(), reply.count()), (before, 0));
            continue;
        }
        let frame = reply.finish(NfsStat::Ok);
        let attached = frame.attached().map_or(0, |range| range.len);
        assert_eq!(attached, len.next_multiple_of(4));
        let mut whole = frame.bytes().to_vec();
        let mark = RecordMark::parse(*whole.first_chunk().expect("a mark"));
        whole.resize(whole.len() + attached, 0);
        assert_eq!(mark.len, whole.len() - MARK);
        let Ok(Message::Reply(rpc::RpcReply { outcome: Ok(Accepted::Success(body)), .. })) =
            Message::parse(&whole[MARK..])
        else {
            panic!("an accepted reply")
        };
        let read = Reply::parse(body).expect("COMPOUND4res").results().next();
        assert_eq!(read, Some(Ok(Res::Read(Ok(op::read::ResOk { eof, data: &vec![0; len] })))));
    }
}
