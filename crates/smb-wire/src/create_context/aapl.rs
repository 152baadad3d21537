//! The AAPL create context: the query that macOS sends when it opens a share.
//!
//! There is no public specification. The layout is the one that macOS and its servers use.

use crate::macros::{wire_enum, wire_flags};
use crate::malformed::Malformed;
use crate::reader::FieldReader;
use crate::status::NtStatus;
use crate::utf16::Utf16;
use wire::Writer;

const STRUCTURE: &str = "AAPL create context";

wire_enum! {
    /// The command of the context.
    pub enum AaplCommand: u32 {
        ServerQuery = 0x0000_0001,
        ResolveId = 0x0000_0002,
    }
}

wire_flags! {
    /// The parts of a server query and of its response.
    pub struct QueryBitmap: u64 {
        SERVER_CAPS = 0x0000_0001,
        VOLUME_CAPS = 0x0000_0002,
        MODEL_INFO = 0x0000_0004,
    }
}

wire_flags! {
    /// The capabilities of a client or server.
    pub struct ServerCaps: u64 {
        /// Directory entries have access, resource fork length and Finder information.
        READ_DIR_ATTR = 0x0000_0001,
        /// FSCTL_SRV_COPYCHUNK copies a whole file with its streams.
        OSX_COPYFILE = 0x0000_0002,
        /// The server is based on UNIX.
        UNIX_BASED = 0x0000_0004,
        /// ACEs have file modes.
        NFS_ACE = 0x0000_0008,
    }
}

wire_flags! {
    /// The capabilities of a volume.
    pub struct VolumeCaps: u64 {
        RESOLVE_ID = 0x0000_0001,
        CASE_SENSITIVE = 0x0000_0002,
        FULL_SYNC = 0x0000_0004,
    }
}

/// The context of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Queries the capabilities of server and volume.
    ServerQuery {
        /// The requested parts.
        bitmap: QueryBitmap,
        /// The capabilities of the client.
        client_caps: ServerCaps,
    },
    /// Asks for the path of a file with this id.
    ResolveId {
        /// The file.
        file_id: u64,
    },
    /// An unknown command, to be ignored.
    Unknown(u32),
}

impl Request {
    /// Parses the data of the context.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(data, STRUCTURE);
        let command = AaplCommand::new(r.u32("Command")?);
        r.skip(4, "Reserved")?;
        Ok(match command {
            AaplCommand::ServerQuery => Request::ServerQuery {
                bitmap: QueryBitmap::from_bits_retain(r.u64("RequestBitmap")?),
                client_caps: ServerCaps::from_bits_retain(r.u64("ClientCapabilities")?),
            },
            AaplCommand::ResolveId => Request::ResolveId { file_id: r.u64("FileId")? },
            AaplCommand::Unknown(command) => Request::Unknown(command),
        })
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        match *self {
            Request::ServerQuery { bitmap, client_caps } => {
                command(w, AaplCommand::ServerQuery);
                w.u64_le(bitmap.bits());
                w.u64_le(client_caps.bits());
            }
            Request::ResolveId { file_id } => {
                command(w, AaplCommand::ResolveId);
                w.u64_le(file_id);
            }
            Request::Unknown(number) => command(w, AaplCommand::Unknown(number)),
        }
    }
}

/// The command and its reserved bytes.
fn command(w: &mut Writer<'_>, command: AaplCommand) {
    w.u32_le(command.get());
    w.u32_le(0);
}

/// The context of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response<'a> {
    /// The capabilities of server and volume. The bitmap in the response says which fields it has.
    ServerQuery {
        /// The capabilities of the server.
        server_caps: Option<ServerCaps>,
        /// The capabilities of the volume.
        volume_caps: Option<VolumeCaps>,
        /// The model of the server. Finder chooses an icon by it.
        model: Option<Utf16<'a>>,
    },
    /// The path of a file.
    ResolveId {
        /// Whether `path` is valid.
        status: NtStatus,
        /// The path from the share's root.
        path: Utf16<'a>,
    },
    /// An unknown command.
    Unknown(u32),
}

impl<'a> Response<'a> {
    /// Parses the data of the context.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or a string is longer than the data.
    pub fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(data, STRUCTURE);
        let command = AaplCommand::new(r.u32("Command")?);
        r.skip(4, "Reserved")?;
        match command {
            AaplCommand::ServerQuery => Self::parse_server_query(r),
            AaplCommand::ResolveId => {
                let status = NtStatus(r.u32("Status")?);
                Ok(Response::ResolveId { status, path: string(&mut r)? })
            }
            AaplCommand::Unknown(command) => Ok(Response::Unknown(command)),
        }
    }

    fn parse_server_query(mut r: FieldReader<'a>) -> Result<Self, Malformed> {
        let bitmap = QueryBitmap::from_bits_retain(r.u64("ReplyBitmap")?);
        let mut server_caps = None;
        let mut volume_caps = None;
        let mut model = None;
        if bitmap.contains(QueryBitmap::SERVER_CAPS) {
            server_caps = Some(ServerCaps::from_bits_retain(r.u64("ServerCapabilities")?));
        }
        if bitmap.contains(QueryBitmap::VOLUME_CAPS) {
            volume_caps = Some(VolumeCaps::from_bits_retain(r.u64("VolumeCapabilities")?));
        }
        if bitmap.contains(QueryBitmap::MODEL_INFO) {
            r.skip(4, "Padding")?;
            model = Some(string(&mut r)?);
        }
        Ok(Response::ServerQuery { server_caps, volume_caps, model })
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        match self {
            Response::ServerQuery { server_caps, volume_caps, model } => {
                let mut bitmap = QueryBitmap::empty();
                bitmap.set(QueryBitmap::SERVER_CAPS, server_caps.is_some());
                bitmap.set(QueryBitmap::VOLUME_CAPS, volume_caps.is_some());
                bitmap.set(QueryBitmap::MODEL_INFO, model.is_some());
                command(w, AaplCommand::ServerQuery);
                w.u64_le(bitmap.bits());
                server_caps.iter().for_each(|caps| w.u64_le(caps.bits()));
                volume_caps.iter().for_each(|caps| w.u64_le(caps.bits()));
                if let Some(model) = model {
                    w.u32_le(0);
                    w.u32_le(model.as_bytes().len() as u32);
                    w.bytes(model.as_bytes());
                }
            }
            Response::ResolveId { status, path } => {
                command(w, AaplCommand::ResolveId);
                w.u32_le(status.0);
                w.u32_le(path.as_bytes().len() as u32);
                w.bytes(path.as_bytes());
            }
            Response::Unknown(number) => command(w, AaplCommand::Unknown(*number)),
        }
    }
}

/// A 32-bit length in bytes with a text of that length.
fn string<'a>(r: &mut FieldReader<'a>) -> Result<Utf16<'a>, Malformed> {
    let length = r.u32("length of a string")? as usize;
    let bytes = r.bytes(length, "string")?;
    Utf16::new(bytes).ok_or(r.wrong("string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The context that macOS sends when it opens a share. It requests all parts and claims all
    /// capabilities.
    const MACOS: [u8; 24] = [1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn a_server_query_is_read_and_written() {
        let request = Request::parse(&MACOS).unwrap();
        let Request::ServerQuery { bitmap, client_caps } = request else { panic!("{request:?}") };
        assert!(bitmap.contains(QueryBitmap::MODEL_INFO));
        assert!(client_caps.contains(ServerCaps::UNIX_BASED) && !client_caps.contains(ServerCaps::NFS_ACE));
        let mut out = Vec::new();
        request.write(&mut Writer::new(&mut out));
        assert_eq!(out, MACOS);
    }

    #[test]
    fn an_answer_holds_what_its_bitmap_says() {
        let model = crate::utf16::encode("MacSamba");
        let response = Response::ServerQuery {
            server_caps: None,
            volume_caps: Some(VolumeCaps::FULL_SYNC),
            model: Utf16::new(&model),
        };
        let mut out = Vec::new();
        response.write(&mut Writer::new(&mut out));
        assert_eq!(out[8], 6);
        assert_eq!(out.len(), 16 + 8 + 8 + 16);
        assert_eq!(Response::parse(&out), Ok(response));
        assert_eq!(Response::parse(&out[..40]).unwrap_err().field, "string");
    }
}
