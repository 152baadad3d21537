//! READ_PLUS (RFC 7862 15.10).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::op::read_plus::Args;
use nfs_wire::xdr::{Encode, pad};
use share::limits::MeteredWork;
use volume::Patience;

use super::io::{IoOpen, ToldReader, io_open};
use super::read::room_left;
use crate::compound::{OpResult, Run, Stop};
use crate::limits::MAX_IO;

const CONTENT_DATA: u32 = 0;
const CONTENT_HOLE: u32 = 1;
/// Bytes around the data of one piece: its header and its padding.
const AROUND: usize = 24;
/// Shorter holes are sent as zeros. A piece of its own would cost more.
const SMALL_HOLE: u64 = 4096;

/// Reads data and holes.
///
/// # Errors
/// As for READ.
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    run.current()?;
    run.may_wait()?;
    let from = io_open(run, &args.stateid, ShareAccess::READ)?;
    let done = read(run, args, &from);
    from.end(run);
    done
}

fn read(run: &mut Run, args: &Args, from: &IoOpen) -> OpResult {
    let len = u64::from(args.count.min(MAX_IO)).min(room_left(run) as u64);
    let work = MeteredWork::Read { file: from.open().file_number(), len };
    run.throttle(&from.export().engine, work)?;
    let mut sent = 0;
    pieces(run, args, from, &mut sent)?;
    // A hole transfers no bytes.
    run.throttle.used(sent);
    Ok(())
}

/// Writes the result, and adds the bytes of data in it to `sent`.
fn pieces(run: &mut Run, args: &Args, from: &IoOpen, sent: &mut usize) -> OpResult {
    let size = from.export().engine.info(from.open())?.size;
    let out = run.writer.begin_result(OpNum::ReadPlus, NfsStat::Ok);
    false.encode(out);
    0u32.encode(out);
    // The position of the word for the end of the file, which the number of pieces follows.
    let head = run.writer.tail().len() - 8;
    let end = args.offset.saturating_add(u64::from(args.count.min(MAX_IO))).min(size);
    let (mut at, mut pieces) = (args.offset, 0u32);
    while at < end {
        let room = room_left(run).saturating_sub(AROUND) as u64;
        if room == 0 {
            break;
        }
        let next = from.export().engine.next_data(from.open(), at)?.filter(|data| data.start < end);
        at = match next {
            Some(data) if data.start < at + SMALL_HOLE => {
                let to = data.end.min(end).max(at + 1).min(at + room);
                let end = put_data(run, from, at, (to - at) as usize)?;
                *sent += usize::try_from(end.min(to) - at).unwrap_or(0);
                end
            }
            _ => put_hole(run, at, next.map_or(end, |data| data.start)),
        };
        pieces += 1;
    }
    run.transactions.data = usize::try_from(at.min(end).saturating_sub(args.offset)).unwrap_or(0);
    let head_fields = &mut run.writer.tail()[head..head + 8];
    head_fields[..4].copy_from_slice(&u32::from(at >= size).to_be_bytes());
    head_fields[4..].copy_from_slice(&pieces.to_be_bytes());
    Ok(())
}

/// Appends a hole and returns the offset of its end.
fn put_hole(run: &mut Run, at: u64, end: u64) -> u64 {
    let out = run.writer.tail();
    CONTENT_HOLE.encode(out);
    at.encode(out);
    (end - at).encode(out);
    end
}

/// Appends data and returns the offset of its end.
fn put_data(run: &mut Run, from: &IoOpen, at: u64, len: usize) -> Result<u64, Stop> {
    let told = ToldReader::of(run, from)?;
    let reader = told.reader(run);
    let out = run.writer.tail();
    CONTENT_DATA.encode(out);
    at.encode(out);
    0u32.encode(out);
    let len_at = out.len() - 4;
    let got = from.export().engine.read(from.open(), reader, at, len, out, Patience::Block)?;
    out[len_at..len_at + 4].copy_from_slice(&(got as u32).to_be_bytes());
    pad(got, out);
    // A file that was truncated meanwhile ends here.
    Ok(if got == 0 { u64::MAX } else { at + got as u64 })
}
