//! SERVER_TO_CLIENT_NOTIFICATION: a message of the server that needs no response (MS-SMB2 2.2.44).

use crate::macros::wire_enum;
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use wire::Writer;

wire_enum! {
    /// The type of the notification (MS-SMB2 2.2.44.1).
    pub enum NotificationType: u32 {
        /// The session in the header is closed.
        SessionClosed = 0x0000_0000,
    }
}

/// The notification. Its header has a MessageId with all bits set, and the id of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// The type. No known type has more fields.
    pub notification_type: NotificationType,
}

const SIZE: u16 = 12;

impl Notification {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(message, "SERVER_TO_CLIENT_NOTIFICATION");
        r.skip(HEADER, "header")?;
        // The size depends on the type, and MS-SMB2 4.11 shows a wrong size for its own example.
        r.skip(4, "StructureSize")?;
        Ok(Notification { notification_type: r.u32("NotificationType")?.into() })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(SIZE);
        w.u16_le(0);
        w.u32_le(self.notification_type.get());
        w.u32_le(0);
    }
}
