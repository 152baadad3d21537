//! Messages between the Linux client and Ganesha. They are read as another decoder reads them, and written
//! back byte for byte.

use nfs_wire::attr::{Attr, AttrWriter, Fattr};
use nfs_wire::compound::{CallWriter, CompoundArgs, Reply, Target};
use nfs_wire::op::{Args, OpNum, Res};
use nfs_wire::rpc::record::{MARK, RecordMark};
use nfs_wire::rpc::{self, Accepted, AuthSys, Credential, Flavor, Message};
use nfs_wire::xdr::Encode;
use wire::Frame;

/// The bytes of `value`.
fn bytes(value: &impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

/// The side, the record, and the reading of another decoder.
fn captured() -> Vec<(char, Vec<u8>, &'static str)> {
    let lines = include_str!("captured/linux-ganesha.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.splitn(3, ' ');
            let mut part = || parts.next().expect("side, bytes and description");
            let (side, hex, told) = (part(), part(), part());
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
            (side.chars().next().expect("a side"), (0..hex.len()).step_by(2).map(byte).collect(), told)
        })
        .collect()
}

fn message(record: &[u8]) -> &[u8] {
    let (mark, message) = record.split_at(MARK);
    let mark = RecordMark::parse(mark.try_into().expect("a mark"));
    assert_eq!(mark, RecordMark { last: true, len: message.len() });
    message
}

/// `NFS4ERR_NOENT` and `NoEnt` are the same.
fn squeezed(name: &str) -> String {
    let bare = name.trim_start_matches("NFS4ERR_").trim_start_matches("NFS4_");
    bare.chars().filter(|c| *c != '_').collect::<String>().to_lowercase()
}

#[test]
fn calls_are_read_as_another_decoder_reads_them_and_written_as_linux_wrote_them() {
    let mut count = 0;
    for (_, record, told) in captured().iter().filter(|(side, ..)| *side == 'C') {
        let Ok(Message::Call(Ok(call))) = Message::parse(message(record)) else { panic!("{told}") };
        assert_eq!((call.program, call.version, call.procedure), (rpc::NFS_PROGRAM, rpc::NFS_V4, 1));
        let credential = match call.credential.flavor {
            Flavor::Sys => Credential::Sys(AuthSys::parse(call.credential.body).expect("a credential")),
            _ => Credential::None,
        };
        let compound = CompoundArgs::parse(call.body).expect("a COMPOUND");
        let mut writer = CallWriter::begin(
            Frame::default(),
            Target::Server,
            call.xid,
            &credential,
            compound.tag,
            compound.minorversion,
        );
        let mut found = format!("4.{}", compound.minorversion);
        for operation in compound.operations() {
            let operation = operation.unwrap_or_else(|bad| panic!("{told}: {bad}"));
            found = format!("{found} {}", operation.number().name().expect("a known operation"));
            attributes_come_back(&operation);
            writer.push(&operation);
        }
        assert_eq!(&found, told);
        assert_eq!(writer.finish().bytes(), record, "{told}");
        count += 1;
    }
    assert!(count > 25, "{count} calls");
}

#[test]
fn replies_are_read_as_another_decoder_reads_them_and_written_as_ganesha_wrote_them() {
    let mut count = 0;
    for (_, record, told) in captured().iter().filter(|(side, ..)| *side == 'S') {
        let Ok(Message::Reply(rpc::RpcReply { outcome: Ok(Accepted::Success(body)), .. })) =
            Message::parse(message(record))
        else {
            panic!("{told}")
        };
        let reply = Reply::parse(body).expect("COMPOUND4res");
        let mut names = Vec::new();
        let mut written = Vec::new();
        for result in reply.results() {
            let result = result.unwrap_or_else(|bad| panic!("{told}: {bad}"));
            let word = bytes(&result)[..4].try_into().expect("a number");
            names.push(OpNum::new(u32::from_be_bytes(word)).name().expect("a known operation"));
            if let Res::GetAttr(Ok(getattr)) = result {
                fattr_comes_back(&getattr.obj_attributes);
            }
            if let Res::ReadDir(Ok(readdir)) = result {
                assert!(readdir.entries.iter().next().is_some(), "{told}");
                readdir.entries.iter().for_each(|entry| fattr_comes_back(&entry.attrs));
            }
            result.encode(&mut written);
        }
        let mut wanted: Vec<_> = told.split(' ').skip(1).collect();
        let status = wanted.pop().expect("a status");
        assert_eq!(names, wanted);
        assert_eq!(squeezed(&format!("{:?}", reply.status)), squeezed(status));
        assert_eq!(written, reply.resarray, "{told}");
        count += 1;
    }
    assert!(count > 25, "{count} replies");
}

fn attributes_come_back(operation: &Args<'_>) {
    match operation {
        Args::SetAttr(setattr) => fattr_comes_back(&setattr.obj_attributes),
        Args::Create(create) => fattr_comes_back(&create.createattrs),
        _ => {}
    }
}

/// Every attribute is known, and writing in place gives the same bytes.
fn fattr_comes_back(fattr: &Fattr<'_>) {
    let attributes: Vec<Attr<'_>> = fattr.iter().map(|attribute| attribute.expect("an attribute")).collect();
    let mut out = Vec::new();
    let mut writer = AttrWriter::begin(&mut out, fattr.mask);
    attributes.iter().for_each(|attribute| writer.put(attribute));
    writer.finish();
    assert_eq!(out, bytes(fattr));
    let mut room = Vec::new();
    assert_eq!(bytes(&Fattr::of(&attributes, &mut room)), out);
}
