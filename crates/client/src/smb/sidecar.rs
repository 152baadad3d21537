//! The sidecar data of a file or directory: its security descriptor, extended attributes and named streams.

use smb_wire::fscc::ea::{self, FullEa};
use smb_wire::fscc::{FileInfoClass, file};
use smb_wire::query_info::{InfoType, SecurityInformation};
use smb_wire::{Malformed, NtStatus, Utf16};

use crate::Error;
use crate::error::Result;
use crate::smb::File;

/// The most bytes of one query. It costs one credit.
const ROOM: u32 = 64 * 1024;

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedAttribute {
    /// Its name in ASCII, without regard to case.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// A named stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its name, as it follows the file's name and a colon.
    pub name: String,
    /// The size of its data in bytes.
    pub size: u64,
}

impl File {
    /// Reads the parts `parts` of the security descriptor, in the self-relative form of MS-DTYP 2.4.6. The
    /// file must be open with the right to read them.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn security(&self, parts: SecurityInformation) -> Result<Vec<u8>> {
        self.query_with(InfoType::Security, 0, parts.bits(), ROOM).await
    }

    /// Sets these parts of the security descriptor.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn set_security(&self, parts: SecurityInformation, descriptor: &[u8]) -> Result<()> {
        self.set_with(InfoType::Security, 0, parts.bits(), descriptor).await
    }

    /// Reads all extended attributes.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses or has more of them than fit in 64 KiB.
    pub async fn extended_attributes(&self) -> Result<Vec<ExtendedAttribute>> {
        let asked = self.query(InfoType::File, FileInfoClass::FULL_EA.0, ROOM).await;
        let list = match asked {
            Err(Error::Status { status: NtStatus::NO_EAS_ON_FILE, .. }) => return Ok(Vec::new()),
            other => other?,
        };
        let mut found = Vec::new();
        for one in ea::read_list(&list) {
            let FullEa { name, value, .. } =
                one.map_err(|_| Malformed::new("FileFullEaInformation", "entry"))?;
            found.push(ExtendedAttribute { name: name.to_vec(), value: value.to_vec() });
        }
        Ok(found)
    }

    /// Sets extended attributes. Other attributes stay as they are, and an empty value removes one.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses. [`Error::NotOffered`] when no list can carry them: a value
    /// of more than 65,535 bytes, a name of more than 254, or more than 64 KiB in all.
    pub async fn set_extended_attributes(&self, list: &[ExtendedAttribute]) -> Result<()> {
        let all = list.iter().map(|it| FullEa { flags: 0, name: &it.name, value: &it.value });
        let mut buffer = Vec::new();
        match ea::write_list(all, ROOM as usize, &mut buffer) {
            Ok(true) => self.set(InfoType::File, FileInfoClass::FULL_EA.0, &buffer).await,
            Ok(false) | Err(_) => Err(Error::NotOffered("room for such extended attributes")),
        }
    }

    /// Reads the named streams. The list is empty where the server does not support streams.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses.
    pub async fn streams(&self) -> Result<Vec<Stream>> {
        let asked = self.query(InfoType::File, FileInfoClass::STREAM.0, ROOM).await;
        let unknown = [NtStatus::NOT_SUPPORTED, NtStatus::INVALID_PARAMETER, NtStatus::INVALID_INFO_CLASS];
        match asked {
            Err(Error::Status { status, .. }) if unknown.contains(&status) => Ok(Vec::new()),
            other => read_streams(&other?),
        }
    }
}

/// Parses FileStreamInformation without the unnamed stream.
pub(crate) fn read_streams(buffer: &[u8]) -> Result<Vec<Stream>> {
    let mut streams = Vec::new();
    for found in file::read_streams(buffer) {
        let found = found.map_err(|_| Malformed::new("FileStreamInformation", "entry"))?;
        let name = Utf16::new(found.name).unwrap_or_default().to_string_lossy();
        // MS-FSCC 2.4.49: `:name:$DATA`
        let name = name.strip_prefix(':').and_then(|rest| rest.strip_suffix(":$DATA"));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            streams.push(Stream { name: name.to_owned(), size: found.size });
        }
    }
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use super::*;
    use smb_wire::fscc::file::{StreamEntry, write_streams};
    use smb_wire::utf16;

    #[test]
    fn only_named_streams_of_data_are_found() {
        let names = ["::$DATA", ":Zone.Identifier:$DATA", ":index:$INDEX_ALLOCATION"].map(utf16::encode);
        let entries = names.iter().map(|name| StreamEntry { size: 7, allocation_size: 8, name });
        let mut buffer = Vec::new();
        write_streams(entries, 4096, &mut buffer).unwrap();
        let found = read_streams(&buffer).unwrap();
        assert_eq!(found, [Stream { name: "Zone.Identifier".to_owned(), size: 7 }]);
        assert!(read_streams(&[1, 0, 0, 0]).is_err());
    }
}
