//! Common parts of the tests: every operation at least once, as values, and a function that passes bytes to
//! every reader.

#![allow(dead_code)]

mod arguments;
mod callbacks;
mod results;

pub use arguments::arguments;
pub use callbacks::{callback_arguments, callback_results};
pub use results::results;

use nfs_wire::attr::{Bitmap, Fattr};
use nfs_wire::compound::{CompoundArgs, Operations, Reply};
use nfs_wire::op;
use nfs_wire::rpc::{AuthSys, Message};
use nfs_wire::types::*;
use nfs_wire::xdr::{Decode, Encode};
use nfs_wire::{callback, rpc};
use wire::Cursor;

pub const STATE: StateId = StateId { seqid: 0x0102_0304, other: *b"twelve bytes" };
pub const SESSION: SessionId = *b"sixteen of bytes";
pub const VERIFIER: Verifier = *b"verifier";
pub const TIME: NfsTime = NfsTime { seconds: -3, nseconds: 999_999_999 };
pub const CHANGE: ChangeInfo = ChangeInfo { atomic: true, before: 1, after: u64::MAX };
pub const OWNER: StateOwner<'static> = StateOwner { clientid: 0, owner: Identity(b"open id:1") };
pub const BITS: Bitmap = Bitmap::of(&[1, 4, 33, 53, 80]);
/// Type and mode, encoded as in a message.
pub const ATTRIBUTES: Fattr<'static> =
    Fattr { mask: Bitmap::of(&[1, 33]), values: &[0, 0, 0, 1, 0, 0, 1, 0xa4] };

/// The bytes of `value`.
pub fn bytes(value: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

/// Passes `data` to every reader of whole messages, and reads lazy parts to their end.
pub fn read_everything(data: &[u8]) {
    match Message::parse(data) {
        Ok(Message::Call(Ok(call))) => {
            let _ = AuthSys::parse(call.credential.body);
            read_bodies(call.body);
        }
        Ok(Message::Reply(rpc::RpcReply { outcome: Ok(rpc::Accepted::Success(body)), .. })) => {
            read_bodies(body)
        }
        _ => {}
    }
    let _ = AuthSys::parse(data);
    read_bodies(data);
    for minor in 0..4 {
        read_to_the_end(Operations::<op::Args<'_>>::new(data, minor, u32::MAX), data.len());
        read_to_the_end(Operations::<callback::Args<'_>>::new(data, minor, u32::MAX), data.len());
    }
    let _ = op::Res::decode(&mut Cursor::new(data)).map(|result| format!("{result:?}"));
    let _ = callback::Res::decode(&mut Cursor::new(data)).map(|result| format!("{result:?}"));
    if let Ok(fattr) = Fattr::decode(&mut Cursor::new(data)) {
        fattr.iter().for_each(|attribute| drop(format!("{attribute:?}")));
    }
}

fn read_bodies(body: &[u8]) {
    if let Ok(call) = CompoundArgs::parse(body) {
        read_to_the_end(call.operations(), call.argarray.len());
    }
    if let Ok(call) = callback::Call::parse(body) {
        read_to_the_end(call.operations(), call.argarray.len());
    }
    if let Ok(reply) = Reply::parse(body) {
        reply.results().for_each(|result| drop(format!("{result:?}")));
        reply.callback_results().for_each(|result| drop(format!("{result:?}")));
    }
}

/// Each operation takes at least its number, so no count makes a reader loop for long.
fn read_to_the_end<'a, T: op::Operation<'a> + std::fmt::Debug>(operations: Operations<'a, T>, len: usize) {
    let count = operations.map(|operation| drop(format!("{operation:?}"))).count();
    assert!(count <= len / 4 + 1, "{count} operations in {len} bytes");
}
