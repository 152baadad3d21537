//! LOCK: locks or unlocks byte ranges of a file (MS-SMB2 2.2.26 and 2.2.27).

use crate::id::FileId;
use crate::list::{Element, WireList};
use crate::macros::wire_flags;
use crate::malformed::Malformed;
use crate::reader::FieldReader;
use wire::Writer;

wire_flags! {
    /// The operation on a range (MS-SMB2 2.2.26.1).
    pub struct LockFlags: u32 {
        SHARED_LOCK = 0x0000_0001,
        EXCLUSIVE_LOCK = 0x0000_0002,
        UNLOCK = 0x0000_0004,
        FAIL_IMMEDIATELY = 0x0000_0010,
    }
}

/// One range (MS-SMB2 2.2.26.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockElement {
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The operation.
    pub flags: LockFlags,
}

impl Element for LockElement {
    const SIZE: usize = 24;

    fn read(bytes: &[u8]) -> Self {
        let number = |at: usize| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(raw)
        };
        LockElement {
            offset: number(0),
            length: number(8),
            flags: LockFlags::from_bits_retain(number(16) as u32),
        }
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u64_le(self.offset);
        w.u64_le(self.length);
        w.u32_le(self.flags.bits());
        w.u32_le(0);
    }
}

/// LOCK request (MS-SMB2 2.2.26).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Tells a replay from a new request: 0 to 15. It is not used in 2.0.2.
    pub lock_sequence_number: u8,
    /// The slot of the sequence number: 1 to 64, or zero for none. The field has 28 bits.
    pub lock_sequence_index: u32,
    /// The Open.
    pub file_id: FileId,
    /// The ranges.
    pub locks: WireList<'a, LockElement>,
}

impl<'a> Request<'a> {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing, or there is no range.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        // The size includes the first element.
        let mut r = FieldReader::body(message, "LOCK request", 48)?;
        let count = r.u16("LockCount")?;
        let sequence = r.u32("LockSequence")?;
        let file_id = r.file_id("FileId")?;
        // MS-SMB2 3.3.5.14
        if count == 0 {
            return Err(r.wrong("LockCount"));
        }
        let locks = WireList::Wire(r.bytes(usize::from(count) * LockElement::SIZE, "Locks")?);
        Ok(Request {
            lock_sequence_number: (sequence & 0xf) as u8,
            lock_sequence_index: sequence >> 4,
            file_id,
            locks,
        })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(48);
        w.u16_le(self.locks.len() as u16);
        w.u32_le(u32::from(self.lock_sequence_number & 0xf) | (self.lock_sequence_index << 4));
        self.file_id.write(&mut w);
        self.locks.write(&mut w);
    }

    /// The bytes that count for the credit charge: none.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        0
    }
}

/// LOCK response (MS-SMB2 2.2.27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response;

impl Response {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if the body is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        FieldReader::body(message, "LOCK response", 4).map(|_| Response)
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(4);
        w.u16_le(0);
    }
}
