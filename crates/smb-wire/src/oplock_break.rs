//! OPLOCK_BREAK: breaks an oplock or a lease (MS-SMB2 2.2.23, 2.2.24 and 2.2.25).
//!
//! The server sends a notification without a request. The client acknowledges it with a request, and the
//! server sends a response. Oplocks and leases share the command. The structure size tells them apart.

use crate::create::OplockLevel;
use crate::create_context::LeaseState;
use crate::id::{FileId, LeaseKey};
use crate::macros::wire_flags;
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use wire::Writer;

const OPLOCK_SIZE: u16 = 24;
const LEASE_SIZE: u16 = 36;
const LEASE_NOTIFICATION_SIZE: u16 = 44;

wire_flags! {
    /// Flags of a lease break notification (MS-SMB2 2.2.23.2).
    pub struct NotificationFlags: u32 {
        ACK_REQUIRED = 0x0000_0001,
    }
}

/// An oplock and its level. Notification, acknowledgment and response have the same fields (MS-SMB2
/// 2.2.23.1, 2.2.24.1, 2.2.25.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oplock {
    /// The remaining level.
    pub oplock_level: OplockLevel,
    /// The Open.
    pub file_id: FileId,
}

impl Oplock {
    fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "OPLOCK_BREAK", OPLOCK_SIZE)?;
        let oplock_level = OplockLevel::new(r.u8("OplockLevel")?);
        r.skip(5, "Reserved")?;
        Ok(Oplock { oplock_level, file_id: r.file_id("FileId")? })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(OPLOCK_SIZE);
        w.u8(self.oplock_level.get());
        w.zeros(5);
        self.file_id.write(&mut w);
    }
}

/// A lease and its state. Acknowledgment and response have the same fields (MS-SMB2 2.2.24.2, 2.2.25.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcknowledgedLease {
    /// The key of the lease.
    pub key: LeaseKey,
    /// The remaining rights.
    pub state: LeaseState,
}

impl AcknowledgedLease {
    fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "OPLOCK_BREAK (lease)", LEASE_SIZE)?;
        r.skip(6, "Flags")?;
        let key = LeaseKey(r.array("LeaseKey")?);
        Ok(AcknowledgedLease { key, state: LeaseState::from_bits_retain(r.u32("LeaseState")?) })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(LEASE_SIZE);
        w.zeros(6);
        w.bytes(&self.key.0);
        w.u32_le(self.state.bits());
        w.u64_le(0);
    }
}

/// The structure size of a body. It tells oplocks and leases apart.
fn size(message: &[u8]) -> Result<u16, Malformed> {
    let mut r = FieldReader::new(message, "OPLOCK_BREAK");
    r.skip(HEADER, "header")?;
    r.u16("StructureSize")
}

/// The server's notification that it breaks an oplock or a lease (MS-SMB2 2.2.23).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notification {
    /// An oplock.
    Oplock(Oplock),
    /// A lease.
    Lease {
        /// The number of changes of the lease's state (3.x), or zero in 2.1.
        new_epoch: u16,
        /// Whether an acknowledgment is required.
        flags: NotificationFlags,
        /// The key of the lease.
        key: LeaseKey,
        /// The rights so far.
        current_state: LeaseState,
        /// The remaining rights.
        new_state: LeaseState,
    },
}

impl Notification {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        if size(message)? == OPLOCK_SIZE {
            return Oplock::parse(message).map(Notification::Oplock);
        }
        let mut r = FieldReader::body(message, "OPLOCK_BREAK (lease) notification", LEASE_NOTIFICATION_SIZE)?;
        Ok(Notification::Lease {
            new_epoch: r.u16("NewEpoch")?,
            flags: NotificationFlags::from_bits_retain(r.u32("Flags")?),
            key: LeaseKey(r.array("LeaseKey")?),
            current_state: LeaseState::from_bits_retain(r.u32("CurrentLeaseState")?),
            new_state: LeaseState::from_bits_retain(r.u32("NewLeaseState")?),
        })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Notification::Oplock(oplock) => oplock.write(out),
            Notification::Lease { new_epoch, flags, key, current_state, new_state } => {
                let mut w = Writer::new(out);
                w.u16_le(LEASE_NOTIFICATION_SIZE);
                w.u16_le(*new_epoch);
                w.u32_le(flags.bits());
                w.bytes(&key.0);
                w.u32_le(current_state.bits());
                w.u32_le(new_state.bits());
                w.zeros(12);
            }
        }
    }
}

macro_rules! answer {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            /// The acknowledgment of an oplock break.
            Oplock(Oplock),
            /// The acknowledgment of a lease break.
            Lease(AcknowledgedLease),
        }

        impl $name {
            /// Parses a message from its header on.
            ///
            /// # Errors
            /// [`Malformed`] if a field is missing.
            pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
                if size(message)? == LEASE_SIZE {
                    AcknowledgedLease::parse(message).map($name::Lease)
                } else {
                    Oplock::parse(message).map($name::Oplock)
                }
            }

            /// Appends the body.
            pub fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $name::Oplock(oplock) => oplock.write(out),
                    $name::Lease(lease) => lease.write(out),
                }
            }
        }
    };
}

answer! {
    /// The client's acknowledgment of a notification (MS-SMB2 2.2.24).
    Request
}

answer! {
    /// The server's response to an acknowledgment (MS-SMB2 2.2.25).
    Response
}

impl Request {
    /// The bytes that count for the credit charge: none.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        0
    }
}
