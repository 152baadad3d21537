//! The SMB 3.1.1 POSIX extensions: modes, owners and links as a POSIX system knows them.
//!
//! They are in effect on a connection where both sides sent the POSIX negotiate context, and for an Open
//! whose CREATE carried the POSIX create context. There is no section of MS-SMB2 for them; the layouts are
//! those of the Linux client.

use crate::malformed::Malformed;
use crate::reader::Reader;
use wire::Writer;

/// The POSIX create context of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateResponse<'a> {
    /// The number of hard links.
    pub nlink: u32,
    /// The reparse tag (MS-FSCC 2.1.2.1), zero for a file or directory.
    pub reparse_tag: u32,
    /// Permission bits, with set-uid, set-gid and sticky.
    pub mode: u32,
    /// The owner, as a SID (MS-DTYP 2.4.2.2).
    pub owner: &'a [u8],
    /// The group, as a SID.
    pub group: &'a [u8],
}

impl<'a> CreateResponse<'a> {
    /// Parses the data of the context.
    ///
    /// # Errors
    /// [`Malformed`] when a field is missing or a SID is not whole.
    pub fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(data, "POSIX create context");
        Ok(CreateResponse {
            nlink: r.u32("nlink")?,
            reparse_tag: r.u32("reparse_tag")?,
            mode: r.u32("mode")?,
            owner: sid(&mut r, "owner")?,
            group: sid(&mut r, "group")?,
        })
    }

    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        w.u32_le(self.nlink);
        w.u32_le(self.reparse_tag);
        w.u32_le(self.mode);
        w.bytes(self.owner);
        w.bytes(self.group);
    }
}

/// The bytes of one SID: revision 1, a count of at most 15, six bytes of authority, and so many numbers.
fn sid<'a>(r: &mut Reader<'a>, field: &'static str) -> Result<&'a [u8], Malformed> {
    match *r.rest() {
        [1, count @ 0..=15, ..] => r.bytes(8 + 4 * usize::from(count), field),
        _ => Err(r.wrong(field)),
    }
}
