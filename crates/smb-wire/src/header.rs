//! The SMB2 header before every message (MS-SMB2 2.2.1), and the kinds of frames.
//!
//! [`Packet::classify`] looks at the first bytes of a frame. [`Header`] is a view of the first 64 bytes of a
//! message, without a copy. [`transform`] has the headers of sealed and compressed frames. [`smb1`] has the
//! one supported SMB1 message. [`Chain`] splits a compound.

use crate::macros::{wire_enum, wire_flags};
use crate::malformed::Malformed;
use crate::status::NtStatus;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

mod chain;
pub mod smb1;
pub mod transform;

pub use chain::Chain;

/// The size of the header, in bytes.
pub const SIZE: usize = 64;

/// The first four bytes of a plain message.
pub const PROTOCOL_ID: [u8; 4] = *b"\xfeSMB";

wire_enum! {
    /// The command of a message (MS-SMB2 2.2.1).
    pub enum SmbCommand: u16 {
        Negotiate = 0x0000,
        SessionSetup = 0x0001,
        Logoff = 0x0002,
        TreeConnect = 0x0003,
        TreeDisconnect = 0x0004,
        Create = 0x0005,
        Close = 0x0006,
        Flush = 0x0007,
        Read = 0x0008,
        Write = 0x0009,
        Lock = 0x000a,
        Ioctl = 0x000b,
        Cancel = 0x000c,
        Echo = 0x000d,
        QueryDirectory = 0x000e,
        ChangeNotify = 0x000f,
        QueryInfo = 0x0010,
        SetInfo = 0x0011,
        OplockBreak = 0x0012,
        ServerToClientNotification = 0x0013,
    }
}

wire_flags! {
    /// The flags of a message (MS-SMB2 2.2.1). [`Flags::PRIORITY_MASK`] holds a number of 0 to 7.
    pub struct Flags: u32 {
        /// The message is a response.
        SERVER_TO_REDIR = 0x0000_0001,
        /// The header has an AsyncId instead of the TreeId.
        ASYNC_COMMAND = 0x0000_0002,
        /// The operation is related to the previous one in the compound.
        RELATED_OPERATIONS = 0x0000_0004,
        /// The message is signed.
        SIGNED = 0x0000_0008,
        /// The requested I/O priority (3.1.1).
        PRIORITY_MASK = 0x0000_0070,
        /// The path of a CREATE is a DFS path.
        DFS_OPERATIONS = 0x1000_0000,
        /// The request is a replay (3.x).
        REPLAY_OPERATION = 0x2000_0000,
    }
}

/// The kind of a frame, from its first four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet {
    /// One or more SMB2 messages.
    Smb2,
    /// An SMB1 message. Only its NEGOTIATE is supported.
    Smb1,
    /// A sealed frame: [`transform::TransformHeader`].
    Transform,
    /// A compressed frame: [`transform::CompressionHeader`].
    Compressed,
}

impl Packet {
    /// The kind of `frame`, or `None` if it is not SMB.
    #[inline]
    #[must_use]
    pub fn classify(frame: &[u8]) -> Option<Packet> {
        match *frame.first_chunk::<4>()? {
            PROTOCOL_ID => Some(Packet::Smb2),
            smb1::PROTOCOL_ID => Some(Packet::Smb1),
            transform::PROTOCOL_ID => Some(Packet::Transform),
            transform::COMPRESSION_PROTOCOL_ID => Some(Packet::Compressed),
            _ => None,
        }
    }
}

/// The 64 bytes before a message, as they are in the frame.
///
/// ```
/// use smb_wire::{SmbCommand, Header};
/// let mut frame = Vec::new();
/// Header::request(SmbCommand::Echo, 7).push(&mut frame);
/// assert_eq!(Header::parse(&frame).unwrap().message_id(), 7);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    protocol_id: [u8; 4],
    structure_size: U16,
    credit_charge: U16,
    status: U32,
    command: U16,
    credits: U16,
    flags: U32,
    next_command: U32,
    message_id: U64,
    /// Reserved (clients put a process id there), or the low half of the AsyncId.
    process_id: U32,
    /// TreeId, or the high half of the AsyncId.
    tree_id: U32,
    session_id: U64,
    signature: [u8; 16],
}

const _: () = assert!(size_of::<Header>() == SIZE);

impl Header {
    /// A request for `command` that charges and requests one credit. The other fields are zero.
    #[must_use]
    pub fn request(command: SmbCommand, message_id: u64) -> Self {
        Header {
            protocol_id: PROTOCOL_ID,
            structure_size: U16::new(SIZE as u16),
            credit_charge: U16::new(1),
            status: U32::ZERO,
            command: U16::new(command.get()),
            credits: U16::new(1),
            flags: U32::ZERO,
            next_command: U32::ZERO,
            message_id: U64::new(message_id),
            process_id: U32::ZERO,
            tree_id: U32::ZERO,
            session_id: U64::ZERO,
            signature: [0; 16],
        }
    }

    /// The response to `request` with its command, charge and ids. It is unsigned, not in a compound, and
    /// grants no credits.
    #[must_use]
    pub fn response_to(request: &Header, status: NtStatus) -> Self {
        let kept = Flags::RELATED_OPERATIONS | Flags::PRIORITY_MASK | Flags::REPLAY_OPERATION;
        let mut response = *request;
        response.status.set(status.0);
        response.credits = U16::ZERO;
        response.next_command = U32::ZERO;
        response.signature = [0; 16];
        response.set_flags((request.flags() & kept) | Flags::SERVER_TO_REDIR);
        if request.is_async() {
            response.process_id = U32::ZERO;
            response.tree_id = U32::ZERO;
        }
        response
    }

    /// A message without a request: an oplock or lease break notification. Its MessageId has all bits set
    /// (MS-SMB2 3.3.4.6).
    #[must_use]
    pub fn notification(command: SmbCommand) -> Self {
        let mut header = Header::request(command, u64::MAX);
        header.credit_charge = U16::ZERO;
        header.credits = U16::ZERO;
        header.set_flags(Flags::SERVER_TO_REDIR);
        header
    }

    /// The header at the start of `message`.
    ///
    /// # Errors
    /// [`Malformed`] if there are fewer than 64 bytes, or the protocol id or structure size is wrong.
    #[inline]
    pub fn parse(message: &[u8]) -> Result<&Header, Malformed> {
        let (header, _) =
            Header::ref_from_prefix(message).map_err(|_| Malformed::new("SMB2 header", "length"))?;
        header.check()?;
        Ok(header)
    }

    /// The header at the start of `message`, for changes in place.
    ///
    /// # Errors
    /// As [`Header::parse`].
    #[inline]
    pub fn parse_mut(message: &mut [u8]) -> Result<&mut Header, Malformed> {
        let (header, _) =
            Header::mut_from_prefix(message).map_err(|_| Malformed::new("SMB2 header", "length"))?;
        header.check()?;
        Ok(header)
    }

    #[inline]
    fn check(&self) -> Result<(), Malformed> {
        if self.protocol_id != PROTOCOL_ID {
            return Err(Malformed::new("SMB2 header", "ProtocolId"));
        }
        if self.structure_size.get() != SIZE as u16 {
            return Err(Malformed::new("SMB2 header", "StructureSize"));
        }
        Ok(())
    }

    /// Writes the header into 64 bytes of a frame.
    #[inline]
    pub fn write(&self, header_bytes: &mut [u8; SIZE]) {
        header_bytes.copy_from_slice(self.as_bytes());
    }

    /// Appends the header.
    #[inline]
    pub fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    /// The number of credits that the request uses. Zero means one.
    #[inline]
    #[must_use]
    pub fn credit_charge(&self) -> u16 {
        self.credit_charge.get()
    }

    /// The status of a response.
    #[inline]
    #[must_use]
    pub fn status(&self) -> NtStatus {
        NtStatus(self.status.get())
    }

    /// The channel sequence number of an SMB 3.x request. It is in the low half of the status.
    #[inline]
    #[must_use]
    pub fn channel_sequence(&self) -> u16 {
        self.status.get() as u16
    }

    /// The command.
    #[inline]
    #[must_use]
    pub fn command(&self) -> SmbCommand {
        SmbCommand::new(self.command.get())
    }

    /// The credits that a request asks for, or that a response grants.
    #[inline]
    #[must_use]
    pub fn credits(&self) -> u16 {
        self.credits.get()
    }

    /// The flags.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> Flags {
        Flags::from_bits_retain(self.flags.get())
    }

    /// Offset from this header to the next one in the compound, or zero in the last one.
    #[inline]
    #[must_use]
    pub fn next_command(&self) -> u32 {
        self.next_command.get()
    }

    /// The message id.
    #[inline]
    #[must_use]
    pub fn message_id(&self) -> u64 {
        self.message_id.get()
    }

    /// The reserved field, which clients use for a process id. It has no meaning in an asynchronous message.
    #[inline]
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process_id.get()
    }

    /// The tree id. It has no meaning in an asynchronous message.
    #[inline]
    #[must_use]
    pub fn tree_id(&self) -> u32 {
        self.tree_id.get()
    }

    /// The async id. Only an asynchronous message has one.
    #[inline]
    #[must_use]
    pub fn async_id(&self) -> u64 {
        u64::from(self.process_id.get()) | (u64::from(self.tree_id.get()) << 32)
    }

    /// The session id.
    #[inline]
    #[must_use]
    pub fn session_id(&self) -> u64 {
        self.session_id.get()
    }

    /// The signature.
    #[inline]
    #[must_use]
    pub fn signature(&self) -> &[u8; 16] {
        &self.signature
    }

    /// Whether this is a response.
    #[inline]
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.flags().contains(Flags::SERVER_TO_REDIR)
    }

    /// Whether the header has an AsyncId instead of the TreeId.
    #[inline]
    #[must_use]
    pub fn is_async(&self) -> bool {
        self.flags().contains(Flags::ASYNC_COMMAND)
    }

    /// Whether the operation is related to the previous one.
    #[inline]
    #[must_use]
    pub fn is_related(&self) -> bool {
        self.flags().contains(Flags::RELATED_OPERATIONS)
    }

    /// Whether the message has the flag for a signature.
    #[inline]
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.flags().contains(Flags::SIGNED)
    }

    /// The requested I/O priority, 0 to 7 (3.1.1).
    #[inline]
    #[must_use]
    pub fn priority(&self) -> u8 {
        ((self.flags.get() & Flags::PRIORITY_MASK.bits()) >> 4) as u8
    }

    /// Sets the credit charge.
    #[inline]
    pub fn set_credit_charge(&mut self, charge: u16) {
        self.credit_charge.set(charge);
    }

    /// Sets the status of a response.
    #[inline]
    pub fn set_status(&mut self, status: NtStatus) {
        self.status.set(status.0);
    }

    /// Sets the channel sequence number of a request.
    #[inline]
    pub fn set_channel_sequence(&mut self, sequence: u16) {
        self.status.set(u32::from(sequence));
    }

    /// Sets the requested or granted credits.
    #[inline]
    pub fn set_credits(&mut self, credits: u16) {
        self.credits.set(credits);
    }

    /// Replaces the flags.
    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.flags.set(flags.bits());
    }

    /// Sets the offset of the next header in the compound.
    #[inline]
    pub fn set_next_command(&mut self, offset: u32) {
        self.next_command.set(offset);
    }

    /// Sets the message id.
    #[inline]
    pub fn set_message_id(&mut self, message_id: u64) {
        self.message_id.set(message_id);
    }

    /// Sets the tree id and makes the header synchronous.
    #[inline]
    pub fn set_tree_id(&mut self, tree_id: u32) {
        self.set_flags(self.flags() - Flags::ASYNC_COMMAND);
        self.tree_id.set(tree_id);
    }

    /// Sets the async id and makes the header asynchronous.
    #[inline]
    pub fn set_async_id(&mut self, async_id: u64) {
        self.set_flags(self.flags() | Flags::ASYNC_COMMAND);
        self.process_id.set(async_id as u32);
        self.tree_id.set((async_id >> 32) as u32);
    }

    /// Sets the reserved field of a synchronous header, which clients use for a process id.
    #[inline]
    pub fn set_process_id(&mut self, process_id: u32) {
        self.process_id.set(process_id);
    }

    /// Sets the session id.
    #[inline]
    pub fn set_session_id(&mut self, session_id: u64) {
        self.session_id.set(session_id);
    }

    /// Sets the signature.
    #[inline]
    pub fn set_signature(&mut self, signature: [u8; 16]) {
        self.signature = signature;
    }
}
