//! Tests of the whole pipe: conversations with impacket, packets in pieces, and invalid packets.
//!
//! The files under `transcripts` are conversations between this module and impacket 0.13.1 over TCP.
//! impacket's view of the replies was compared by eye with the values of [`Example`]. Since then the
//! transcripts bind both sides.

use super::fault::Fault;
use super::host::{Account, Host, NameUse, Resolved, ServerFacts, Share, ShareType};
use super::interface::PipeName;
use super::pdu::{
    Bind, CALL_HEADER, FIRST_FRAG, HEADER, Header, LAST_FRAG, PacketType, PresentationContext, Request,
    SyntaxId,
};
use super::pipe::{LEAST_FRAGMENT, MAX_CALL, MAX_REPLY, Pipe, PipeError};
use crate::fscc::testing::hex;
use proptest::prelude::*;

/// A server with three shares and one user.
struct Example {
    is_admin: bool,
    shares: usize,
}

/// A self-relative security descriptor without owner, group and lists.
const EMPTY_DESCRIPTOR: [u8; 20] = [1, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

const ADMIN: Example = Example { is_admin: true, shares: 0 };

fn nt_sid(parts: &[u32]) -> Vec<u8> {
    let mut sid = vec![1, parts.len() as u8, 0, 0, 0, 0, 0, 5];
    parts.iter().for_each(|part| sid.extend_from_slice(&part.to_le_bytes()));
    sid
}

impl Host for Example {
    fn facts(&self) -> ServerFacts {
        ServerFacts {
            name: "TRUNK".into(),
            comment: "a é server".into(),
            domain: "WORKGROUP".into(),
            account_domain_sid: nt_sid(&[21, 1, 2, 3]),
            version_major: 10,
            version_minor: 0,
            users: 2,
        }
    }

    fn wall_ns(&self) -> i64 {
        1_795_176_000_120_000_000
    }

    fn shares(&self) -> Vec<Share> {
        let share = |name: &str, kind, security_descriptor| Share {
            name: name.into(),
            remark: format!("the {name}"),
            kind,
            max_uses: u32::MAX,
            current_uses: 1,
            path: format!("C:\\{name}"),
            flags: 0x30,
            security_descriptor,
        };
        let mut all = vec![
            share("data", ShareType::DISK, Some(EMPTY_DESCRIPTOR.to_vec())),
            share("Fotos é", ShareType::DISK, None),
            share("IPC$", ShareType::IPC, None),
        ];
        all.extend((0..self.shares).map(|n| share(&format!("share{n}"), ShareType::DISK, None)));
        all
    }

    fn caller_is_admin(&self) -> bool {
        self.is_admin
    }

    fn caller(&self) -> Account {
        Account { domain: "TRUNK".into(), name: "alice".into(), kind: NameUse::User }
    }

    fn account_of_sid(&self, sid: &[u8]) -> Option<Account> {
        (sid == nt_sid(&[21, 1, 2, 3, 1000])).then(|| self.caller())
    }

    fn sid_of_account(&self, _: Option<&str>, name: &str) -> Option<Resolved> {
        let sid = nt_sid(&[21, 1, 2, 3, 1000]);
        name.eq_ignore_ascii_case("alice").then(|| Resolved {
            sid,
            domain: "TRUNK".into(),
            kind: NameUse::User,
        })
    }
}

/// One exchange: its title, the request, the reply.
type Exchange = (String, Vec<u8>, Vec<u8>);

fn transcript(text: &str) -> Vec<Exchange> {
    let mut exchanges: Vec<(String, String, String)> = Vec::new();
    let mut is_reply = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("# ") {
            exchanges.push((title.to_string(), String::new(), String::new()));
            continue;
        }
        is_reply = match line.as_bytes()[0] {
            b'>' => false,
            b'<' => true,
            _ => is_reply,
        };
        let (_, request, reply) = exchanges.last_mut().unwrap();
        if is_reply { reply } else { request }.push_str(&line[1..]);
    }
    exchanges.into_iter().map(|(title, request, reply)| (title, hex(&request), hex(&reply))).collect()
}

fn transcripts() -> [(PipeName, Vec<Exchange>); 3] {
    [
        (PipeName::Srvsvc, transcript(include_str!("transcripts/srvsvc.txt"))),
        (PipeName::Wkssvc, transcript(include_str!("transcripts/wkssvc.txt"))),
        (PipeName::Lsarpc, transcript(include_str!("transcripts/lsarpc.txt"))),
    ]
}

fn read_all(pipe: &mut Pipe) -> Vec<u8> {
    let mut out = Vec::new();
    while pipe.read(usize::MAX, &mut out).is_ok() {}
    out
}

#[test]
fn conversations_with_impacket_go_as_they_went() {
    for (name, exchanges) in transcripts() {
        let mut pipe = Pipe::new(name);
        assert!(exchanges.len() > 4);
        for (title, request, reply) in exchanges {
            pipe.write(&request, &ADMIN).unwrap();
            assert_eq!(read_all(&mut pipe), reply, "{title}");
        }
    }
}

#[test]
fn packets_may_come_byte_by_byte_or_together() {
    let [(name, exchanges), ..] = transcripts();
    let wanted: Vec<u8> = exchanges.iter().flat_map(|(_, _, reply)| reply.clone()).collect();
    let requests: Vec<u8> = exchanges.iter().flat_map(|(_, request, _)| request.clone()).collect();
    let mut slow = Pipe::new(name);
    requests.iter().for_each(|byte| slow.write(&[*byte], &ADMIN).unwrap());
    assert_eq!(read_all(&mut slow), wanted);
    let mut fast = Pipe::new(name);
    fast.write(&requests, &ADMIN).unwrap();
    assert_eq!((fast.available(), fast.messages().0), (wanted.len(), exchanges.len()));
    assert_eq!(read_all(&mut fast), wanted);
}

fn bind_with(interface: SyntaxId, transfer: &[SyntaxId], max_recv_frag: u16) -> Vec<u8> {
    let context = PresentationContext { id: 7, interface, transfer: transfer.to_vec() };
    Bind { max_xmit_frag: 4280, max_recv_frag, assoc_group: 0, contexts: vec![context] }
        .packet(PacketType::BIND, 1)
}

fn bound(name: PipeName) -> Pipe {
    let mut pipe = Pipe::new(name);
    pipe.write(&bind_with(name.interface().syntax(), &[SyntaxId::NDR], 4280), &ADMIN).unwrap();
    read_all(&mut pipe);
    pipe
}

/// Result and reason of the only context in a bind_ack.
fn result_of(ack: &[u8]) -> (u16, u16) {
    assert_eq!(ack[2], PacketType::BIND_ACK.0);
    let result = &ack[ack.len() - 24..];
    (u16::from_le_bytes([result[0], result[1]]), u16::from_le_bytes([result[2], result[3]]))
}

fn fault_of(packet: &[u8]) -> Fault {
    assert_eq!(packet[2], PacketType::FAULT.0);
    Fault(u32::from_le_bytes(packet[24..28].try_into().unwrap()))
}

#[test]
fn only_the_own_interface_in_ndr_is_accepted() {
    let srvsvc = PipeName::Srvsvc.interface().syntax();
    let features = SyntaxId::new(0x6CB7_1C2C_9812_4540_0300_0000_0000_0000, 1);
    for (interface, transfer, wanted) in [
        (srvsvc, vec![SyntaxId::NDR], (0, 0)),
        (srvsvc, vec![SyntaxId::NDR64, SyntaxId::NDR], (0, 0)),
        (srvsvc, vec![SyntaxId::NDR64], (2, 2)),
        (srvsvc, vec![], (2, 2)),
        (srvsvc, vec![features], (3, 0)),
        (SyntaxId { version: 2, ..srvsvc }, vec![SyntaxId::NDR], (2, 1)),
        (PipeName::Lsarpc.interface().syntax(), vec![SyntaxId::NDR], (2, 1)),
    ] {
        let mut pipe = Pipe::new(PipeName::Srvsvc);
        pipe.write(&bind_with(interface, &transfer, 4280), &ADMIN).unwrap();
        assert_eq!(result_of(&read_all(&mut pipe)), wanted);
    }
}

#[test]
fn a_context_can_be_added_later() {
    let mut pipe = bound(PipeName::Wkssvc);
    let context = PresentationContext {
        id: 9,
        interface: PipeName::Wkssvc.interface().syntax(),
        transfer: vec![SyntaxId::NDR],
    };
    let more = Bind { max_xmit_frag: 0, max_recv_frag: 0, assoc_group: 5, contexts: vec![context] };
    let mut ack = Vec::new();
    pipe.transact(&more.packet(PacketType::ALTER_CONTEXT, 2), &ADMIN, 4096, &mut ack).unwrap();
    assert_eq!((ack[2], ack[20]), (PacketType::ALTER_CONTEXT_RESP.0, 5));
    for context_id in [7, 9] {
        let call = Request { context_id, opnum: 0, stub: &hex("00000000 64000000") };
        let mut reply = Vec::new();
        pipe.transact(&call.packet(FIRST_FRAG | LAST_FRAG, 3), &ADMIN, 4096, &mut reply).unwrap();
        assert_eq!(reply[2], PacketType::RESPONSE.0);
    }
}

#[test]
fn calls_that_cannot_be_fail_with_their_fault() {
    let call = |context_id, opnum, stub: &[u8]| {
        let mut pipe = bound(PipeName::Srvsvc);
        let request = Request { context_id, opnum, stub }.packet(FIRST_FRAG | LAST_FRAG, 2);
        pipe.write(&request, &ADMIN).unwrap();
        assert!(!pipe.is_disconnected());
        fault_of(&read_all(&mut pipe))
    };
    assert_eq!(call(7, 999, &[]), Fault::OP_RNG_ERROR);
    assert_eq!(call(8, 28, &[]), Fault::UNK_IF);
    assert_eq!(call(7, 28, &[]), Fault::BAD_STUB_DATA);
}

#[test]
fn others_are_not_told_what_administrators_are() {
    let user = Example { is_admin: false, shares: 0 };
    for (level, wanted) in [(1u32, 0u32), (2, 5), (501, 0), (502, 5)] {
        let stub = [0u32, level, level, 1, 0, 0, u32::MAX, 0].map(u32::to_le_bytes).concat();
        let mut pipe = bound(PipeName::Srvsvc);
        let mut reply = Vec::new();
        let call = Request { context_id: 7, opnum: 15, stub: &stub }.packet(FIRST_FRAG | LAST_FRAG, 2);
        pipe.transact(&call, &user, 65536, &mut reply).unwrap();
        assert_eq!(reply[reply.len() - 4..], wanted.to_le_bytes(), "level {level}");
    }
}

/// A call of NetrShareEnum at level 1, in `pieces` packets.
fn share_enum(pieces: usize) -> Vec<Vec<u8>> {
    let stub = [0u32, 1, 1, 1, 0, 0, u32::MAX, 0].map(u32::to_le_bytes).concat();
    let size = stub.len().div_ceil(pieces);
    let last = stub.chunks(size).count() - 1;
    stub.chunks(size)
        .enumerate()
        .map(|(index, stub)| {
            let flags = if index == 0 { FIRST_FRAG } else { 0 } | if index == last { LAST_FRAG } else { 0 };
            Request { context_id: 7, opnum: 15, stub }.packet(flags, 2)
        })
        .collect()
}

#[test]
fn arguments_may_come_in_many_packets() {
    let mut whole = bound(PipeName::Srvsvc);
    whole.write(&share_enum(1)[0], &ADMIN).unwrap();
    let wanted = read_all(&mut whole);
    let mut parts = bound(PipeName::Srvsvc);
    for packet in share_enum(5) {
        assert_eq!(parts.read(1, &mut Vec::new()), Err(PipeError::Empty));
        parts.write(&packet, &ADMIN).unwrap();
    }
    assert_eq!(read_all(&mut parts), wanted);
}

#[test]
fn results_leave_in_packets_that_the_client_can_take() {
    let host = Example { is_admin: true, shares: 500 };
    let mut pipe = Pipe::new(PipeName::Srvsvc);
    pipe.write(&bind_with(PipeName::Srvsvc.interface().syntax(), &[SyntaxId::NDR], 2000), &host).unwrap();
    read_all(&mut pipe);
    pipe.write(&share_enum(1)[0], &host).unwrap();
    let mut stub = Vec::new();
    let mut flags = Vec::new();
    while pipe.messages().0 > 0 {
        let mut packet = Vec::new();
        assert_eq!(pipe.read(2000, &mut packet), Ok(false));
        let header = Header::parse(&packet).unwrap();
        assert_eq!((usize::from(header.frag_length), header.call_id), (packet.len(), 2));
        let hint = u32::from_le_bytes(packet[HEADER..HEADER + 4].try_into().unwrap()) as usize;
        flags.push((header.flags, hint));
        stub.extend_from_slice(&packet[CALL_HEADER..]);
    }
    assert!(flags.len() > 20);
    assert_eq!(flags[0], (FIRST_FRAG, stub.len()));
    assert!(flags[1..flags.len() - 1].iter().all(|(flags, _)| *flags == 0));
    assert_eq!(flags[flags.len() - 1].0, LAST_FRAG);
    assert_eq!(stub[stub.len() - 4..], [0; 4]);
}

#[test]
fn a_reply_is_read_in_parts_and_blocks_the_next_exchange() {
    let mut pipe = bound(PipeName::Srvsvc);
    let request = &share_enum(1)[0];
    let mut out = Vec::new();
    assert_eq!(pipe.transact(request, &ADMIN, 100, &mut out), Ok(true));
    assert_eq!(pipe.transact(request, &ADMIN, 100, &mut out), Err(PipeError::Busy));
    let (messages, left) = pipe.messages();
    assert_eq!((messages, left, out.len()), (1, pipe.available(), 100));
    assert_eq!(pipe.read(left, &mut out), Ok(false));
    assert_eq!(out.len(), usize::from(Header::parse(&out).unwrap().frag_length));
    assert_eq!(pipe.read(1, &mut out), Err(PipeError::Empty));
}

/// Writes to a bound pipe. Returns the reply and whether the pipe can still be used.
fn after(packet: &[u8]) -> (Vec<u8>, bool) {
    let mut pipe = bound(PipeName::Srvsvc);
    pipe.write(packet, &ADMIN).unwrap();
    let is_broken = pipe.is_disconnected();
    let reply = read_all(&mut pipe);
    if is_broken {
        assert_eq!(pipe.write(&[0], &ADMIN), Err(PipeError::Disconnected));
        assert_eq!(pipe.read(1, &mut Vec::new()), Err(PipeError::Disconnected));
    }
    (reply, !is_broken)
}

#[test]
fn what_breaks_the_protocol_ends_the_pipe() {
    let call = share_enum(1).remove(0);
    let with = |at: usize, value: u8| {
        let mut packet = call.clone();
        packet[at] = value;
        packet
    };
    assert_eq!(after(&with(0, 4)), (vec![], false), "version 4");
    assert_eq!(after(&with(4, 0)), (vec![], false), "big-endian");
    assert_eq!(after(&with(2, 0x63)), (vec![], false), "unknown packet");
    assert_eq!(after(&with(8, 8)), (vec![], false), "shorter than a header");
    assert_eq!(after(&with(9, 0xFF)), (vec![], false), "too long");
    let (reply, is_alive) = after(&with(3, LAST_FRAG));
    assert_eq!((fault_of(&reply), is_alive), (Fault::PROTO_ERROR, false), "a second packet without a first");
    let (reply, is_alive) = after(&with(10, 16));
    assert_eq!(
        (fault_of(&reply), is_alive),
        (Fault::ACCESS_DENIED, false),
        "authentication nobody agreed on"
    );
    let (reply, is_alive) = after(&bind_with(PipeName::Srvsvc.interface().syntax(), &[SyntaxId::NDR], 4280));
    assert_eq!((reply[2], is_alive), (PacketType::BIND_NAK.0, false), "a second bind");
}

#[test]
fn a_bind_of_another_version_or_with_a_logon_is_refused_with_its_reason() {
    let bind = bind_with(PipeName::Srvsvc.interface().syntax(), &[SyntaxId::NDR], 4280);
    for (at, value, reason, is_broken) in [(0, 4, 4, true), (10, 16, 8, false)] {
        let mut packet = bind.clone();
        packet[at] = value;
        let mut pipe = Pipe::new(PipeName::Srvsvc);
        pipe.write(&packet, &ADMIN).unwrap();
        assert_eq!(pipe.is_disconnected(), is_broken);
        let reply = read_all(&mut pipe);
        assert_eq!((reply[2], reply[16], &reply[18..21]), (PacketType::BIND_NAK.0, reason, &[1, 5, 0][..]));
    }
}

#[test]
fn a_call_is_bounded_and_can_be_given_up() {
    let piece = [0; 4000];
    let mut pipe = bound(PipeName::Srvsvc);
    for index in 0..=MAX_CALL / piece.len() {
        let flags = if index == 0 { FIRST_FRAG } else { 0 };
        pipe.write(&Request { context_id: 7, opnum: 15, stub: &piece }.packet(flags, 2), &ADMIN).unwrap();
    }
    assert_eq!(fault_of(&read_all(&mut pipe)), Fault::REMOTE_NO_MEMORY);
    assert!(pipe.is_disconnected());

    let mut pipe = bound(PipeName::Srvsvc);
    pipe.write(&share_enum(2)[0], &ADMIN).unwrap();
    let mut orphaned = share_enum(1).remove(0);
    orphaned[2] = PacketType::ORPHANED.0;
    pipe.write(&orphaned, &ADMIN).unwrap();
    pipe.write(&share_enum(1)[0], &ADMIN).unwrap();
    assert_eq!(read_all(&mut pipe)[2], PacketType::RESPONSE.0);
}

#[test]
fn replies_that_nobody_reads_do_not_pile_up() {
    let host = Example { is_admin: true, shares: 300 };
    let call = share_enum(1).remove(0);
    let mut pipe = bound(PipeName::Srvsvc);
    let mut refused = None;
    for _ in 0..1000 {
        refused = pipe.write(&call, &host).err();
        if refused.is_some() {
            break;
        }
    }
    assert_eq!(refused, Some(PipeError::Busy));
    assert!(pipe.available() < 2 * MAX_REPLY);

    let mut pipe = bound(PipeName::Srvsvc);
    pipe.write(&call.repeat(1000), &host).unwrap();
    assert!(pipe.is_disconnected() && pipe.available() < 2 * MAX_REPLY);
}

#[test]
fn the_smallest_packet_size_is_held_up() {
    let mut pipe = Pipe::new(PipeName::Srvsvc);
    pipe.write(&bind_with(PipeName::Srvsvc.interface().syntax(), &[SyntaxId::NDR], 3), &ADMIN).unwrap();
    let ack = read_all(&mut pipe);
    assert_eq!(u16::from_le_bytes([ack[16], ack[17]]), LEAST_FRAGMENT);
}

fn any_exchange() -> impl Strategy<Value = (PipeName, usize)> {
    let sizes = transcripts().map(|(name, exchanges)| (name, exchanges.len()));
    (0usize..3, any::<prop::sample::Index>()).prop_map(move |(pipe, index)| {
        let (name, len) = sizes[pipe];
        (name, index.index(len))
    })
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut pipe = bound(PipeName::Srvsvc);
        let _ = pipe.write(&data, &ADMIN);
        prop_assert!(read_all(&mut pipe).len() < MAX_REPLY);
    }

    #[test]
    fn any_stub_does_no_harm(opnum in 0u16..80, stub in proptest::collection::vec(any::<u8>(), 0..200)) {
        for name in [PipeName::Srvsvc, PipeName::Wkssvc, PipeName::Lsarpc] {
            let mut pipe = bound(name);
            let call = Request { context_id: 7, opnum, stub: &stub }.packet(FIRST_FRAG | LAST_FRAG, 2);
            pipe.write(&call, &ADMIN).unwrap();
            prop_assert!(!read_all(&mut pipe).is_empty());
        }
    }

    /// A recorded request with some bytes changed, after the recorded requests before it.
    #[test]
    fn damaged_requests_do_no_harm((name, at) in any_exchange(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6))
    {
        let [a, b, c] = transcripts();
        let (_, exchanges) = [a, b, c].into_iter().find(|(found, _)| *found == name).unwrap();
        let mut pipe = Pipe::new(name);
        for (_, request, _) in &exchanges[..at] {
            let _ = pipe.write(request, &ADMIN);
            read_all(&mut pipe);
        }
        let mut request = exchanges[at].1.clone();
        for (position, value) in damage {
            let position = position.index(request.len());
            request[position] = value;
        }
        let _ = pipe.write(&request, &ADMIN);
        prop_assert!(read_all(&mut pipe).len() < MAX_REPLY);
    }
}
