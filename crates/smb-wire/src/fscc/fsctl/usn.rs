//! READ_FILE_USN_DATA: the change journal record of one file. Backup programs use it to get the numbers of a
//! file and its parent.

use crate::fscc::{BadBuffer, FileAttributes, FileTime, Full};
use wire::{Cursor, Writer};

/// MS-FSCC 2.3.61: the record versions that the client supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UsnRange {
    /// The oldest.
    pub min_major_version: u16,
    /// The newest.
    pub max_major_version: u16,
}

impl UsnRange {
    /// Reads the buffer. A short buffer means version 2 (MS-FSA 2.1.5.10.27).
    ///
    /// # Errors
    /// [`BadBuffer`] if the range has neither version 2 nor 3 (STATUS_INVALID_PARAMETER).
    pub fn parse(data: &[u8]) -> Result<Self, BadBuffer> {
        if data.len() < 4 {
            return Ok(UsnRange { min_major_version: 2, max_major_version: 2 });
        }
        let mut c = Cursor::new(data);
        let min_major_version = u16::from_le_bytes(c.array()?);
        let max_major_version = u16::from_le_bytes(c.array()?);
        let range = min_major_version..=max_major_version;
        if !range.contains(&2) && !range.contains(&3) {
            return Err(BadBuffer::Value);
        }
        Ok(UsnRange { min_major_version, max_major_version })
    }

    /// The newest version that both sides support.
    #[must_use]
    pub fn version(self) -> u16 {
        if self.max_major_version >= 3 { 3 } else { 2 }
    }
}

/// MS-FSCC 2.3.62.2 and 2.3.62.3: the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UsnRecord<'a> {
    /// The file id. Version 2 has only its lower half.
    pub file_reference_number: u128,
    /// The id of its directory. Version 2 has only its lower half.
    pub parent_file_reference_number: u128,
    /// The number of the last change, or 0 without a journal.
    pub usn: i64,
    /// The time of the last change, or zero without a journal.
    pub time_stamp: FileTime,
    /// The kind of the last change, or 0 without a journal.
    pub reason: u32,
    /// The source of the last change.
    pub source_info: u32,
    /// The server's number for its security descriptor.
    pub security_id: u32,
    /// Its attributes.
    pub file_attributes: FileAttributes,
    /// Its name in UTF-16LE.
    pub file_name: &'a [u8],
}

impl UsnRecord<'_> {
    /// Appends the record in version 2 or 3, in at most `limit` bytes.
    ///
    /// # Errors
    /// [`Full`] if it does not fit (STATUS_BUFFER_TOO_SMALL).
    pub fn write(&self, version: u16, limit: usize, out: &mut Vec<u8>) -> Result<(), Full> {
        let fixed: usize = if version >= 3 { 76 } else { 60 };
        let length = (fixed + self.file_name.len()).next_multiple_of(8);
        let name_len = u16::try_from(self.file_name.len()).map_err(|_| Full)?;
        if length > limit {
            return Err(Full);
        }
        let mut w = Writer::new(out);
        w.u32_le(length as u32);
        w.u16_le(if version >= 3 { 3 } else { 2 });
        w.u16_le(0);
        for number in [self.file_reference_number, self.parent_file_reference_number] {
            if version >= 3 { w.u128_le(number) } else { w.u64_le(number as u64) }
        }
        w.i64_le(self.usn);
        w.i64_le(self.time_stamp.0);
        w.u32_le(self.reason);
        w.u32_le(self.source_info);
        w.u32_le(self.security_id);
        w.u32_le(self.file_attributes.shown().bits());
        w.u16_le(name_len);
        w.u16_le(fixed as u16);
        w.bytes(self.file_name);
        w.align(8);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscc::testing::hex;
    use crate::utf16;

    #[test]
    fn records_are_laid_out_as_the_diagrams_say() {
        let name = utf16::encode("ab");
        let record = UsnRecord {
            file_reference_number: 0x11,
            parent_file_reference_number: 0x22,
            usn: 0x33,
            time_stamp: FileTime(0x44),
            reason: 0,
            source_info: 0,
            security_id: 0x55,
            file_attributes: FileAttributes::ARCHIVE,
            file_name: &name,
        };
        let mut out = Vec::new();
        record.write(2, 64, &mut out).unwrap();
        assert_eq!(
            out,
            hex("40000000 0200 0000 1100000000000000 2200000000000000 3300000000000000 4400000000000000
                 00000000 00000000 55000000 20000000 0400 3c00 61006200")
        );
        out.clear();
        record.write(3, 80, &mut out).unwrap();
        assert_eq!((out.len(), &out[72..76]), (80, &hex("0400 4c00")[..]));
        assert_eq!(record.write(2, 63, &mut out), Err(Full));
    }

    #[test]
    fn versions_are_chosen() {
        assert_eq!(UsnRange::parse(&[]).map(UsnRange::version), Ok(2));
        assert_eq!(UsnRange::parse(&hex("0200 0300")).map(UsnRange::version), Ok(3));
        assert_eq!(UsnRange::parse(&hex("0200 0200")).map(UsnRange::version), Ok(2));
        for bad in ["0400 0400", "0300 0200", "0000 0100"] {
            assert_eq!(UsnRange::parse(&hex(bad)), Err(BadBuffer::Value), "{bad}");
        }
        assert_eq!(UsnRange::parse(&[2, 0, 3]).map(UsnRange::version), Ok(2));
    }
}
