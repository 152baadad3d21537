//! NFS messages of clients and servers, and attributes.

use nfs_wire::attr::{Attr, AttrWriter, Fattr};
use nfs_wire::callback;
use nfs_wire::compound::{CompoundArgs, Reply};
use nfs_wire::op::{Args, Res};
use nfs_wire::rpc::record::Assembler;
use nfs_wire::rpc::{self, Accepted, AuthSys, Message};
use nfs_wire::xdr::{Decode, Encode};
use wire::Cursor;

/// Writes a value that was read, reads the result and compares both. Numbers that are too high for a bitmap
/// are printed as a plus sign, and are not written again.
macro_rules! again {
    ($type:ty, $value:expr) => {
        let told = format!("{:?}", $value);
        if !told.contains('+') {
            let mut out = Vec::new();
            $value.encode(&mut out);
            let read = <$type>::decode(&mut Cursor::new(&out));
            assert_eq!(read.as_ref(), Ok(&$value), "written as {out:02x?}");
        }
    };
}

/// A stream with calls of a client, including callbacks.
pub fn call(data: &[u8]) {
    each_message(data, |message| {
        let Ok(Message::Call(Ok(call))) = Message::parse(message) else { return };
        let _ = AuthSys::parse(call.credential.body);
        if let Ok(compound) = CompoundArgs::parse(call.body) {
            for operation in compound.operations().flatten() {
                match operation {
                    // This includes operations of a later minor version.
                    Args::Illegal(_) => continue,
                    Args::SetAttr(setattr) => attributes_of(&setattr.obj_attributes),
                    _ => {}
                }
                again!(Args<'_>, operation);
            }
        }
        if let Ok(compound) = callback::Call::parse(call.body) {
            for operation in compound.operations().flatten() {
                if !matches!(operation, callback::Args::Illegal(_)) {
                    again!(callback::Args<'_>, operation);
                }
            }
        }
    });
}

/// A stream with replies of a server, and a client's replies to callbacks.
pub fn reply(data: &[u8]) {
    each_message(data, |message| {
        let Ok(Message::Reply(rpc::RpcReply { outcome: Ok(Accepted::Success(body)), .. })) =
            Message::parse(message)
        else {
            return;
        };
        if let Ok(compound) = Reply::parse(body) {
            for result in compound.results().flatten() {
                again!(Res<'_>, result);
            }
            for result in compound.callback_results().flatten() {
                again!(callback::Res<'_>, result);
            }
        }
    });
}

/// Attributes in their encoded form.
pub fn attributes(data: &[u8]) {
    if let Ok(fattr) = Fattr::decode(&mut Cursor::new(data)) {
        attributes_of(&fattr);
    }
}

/// Checks that readable attributes are written in the same way.
fn attributes_of(fattr: &Fattr<'_>) {
    let read: Vec<Attr<'_>> = fattr.iter().map_while(Result::ok).collect();
    let mut out = Vec::new();
    let mut writer = AttrWriter::begin(&mut out, fattr.mask);
    read.iter().for_each(|attribute| writer.put(attribute));
    writer.finish();
    let again = Fattr::decode(&mut Cursor::new(&out)).expect("attributes that were written");
    assert_eq!(again.mask.iter().count(), read.len());
    // The comparison is of text, since a bitmap may have lost numbers that are too high.
    if !format!("{read:?}").contains('+') {
        let found: Vec<_> = again.iter().map(|attribute| attribute.expect("an attribute")).collect();
        assert_eq!(found, read);
    }
}

/// The messages of a stream with record marks, however it is divided into fragments.
fn each_message(data: &[u8], mut each: impl FnMut(&[u8])) {
    let mut assembler = Assembler::new(1 << 20);
    let mut stream = data.to_vec();
    while let Ok(Some(message)) = assembler.take(&mut stream) {
        each(&message);
    }
}
