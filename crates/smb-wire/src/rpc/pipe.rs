//! The server end of one open pipe: bytes in, packets out, no I/O.
//!
//! A client writes packets in one or more pieces and reads the replies. Each reply packet is one message of
//! the pipe. All sizes are bounded: a packet by [`MAX_FRAGMENT`], the arguments of a call by [`MAX_CALL`],
//! its results and unread replies by [`MAX_REPLY`].

use super::fault::Fault;
use super::handles::Handles;
use super::host::Host;
use super::interface::PipeName;
use super::pdu::{
    BadPdu, Bind, BindAck, ContextResult, DID_NOT_EXECUTE, FIRST_FRAG, HEADER, Header, LAST_FRAG,
    MAX_CONTEXTS, NakReason, PacketType, PresentationContext, Request, SyntaxId, bind_nak, fault, response,
};
use std::collections::VecDeque;

/// The largest packet that the server accepts, in bytes. It offers [`OUR_FRAGMENT`].
pub const MAX_FRAGMENT: usize = 5840;
/// The packet size that the server offers, and its largest packet, in bytes. Windows uses the same.
pub const OUR_FRAGMENT: u16 = 4280;
/// The smallest packet size that a peer must accept, in bytes.
pub const LEAST_FRAGMENT: u16 = 1432;
/// The most bytes of arguments in one call.
pub const MAX_CALL: usize = 64 * 1024;
/// The most bytes of results of one call, and of unread replies.
pub const MAX_REPLY: usize = 1024 * 1024;

/// The reason why an operation on a pipe failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PipeError {
    /// There are unread replies: STATUS_PIPE_BUSY.
    #[error("replies wait to be read")]
    Busy,
    /// There is nothing to read: STATUS_PIPE_EMPTY.
    #[error("there is nothing to read")]
    Empty,
    /// The client violated the protocol, and the pipe cannot be used any more: STATUS_PIPE_DISCONNECTED.
    #[error("the pipe has been disconnected")]
    Disconnected,
}

/// A call with missing packets.
#[derive(Debug)]
struct Call {
    id: u32,
    context_id: u16,
    opnum: u16,
    stub: Vec<u8>,
}

/// The server end of an open pipe.
#[derive(Debug)]
pub struct Pipe {
    name: PipeName,
    /// The accepted contexts. All of them stand for the pipe's interface.
    contexts: Vec<u16>,
    is_bound: bool,
    max_send: u16,
    incoming: Vec<u8>,
    call: Option<Call>,
    replies: VecDeque<Vec<u8>>,
    /// The number of read bytes of the first reply.
    read: usize,
    queued: usize,
    handles: Handles,
    is_broken: bool,
}

impl Pipe {
    /// A new pipe.
    #[must_use]
    pub fn new(name: PipeName) -> Self {
        Pipe {
            name,
            contexts: Vec::new(),
            is_bound: false,
            max_send: LEAST_FRAGMENT,
            incoming: Vec::new(),
            call: None,
            replies: VecDeque::new(),
            read: 0,
            queued: 0,
            handles: Handles::default(),
            is_broken: false,
        }
    }

    /// The name of the pipe.
    #[must_use]
    pub fn name(&self) -> PipeName {
        self.name
    }

    /// The bytes that can be read.
    #[must_use]
    pub fn available(&self) -> usize {
        self.queued - self.read
    }

    /// The messages that can be read, and the remaining bytes of the first one.
    #[must_use]
    pub fn messages(&self) -> (usize, usize) {
        (self.replies.len(), self.replies.front().map_or(0, |reply| reply.len() - self.read))
    }

    /// Whether the client violated the protocol.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.is_broken
    }

    /// Takes bytes from the client and answers every call that they complete.
    ///
    /// # Errors
    /// [`PipeError::Busy`] if there is too much unread data; no byte was taken. [`PipeError::Disconnected`]
    /// if the pipe cannot be used any more. The packet that causes this still gets a reply, and that can be
    /// read.
    pub fn write(&mut self, data: &[u8], host: &dyn Host) -> Result<(), PipeError> {
        if self.is_broken {
            return Err(PipeError::Disconnected);
        }
        if self.queued >= MAX_REPLY {
            return Err(PipeError::Busy);
        }
        let mut rest = data;
        while !rest.is_empty() && !self.is_broken {
            if self.queued >= MAX_REPLY {
                // One write asked for more data than clients read.
                self.break_off();
                break;
            }
            rest = self.take(rest, host);
        }
        Ok(())
    }

    /// Appends at most `max` bytes of the next reply to `out`. Returns whether the same message has more
    /// bytes (STATUS_BUFFER_OVERFLOW).
    ///
    /// # Errors
    /// [`PipeError::Empty`] if there is no reply, [`PipeError::Disconnected`] if there will be none.
    pub fn read(&mut self, max: usize, out: &mut Vec<u8>) -> Result<bool, PipeError> {
        let Some(reply) = self.replies.front() else {
            return Err(if self.is_broken { PipeError::Disconnected } else { PipeError::Empty });
        };
        let end = reply.len().min(self.read.saturating_add(max));
        out.extend_from_slice(&reply[self.read..end]);
        if end < reply.len() {
            self.read = end;
            return Ok(true);
        }
        self.queued -= reply.len();
        self.read = 0;
        self.replies.pop_front();
        Ok(false)
    }

    /// Writes a message and reads the first reply: FSCTL_PIPE_TRANSCEIVE.
    ///
    /// # Errors
    /// [`PipeError::Busy`] if there are unread replies to earlier messages, [`PipeError::Empty`] if the
    /// message does not complete a call, [`PipeError::Disconnected`] if the pipe cannot be used any more.
    pub fn transact(
        &mut self,
        data: &[u8],
        host: &dyn Host,
        max: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, PipeError> {
        if !self.replies.is_empty() {
            return Err(PipeError::Busy);
        }
        self.write(data, host)?;
        self.read(max, out)
    }

    /// Takes bytes up to the end of one packet. Returns the bytes after it.
    fn take<'a>(&mut self, data: &'a [u8], host: &dyn Host) -> &'a [u8] {
        let wanted = self.wanted();
        let (now, rest) = data.split_at(wanted.min(data.len()));
        self.incoming.extend_from_slice(now);
        if self.incoming.len() < HEADER || self.is_broken {
            return rest;
        }
        match Header::parse(&self.incoming) {
            Err(bad) => self.refuse_header(bad),
            Ok(header) => {
                let length = usize::from(header.frag_length);
                if length > MAX_FRAGMENT {
                    self.break_off();
                } else if self.incoming.len() == length {
                    let packet = std::mem::take(&mut self.incoming);
                    self.packet(&header, &packet[HEADER..], host);
                }
            }
        }
        rest
    }

    /// The number of missing bytes of the header, or then of the packet.
    fn wanted(&self) -> usize {
        let have = self.incoming.len();
        let Some(length) = self.incoming.get(8..10).filter(|_| have >= HEADER) else {
            return HEADER - have;
        };
        usize::from(u16::from_le_bytes([length[0], length[1]])).saturating_sub(have)
    }

    fn refuse_header(&mut self, bad: BadPdu) {
        let is_bind = self.incoming[2] == PacketType::BIND.0;
        if bad == BadPdu::Version && is_bind {
            let call_id = u32::from_le_bytes([
                self.incoming[12],
                self.incoming[13],
                self.incoming[14],
                self.incoming[15],
            ]);
            self.reply(bind_nak(call_id, NakReason::ProtocolVersionNotSupported));
        }
        self.break_off();
    }

    /// Ends the use of the pipe.
    fn break_off(&mut self) {
        self.is_broken = true;
        self.incoming = Vec::new();
        self.call = None;
    }

    fn reply(&mut self, packet: Vec<u8>) {
        self.queued += packet.len();
        self.replies.push_back(packet);
    }

    fn packet(&mut self, header: &Header, body: &[u8], host: &dyn Host) {
        match header.kind {
            PacketType::BIND => self.bind(header, body),
            PacketType::ALTER_CONTEXT => self.alter_context(header, body),
            PacketType::REQUEST => self.request(header, body, host),
            // There is no authentication to finish.
            PacketType::AUTH3 => {}
            PacketType::CO_CANCEL | PacketType::ORPHANED => {
                self.call.take_if(|call| call.id == header.call_id);
            }
            _ => self.break_off(),
        }
    }

    fn bind(&mut self, header: &Header, body: &[u8]) {
        if header.auth_length != 0 {
            // MS-RPCE 2.2.2.5 (exception: the SMB session identifies callers, without a second log-on)
            return self.reply(bind_nak(header.call_id, NakReason::AuthenticationTypeNotRecognized));
        }
        let Ok(bind) = Bind::parse(body) else {
            self.reply(bind_nak(header.call_id, NakReason::NotSpecified));
            return self.break_off();
        };
        if self.is_bound {
            self.reply(bind_nak(header.call_id, NakReason::NotSpecified));
            return self.break_off();
        }
        self.is_bound = true;
        self.max_send = bind.max_recv_frag.clamp(LEAST_FRAGMENT, OUR_FRAGMENT);
        self.acknowledge(PacketType::BIND_ACK, header.call_id, &bind, self.name.address());
    }

    fn alter_context(&mut self, header: &Header, body: &[u8]) {
        let bind = Bind::parse(body);
        let (true, 0, Ok(bind)) = (self.is_bound, header.auth_length, bind) else {
            self.reply(fault(header.call_id, 0, Fault::PROTO_ERROR.0, DID_NOT_EXECUTE));
            return self.break_off();
        };
        self.acknowledge(PacketType::ALTER_CONTEXT_RESP, header.call_id, &bind, "");
    }

    fn acknowledge(&mut self, kind: PacketType, call_id: u32, bind: &Bind, address: &str) {
        let results = bind.contexts.iter().map(|context| self.accept(context)).collect();
        let ack = BindAck {
            max_xmit_frag: self.max_send,
            max_recv_frag: OUR_FRAGMENT,
            // Groups have no meaning between pipes here. A client only expects a number.
            assoc_group: if bind.assoc_group == 0 { 1 } else { bind.assoc_group },
            address,
            results,
        };
        self.reply(ack.packet(kind, call_id));
    }

    /// Decides on one context.
    fn accept(&mut self, context: &PresentationContext) -> ContextResult {
        let wanted = self.name.interface().syntax();
        if context.transfer.iter().any(SyntaxId::is_feature_negotiation) {
            ContextResult::NO_FEATURES
        } else if context.interface != wanted {
            ContextResult::NO_INTERFACE
        } else if !context.transfer.contains(&SyntaxId::NDR) {
            ContextResult::NO_TRANSFER
        } else if self.contexts.contains(&context.id) {
            ContextResult::ACCEPTED
        } else if self.contexts.len() >= MAX_CONTEXTS {
            ContextResult::LIMIT
        } else {
            self.contexts.push(context.id);
            ContextResult::ACCEPTED
        }
    }

    fn request(&mut self, header: &Header, body: &[u8], host: &dyn Host) {
        let Ok(request) = Request::parse(header, body) else {
            return self.fail_for_good(header.call_id, 0, Fault::PROTO_ERROR);
        };
        if header.auth_length != 0 {
            return self.fail_for_good(header.call_id, request.context_id, Fault::ACCESS_DENIED);
        }
        let is_first = header.flags & FIRST_FRAG != 0;
        let mut call = match (self.call.take(), is_first) {
            (None, true) => Call {
                id: header.call_id,
                context_id: request.context_id,
                opnum: request.opnum,
                stub: Vec::new(),
            },
            (Some(call), false) if call.id == header.call_id && call.opnum == request.opnum => call,
            _ => return self.fail_for_good(header.call_id, request.context_id, Fault::PROTO_ERROR),
        };
        if call.stub.len() + request.stub.len() > MAX_CALL {
            return self.fail_for_good(header.call_id, call.context_id, Fault::REMOTE_NO_MEMORY);
        }
        call.stub.extend_from_slice(request.stub);
        if header.flags & LAST_FRAG == 0 {
            self.call = Some(call);
        } else {
            self.answer(&call, host);
        }
    }

    /// Sends a fault and ends the use of the pipe.
    fn fail_for_good(&mut self, call_id: u32, context_id: u16, why: Fault) {
        self.reply(fault(call_id, context_id, why.0, DID_NOT_EXECUTE));
        self.break_off();
    }

    fn answer(&mut self, call: &Call, host: &dyn Host) {
        if !self.contexts.contains(&call.context_id) {
            return self.reply(fault(call.id, call.context_id, Fault::UNK_IF.0, DID_NOT_EXECUTE));
        }
        let interface = self.name.interface();
        let result = match interface.call(call.opnum, &call.stub, host, &mut self.handles) {
            Ok(stub) if stub.len() > MAX_REPLY => Err(Fault::OUT_ARGS_TOO_BIG),
            result => result,
        };
        match result {
            Ok(stub) => {
                for packet in response(call.id, call.context_id, &stub, self.max_send) {
                    self.reply(packet);
                }
            }
            Err(why) => self.reply(fault(call.id, call.context_id, why.0, 0)),
        }
    }
}
