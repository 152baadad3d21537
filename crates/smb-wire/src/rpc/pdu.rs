//! Connection-oriented RPC packets (C706 chapter 12, MS-RPCE 2.2.2), little-endian.

use wire::{Cursor, Truncated, Writer};

/// Bytes of the header that all packets share.
pub const HEADER: usize = 16;
/// Bytes before the stub of a request or response.
pub const CALL_HEADER: usize = 24;

/// Packet types, in the order of their numbers. Numbers without a name are values too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketType(pub u8);

impl PacketType {
    /// A call, or a part of it.
    pub const REQUEST: PacketType = PacketType(0x00);
    /// The results of a call, or a part of them.
    pub const RESPONSE: PacketType = PacketType(0x02);
    /// The fault of a call.
    pub const FAULT: PacketType = PacketType(0x03);
    /// A request for interfaces.
    pub const BIND: PacketType = PacketType(0x0B);
    /// The acceptance of a bind, with a result for each interface.
    pub const BIND_ACK: PacketType = PacketType(0x0C);
    /// The rejection of a bind.
    pub const BIND_NAK: PacketType = PacketType(0x0D);
    /// A request for more interfaces.
    pub const ALTER_CONTEXT: PacketType = PacketType(0x0E);
    /// The response to that, with a result for each interface.
    pub const ALTER_CONTEXT_RESP: PacketType = PacketType(0x0F);
    /// The third message of an authentication. It has no reply.
    pub const AUTH3: PacketType = PacketType(0x10);
    /// Asks the server to stop a call.
    pub const CO_CANCEL: PacketType = PacketType(0x12);
    /// The client has given up a call.
    pub const ORPHANED: PacketType = PacketType(0x13);
}

/// Flag: the first packet of a call.
pub const FIRST_FRAG: u8 = 0x01;
/// Flag: the last packet of a call.
pub const LAST_FRAG: u8 = 0x02;
/// Flag of a fault: the call was not started.
pub const DID_NOT_EXECUTE: u8 = 0x20;
/// Flag of a request: an object's UUID is before the stub.
pub const OBJECT_UUID: u8 = 0x80;

/// The first fields of all packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The type of the packet.
    pub kind: PacketType,
    /// Its flags.
    pub flags: u8,
    /// Bytes of the whole packet.
    pub frag_length: u16,
    /// Bytes of the authentication value at its end.
    pub auth_length: u16,
    /// The number of the call.
    pub call_id: u32,
}

/// The reason why a header was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadPdu {
    /// The packet ends early, or its lengths do not match.
    #[error("the packet ends early")]
    Truncated,
    /// The packet has another version of the protocol.
    #[error("the packet is not of version 5")]
    Version,
    /// The packet is not little-endian, ASCII and IEEE.
    #[error("the packet is not little-endian")]
    Representation,
}

impl From<Truncated> for BadPdu {
    fn from(_: Truncated) -> Self {
        BadPdu::Truncated
    }
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`BadPdu`]
    pub fn parse(data: &[u8]) -> Result<Header, BadPdu> {
        let mut c = Cursor::new(data);
        let [major, minor, kind, flags] = c.array()?;
        let representation = c.array::<4>()?;
        let header = Header {
            kind: PacketType(kind),
            flags,
            frag_length: u16::from_le_bytes(c.array()?),
            auth_length: u16::from_le_bytes(c.array()?),
            call_id: c.u32_le()?,
        };
        if major != 5 || minor > 1 {
            return Err(BadPdu::Version);
        }
        if representation[..2] != [0x10, 0] {
            return Err(BadPdu::Representation);
        }
        if usize::from(header.frag_length) < HEADER {
            return Err(BadPdu::Truncated);
        }
        Ok(header)
    }

    /// Appends the header.
    pub fn write(&self, w: &mut Writer<'_>) {
        w.bytes(&[5, 0, self.kind.0, self.flags, 0x10, 0, 0, 0]);
        w.u16_le(self.frag_length);
        w.u16_le(self.auth_length);
        w.u32_le(self.call_id);
    }
}

/// An interface or a transfer syntax: a UUID and a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SyntaxId {
    /// The UUID as a number, in the order of its hex digits.
    pub uuid: u128,
    /// The version: major in the lower half, minor in the upper.
    pub version: u32,
}

impl SyntaxId {
    /// NDR 2.0.
    pub const NDR: SyntaxId = SyntaxId::new(0x8A88_5D04_1CEB_11C9_9FE8_0800_2B10_4860, 2);
    /// NDR64.
    pub const NDR64: SyntaxId = SyntaxId::new(0x7171_0533_BEBA_4937_8319_B5DB_EF9C_CC36, 1);
    /// No syntax.
    pub const NONE: SyntaxId = SyntaxId::new(0, 0);

    /// A syntax.
    #[must_use]
    pub const fn new(uuid: u128, version: u32) -> Self {
        SyntaxId { uuid, version }
    }

    /// Whether it stands for feature negotiation at bind time. Its first half is fixed, and its second half
    /// is a mask.
    #[must_use]
    pub const fn is_feature_negotiation(&self) -> bool {
        // MS-RPCE 3.3.1.5.3
        self.uuid >> 64 == 0x6CB7_1C2C_9812_4540
    }

    fn parse(c: &mut Cursor<'_>) -> Result<Self, BadPdu> {
        let raw: [u8; 16] = c.array()?;
        Ok(SyntaxId { uuid: u128::from_be_bytes(swapped(raw)), version: c.u32_le()? })
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(&swapped(self.uuid.to_be_bytes()));
        w.u32_le(self.version);
    }
}

/// On the wire the first three fields of a UUID are little-endian.
fn swapped(mut uuid: [u8; 16]) -> [u8; 16] {
    uuid[..4].reverse();
    uuid[4..6].reverse();
    uuid[6..8].reverse();
    uuid
}

/// The most contexts in a bind, and the most transfer syntaxes in a context.
pub const MAX_CONTEXTS: usize = 32;

/// One interface that a client requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentationContext {
    /// The client's number for it.
    pub id: u16,
    /// The interface.
    pub interface: SyntaxId,
    /// The transfer syntaxes that the client supports.
    pub transfer: Vec<SyntaxId>,
}

/// The body of a bind or alter_context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The largest packet that the client sends.
    pub max_xmit_frag: u16,
    /// The largest packet that the client accepts.
    pub max_recv_frag: u16,
    /// The association group that the connection joins, or 0 for a new one.
    pub assoc_group: u32,
    /// The interfaces.
    pub contexts: Vec<PresentationContext>,
}

impl Bind {
    /// Reads the body after the header.
    ///
    /// # Errors
    /// [`BadPdu::Truncated`], also for more than [`MAX_CONTEXTS`] contexts or syntaxes.
    pub fn parse(body: &[u8]) -> Result<Bind, BadPdu> {
        let mut c = Cursor::new(body);
        let max_xmit_frag = u16::from_le_bytes(c.array()?);
        let max_recv_frag = u16::from_le_bytes(c.array()?);
        let assoc_group = c.u32_le()?;
        let count = bounded(c.u8()?)?;
        c.skip(3)?;
        let mut contexts = Vec::with_capacity(count);
        for _ in 0..count {
            let id = u16::from_le_bytes(c.array()?);
            let syntaxes = bounded(c.u8()?)?;
            c.skip(1)?;
            let interface = SyntaxId::parse(&mut c)?;
            let transfer = (0..syntaxes).map(|_| SyntaxId::parse(&mut c)).collect::<Result<_, _>>()?;
            contexts.push(PresentationContext { id, interface, transfer });
        }
        Ok(Bind { max_xmit_frag, max_recv_frag, assoc_group, contexts })
    }

    /// The whole packet, for a client.
    #[must_use]
    pub fn packet(&self, kind: PacketType, call_id: u32) -> Vec<u8> {
        packet(kind, FIRST_FRAG | LAST_FRAG, call_id, |w| {
            w.u16_le(self.max_xmit_frag);
            w.u16_le(self.max_recv_frag);
            w.u32_le(self.assoc_group);
            w.u32_le(self.contexts.len() as u32 & 0xFF);
            for context in &self.contexts {
                w.u16_le(context.id);
                w.u16_le(context.transfer.len() as u16 & 0xFF);
                context.interface.write(w);
                context.transfer.iter().for_each(|syntax| syntax.write(w));
            }
        })
    }
}

fn bounded(count: u8) -> Result<usize, BadPdu> {
    Some(usize::from(count)).filter(|count| *count <= MAX_CONTEXTS).ok_or(BadPdu::Truncated)
}

/// The result for one context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContextResult {
    /// 0 accepted, 2 refused, 3 features negotiated.
    pub result: u16,
    /// The reason of a refusal, or the features.
    pub reason: u16,
    /// The transfer syntax to use.
    pub transfer: SyntaxId,
}

impl ContextResult {
    /// The interface is accepted.
    pub const ACCEPTED: ContextResult = ContextResult { result: 0, reason: 0, transfer: SyntaxId::NDR };
    /// The server does not have the interface.
    pub const NO_INTERFACE: ContextResult = ContextResult { result: 2, reason: 1, transfer: SyntaxId::NONE };
    /// The server has none of the transfer syntaxes. NDR64 alone is one such case.
    pub const NO_TRANSFER: ContextResult = ContextResult { result: 2, reason: 2, transfer: SyntaxId::NONE };
    /// Too many contexts.
    pub const LIMIT: ContextResult = ContextResult { result: 2, reason: 3, transfer: SyntaxId::NONE };
    /// Feature negotiation, with none of the features.
    pub const NO_FEATURES: ContextResult = ContextResult { result: 3, reason: 0, transfer: SyntaxId::NONE };
}

/// The body of a bind_ack or alter_context_resp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindAck<'a> {
    /// The largest packet that the server sends.
    pub max_xmit_frag: u16,
    /// The largest packet that the server accepts.
    pub max_recv_frag: u16,
    /// The association group of the connection.
    pub assoc_group: u32,
    /// The name of the endpoint. It is empty in an alter_context_resp.
    pub address: &'a str,
    /// One result for each context, in the same order.
    pub results: Vec<ContextResult>,
}

impl BindAck<'_> {
    /// The whole packet.
    #[must_use]
    pub fn packet(&self, kind: PacketType, call_id: u32) -> Vec<u8> {
        packet(kind, FIRST_FRAG | LAST_FRAG, call_id, |w| {
            w.u16_le(self.max_xmit_frag);
            w.u16_le(self.max_recv_frag);
            w.u32_le(self.assoc_group);
            if self.address.is_empty() {
                w.u16_le(0);
            } else {
                w.u16_le(self.address.len() as u16 + 1);
                w.bytes(self.address.as_bytes());
                w.u8(0);
            }
            w.align(4);
            w.u32_le(self.results.len() as u32);
            for result in &self.results {
                w.u16_le(result.result);
                w.u16_le(result.reason);
                result.transfer.write(w);
            }
        })
    }
}

/// The reason why a whole bind was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum NakReason {
    /// No other reason fits.
    NotSpecified = 0,
    /// The server has no capacity.
    LocalLimitExceeded = 2,
    /// Another version of the protocol.
    ProtocolVersionNotSupported = 4,
    /// The server does not support the authentication.
    AuthenticationTypeNotRecognized = 8,
}

/// A whole bind_nak.
#[must_use]
pub fn bind_nak(call_id: u32, reason: NakReason) -> Vec<u8> {
    packet(PacketType::BIND_NAK, FIRST_FRAG | LAST_FRAG, call_id, |w| {
        w.u16_le(reason as u16);
        // One version: 5.0.
        w.bytes(&[1, 5, 0]);
    })
}

/// The fields of a request before its stub, and the stub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The number of the bound context.
    pub context_id: u16,
    /// The number of the operation.
    pub opnum: u16,
    /// The arguments in this packet.
    pub stub: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads the body after the header.
    ///
    /// # Errors
    /// [`BadPdu::Truncated`]
    pub fn parse(header: &Header, body: &'a [u8]) -> Result<Self, BadPdu> {
        let mut c = Cursor::new(body);
        c.skip(4)?;
        let context_id = u16::from_le_bytes(c.array()?);
        let opnum = u16::from_le_bytes(c.array()?);
        if header.flags & OBJECT_UUID != 0 {
            c.skip(16)?;
        }
        Ok(Request { context_id, opnum, stub: c.rest() })
    }

    /// A whole packet, for a client.
    #[must_use]
    pub fn packet(&self, flags: u8, call_id: u32) -> Vec<u8> {
        packet(PacketType::REQUEST, flags & !OBJECT_UUID, call_id, |w| {
            w.u32_le(self.stub.len() as u32);
            w.u16_le(self.context_id);
            w.u16_le(self.opnum);
            w.bytes(self.stub);
        })
    }
}

/// The packets of a response, none larger than `max_frag`.
#[must_use]
pub fn response(call_id: u32, context_id: u16, stub: &[u8], max_frag: u16) -> Vec<Vec<u8>> {
    // MS-RPCE 2.2.2.6 (each packet has the number of bytes that still follow)
    let room = usize::from(max_frag).saturating_sub(CALL_HEADER).max(8) & !7;
    let count = stub.len().div_ceil(room).max(1);
    (0..count)
        .map(|index| {
            let rest = &stub[index * room..];
            let first = if index == 0 { FIRST_FRAG } else { 0 };
            let last = if index + 1 == count { LAST_FRAG } else { 0 };
            packet(PacketType::RESPONSE, first | last, call_id, |w| {
                w.u32_le(rest.len() as u32);
                w.u16_le(context_id);
                w.u16_le(0);
                w.bytes(&rest[..rest.len().min(room)]);
            })
        })
        .collect()
}

/// A whole fault.
#[must_use]
pub fn fault(call_id: u32, context_id: u16, status: u32, flags: u8) -> Vec<u8> {
    packet(PacketType::FAULT, FIRST_FRAG | LAST_FRAG | flags, call_id, |w| {
        w.u32_le(32);
        w.u16_le(context_id);
        w.u16_le(0);
        w.u32_le(status);
        w.u32_le(0);
    })
}

/// A packet with a body.
fn packet(kind: PacketType, flags: u8, call_id: u32, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut w = Writer::new(&mut out);
    Header { kind, flags, frag_length: 0, auth_length: 0, call_id }.write(&mut w);
    body(&mut w);
    let length = w.position() as u16;
    w.patch_u16_le(8, length);
    out
}
