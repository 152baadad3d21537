//! FileStreamInformation and FileHardLinkInformation: the stream names and the hard links of a file.

use crate::fscc::chain::{Chain, Full, entries};
use crate::fscc::{BadBuffer, text};
use wire::Cursor;

/// One stream in FileStreamInformation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamEntry<'a> {
    /// Size in bytes.
    pub size: u64,
    /// Bytes of its allocation.
    pub allocation_size: u64,
    /// The full name in UTF-16LE, `:name:$DATA`, or `::$DATA` for the unnamed stream.
    pub name: &'a [u8],
}

/// MS-FSCC 2.4.49: appends the streams in at most `limit` bytes. Returns whether some were left out
/// (STATUS_BUFFER_OVERFLOW, with those that fit). A file without streams (a directory) has an empty list.
///
/// # Errors
/// [`Full`] if the first stream does not fit: STATUS_INFO_LENGTH_MISMATCH with less than 24 bytes of space,
/// otherwise STATUS_BUFFER_OVERFLOW.
pub fn write_streams<'a>(
    streams: impl IntoIterator<Item = StreamEntry<'a>>,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<bool, Full> {
    let mut chain = Chain::new(out, limit, 8);
    for stream in streams {
        let Ok(out) = chain.begin(24 + stream.name.len()) else {
            return if chain.is_empty() { Err(Full) } else { Ok(true) };
        };
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(stream.name.len() as u32).to_le_bytes());
        out.extend_from_slice(&stream.size.to_le_bytes());
        out.extend_from_slice(&stream.allocation_size.to_le_bytes());
        out.extend_from_slice(stream.name);
    }
    Ok(false)
}

/// Reads FileStreamInformation.
pub fn read_streams(data: &[u8]) -> impl Iterator<Item = Result<StreamEntry<'_>, BadBuffer>> {
    entries(data, 8).map(|entry| {
        let mut c = Cursor::new(entry?);
        c.skip(4)?;
        let length = c.u32_le()? as usize;
        let (size, allocation_size) = (c.u64_le()?, c.u64_le()?);
        let name = text::parse(c.bytes(length)?)?.as_bytes();
        Ok(StreamEntry { size, allocation_size, name })
    })
}

/// One name in FileHardLinkInformation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HardLink<'a> {
    /// The 64-bit file ID of the name's directory.
    pub parent_file_id: u64,
    /// The name in UTF-16LE.
    pub name: &'a [u8],
}

/// MS-FSCC 2.4.17: appends the links in at most `limit` bytes. Returns whether some were left out
/// (STATUS_BUFFER_OVERFLOW). BytesNeeded has the size of all of them.
///
/// # Errors
/// [`Full`] if the head of 8 bytes does not fit (STATUS_INFO_LENGTH_MISMATCH).
pub fn write_hard_links(links: &[HardLink<'_>], limit: usize, out: &mut Vec<u8>) -> Result<bool, Full> {
    let room = limit.checked_sub(8).ok_or(Full)?;
    let head = out.len();
    let needed = links.iter().fold(0usize, |sum, link| sum.next_multiple_of(8) + link_len(link));
    out.extend_from_slice(&u32::try_from(needed).map_err(|_| Full)?.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let mut chain = Chain::new(out, room, 8);
    let mut returned = 0u32;
    for link in links {
        let Ok(out) = chain.begin(link_len(link)) else {
            break;
        };
        out.extend_from_slice(&[0; 4]);
        // MS-FSCC 2.4.17.1 (exception: Windows aligns ParentFileId to 8 bytes, which the diagram does not
        // show)
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&link.parent_file_id.to_le_bytes());
        out.extend_from_slice(&((link.name.len() / 2) as u32).to_le_bytes());
        out.extend_from_slice(link.name);
        returned += 1;
    }
    out[head + 4..head + 8].copy_from_slice(&returned.to_le_bytes());
    Ok((returned as usize) < links.len())
}

fn link_len(link: &HardLink<'_>) -> usize {
    20 + link.name.len()
}

/// Reads the links in FileHardLinkInformation.
///
/// # Errors
/// [`BadBuffer`] if the data ends before the head does.
pub fn read_hard_links(
    data: &[u8],
) -> Result<impl Iterator<Item = Result<HardLink<'_>, BadBuffer>>, BadBuffer> {
    let mut c = Cursor::new(data);
    c.skip(4)?;
    let returned = c.u32_le()? as usize;
    Ok(entries(c.rest(), 8).take(returned).map(|entry| {
        let mut c = Cursor::new(entry?);
        c.skip(8)?;
        let parent_file_id = c.u64_le()?;
        let length = (c.u32_le()? as usize).checked_mul(2).ok_or(BadBuffer::Length)?;
        Ok(HardLink { parent_file_id, name: c.bytes(length)? })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscc::testing::hex;
    use crate::utf16;
    use proptest::prelude::*;

    /// The bytes that the Python package smbprotocol 1.17 packs for the same stream.
    #[test]
    fn a_stream_is_that_of_another_implementation() {
        let bytes =
            hex("00000000 10000000 0500000000000000 0800000000000000 3a0073003a0024004400410054004100");
        let name = utf16::encode(":s:$DATA");
        let stream = StreamEntry { size: 5, allocation_size: 8, name: &name };
        let mut out = Vec::new();
        assert_eq!(write_streams([stream], 40, &mut out), Ok(false));
        assert_eq!(out, bytes);
        assert_eq!(read_streams(&bytes).collect::<Vec<_>>(), [Ok(stream)]);
    }

    #[test]
    fn streams_that_do_not_fit_are_left_out_whole() {
        let name = utf16::encode("::$DATA");
        let stream = StreamEntry { size: 1, allocation_size: 2, name: &name };
        let mut out = Vec::new();
        assert_eq!(write_streams([stream; 3], 100, &mut out), Ok(true));
        assert_eq!(read_streams(&out).count(), 2);
        assert_eq!(write_streams([stream], 37, &mut Vec::new()), Err(Full));
        assert_eq!(write_streams([], 0, &mut out), Ok(false));
    }

    #[test]
    fn hard_links_tell_how_much_room_they_need() {
        let (a, b) = (utf16::encode("a"), utf16::encode("bcd"));
        let links = [HardLink { parent_file_id: 5, name: &a }, HardLink { parent_file_id: 6, name: &b }];
        let mut out = Vec::new();
        assert_eq!(write_hard_links(&links, 100, &mut out), Ok(false));
        let wanted = hex("32000000 02000000
             18000000 00000000 0500000000000000 01000000 6100 0000
             00000000 00000000 0600000000000000 03000000 620063006400");
        assert_eq!(out, wanted);
        let read: Vec<_> = read_hard_links(&out).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, links);
        out.clear();
        assert_eq!(write_hard_links(&links, 57, &mut out), Ok(true));
        assert_eq!(out[..8], hex("32000000 01000000"));
        assert_eq!(write_hard_links(&links, 7, &mut out), Err(Full));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..120)) {
            for found in read_streams(&data) {
                let _ = found;
            }
            if let Ok(links) = read_hard_links(&data) {
                prop_assert!(links.count() <= data.len());
            }
        }
    }
}
