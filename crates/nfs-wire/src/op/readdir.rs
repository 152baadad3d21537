//! READDIR (RFC 8881 18.23). A server writes the result in place with [`EntriesWriter`].

use std::fmt;

use crate::Malformed;
use crate::attr::{AttrWriter, Bitmap, Fattr};
use crate::macros::xdr_struct;
use crate::types::{Component, Verifier};
use crate::xdr::{Decode, Encode, put_opaque};
use wire::Cursor;

xdr_struct! {
    /// READDIR4args.
    pub struct Args of "READDIR4args" {
        /// The cookie to continue at. Zero at first; 1 and 2 are never used.
        cookie: u64,
        /// The verifier that came with `cookie`.
        cookieverf: Verifier,
        /// The most bytes of names and cookies, as a hint.
        dircount: u32,
        /// Longest READDIR4resok in bytes.
        maxcount: u32,
        /// The requested attributes of each entry.
        attr_request: Bitmap,
    }
}

xdr_struct! {
    /// One entry of a directory (entry4).
    pub struct ReaddirEntry<'a> of "entry4" {
        /// The cookie to continue at after this entry.
        cookie: u64,
        /// Its name.
        name: Component<'a>,
        /// Its attributes.
        attrs: Fattr<'a>,
    }
}

/// The entries of a reply: a chain. Each entry follows a word that announces it.
#[derive(Clone, Copy)]
pub struct Entries<'a>(EntriesRepr<'a>);

#[derive(Clone, Copy)]
enum EntriesRepr<'a> {
    Wire(&'a [u8]),
    Values(&'a [ReaddirEntry<'a>]),
}

impl<'a> Entries<'a> {
    /// Entries to be written.
    #[must_use]
    pub const fn of(entries: &'a [ReaddirEntry<'a>]) -> Self {
        Entries(EntriesRepr::Values(entries))
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = ReaddirEntry<'a>> + use<'a> {
        let (mut wire, mut values) = match self.0 {
            EntriesRepr::Wire(bytes) => (Cursor::new(bytes), [].iter()),
            EntriesRepr::Values(values) => (Cursor::new(&[]), values.iter()),
        };
        std::iter::from_fn(move || {
            values.next().copied().or_else(|| Option::<ReaddirEntry<'a>>::decode(&mut wire).ok().flatten())
        })
    }
}

impl Encode for Entries<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self.0 {
            EntriesRepr::Wire(bytes) => out.extend_from_slice(bytes),
            EntriesRepr::Values(entries) => {
                entries.iter().for_each(|entry| Some(*entry).encode(out));
                false.encode(out);
            }
        }
    }
}

impl<'d> Decode<'d> for Entries<'d> {
    fn decode(r: &mut Cursor<'d>) -> Result<Self, Malformed> {
        let all = r.rest();
        let begin = r.position();
        while Option::<ReaddirEntry<'d>>::decode(r)?.is_some() {}
        Ok(Entries(EntriesRepr::Wire(&all[..r.position() - begin])))
    }
}

impl fmt::Debug for Entries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Entries<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Entries<'_> {}

xdr_struct! {
    /// READDIR4resok.
    pub struct ResOk<'a> of "READDIR4resok" {
        /// The verifier for the cookies.
        cookieverf: Verifier,
        /// The entries.
        entries: Entries<'a>,
        /// Whether the listing is complete.
        eof: bool,
    }
}

/// A READDIR4resok that is being written entry by entry. It never exceeds its limit.
#[derive(Debug)]
pub struct EntriesWriter<'a> {
    out: &'a mut Vec<u8>,
    begin: usize,
    max: usize,
    count: usize,
}

/// Bytes after the last entry: the end of the chain, and whether the listing is complete.
const END: usize = 8;

impl<'a> EntriesWriter<'a> {
    /// Begins a READDIR4resok of at most `max` bytes at the end of `out`. None if not even an empty one fits:
    /// NFS4ERR_TOOSMALL.
    #[must_use]
    pub fn begin(out: &'a mut Vec<u8>, cookieverf: Verifier, max: usize) -> Option<Self> {
        if max < size_of::<Verifier>() + END {
            return None;
        }
        let begin = out.len();
        cookieverf.encode(out);
        Some(EntriesWriter { out, begin, max, count: 0 })
    }

    /// Number of entries.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Appends an entry. `attributes` writes the attributes of `wanted`. Returns false if the entry does not
    /// fit; nothing is changed then.
    pub fn entry(
        &mut self,
        cookie: u64,
        name: Component<'_>,
        wanted: Bitmap,
        attributes: impl FnOnce(&mut AttrWriter<'_>),
    ) -> bool {
        let before = self.out.len();
        true.encode(self.out);
        cookie.encode(self.out);
        put_opaque(name, self.out);
        let mut writer = AttrWriter::begin(self.out, wanted);
        attributes(&mut writer);
        writer.finish();
        let fits = self.out.len() - self.begin + END <= self.max;
        if fits {
            self.count += 1;
        } else {
            self.out.truncate(before);
        }
        fits
    }

    /// Ends the list. `eof` says that the directory has no further entries.
    pub fn finish(self, eof: bool) {
        false.encode(self.out);
        eof.encode(self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Attr;

    #[test]
    fn entries_written_in_place_are_those_that_are_read_and_stay_within_their_bound() {
        let wanted = Bitmap::of(&[20]);
        for max in 0..300 {
            let mut out = b"before".to_vec();
            let Some(mut writer) = EntriesWriter::begin(&mut out, [7; 8], max) else {
                assert!(max < 16);
                continue;
            };
            let mut put = 0;
            while put < 5 && writer.entry(put + 3, b"name", wanted, |w| w.put(&Attr::Fileid(put))) {
                put += 1;
            }
            assert_eq!(writer.count(), put as usize);
            writer.finish(put == 5);
            assert!(out.len() - 6 <= max);
            let mut r = Cursor::new(&out[6..]);
            let read = ResOk::decode(&mut r).expect("READDIR4resok");
            assert_eq!((r.remaining(), read.eof), (0, put == 5));
            let found: Vec<_> = read.entries.iter().map(|entry| (entry.cookie, entry.name)).collect();
            assert_eq!(found, (0..put).map(|at| (at + 3, &b"name"[..])).collect::<Vec<_>>());
            // 4 + 8 + 8 + 8 + 12 bytes for each entry, 16 for the rest.
            assert_eq!(put as usize, ((max - 16) / 40).min(5));
        }
    }
}
