//! Create contexts: the optional parts of CREATE beside its fixed fields (MS-SMB2 2.2.13.2 and 2.2.14.2).
//!
//! [`Contexts`] is the chain in a message, or the values for one. [`Raw`] is one context as name and bytes.
//! [`Raw::request`] and [`Raw::response`] parse its data into [`RequestContext`] and [`ResponseContext`].
//! [`aapl`] has the context of macOS. The POSIX structures are in [`crate::posix`].

use crate::malformed::Malformed;
use crate::reader::FieldReader;
use std::fmt;
use wire::Writer;

pub mod aapl;
mod typed;

pub use typed::{DurableFlags, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext, ResponseContext};

const STRUCTURE: &str = "SMB2_CREATE_CONTEXT";

/// The size of the fields before a context's name, in bytes.
const FIXED: usize = 16;

/// The names of contexts (MS-SMB2 2.2.13.2).
pub mod name {
    /// SMB2_CREATE_EA_BUFFER.
    pub const EA_BUFFER: &[u8] = b"ExtA";
    /// SMB2_CREATE_SD_BUFFER.
    pub const SD_BUFFER: &[u8] = b"SecD";
    /// SMB2_CREATE_DURABLE_HANDLE_REQUEST and its response.
    pub const DURABLE_HANDLE_REQUEST: &[u8] = b"DHnQ";
    /// SMB2_CREATE_DURABLE_HANDLE_RECONNECT.
    pub const DURABLE_HANDLE_RECONNECT: &[u8] = b"DHnC";
    /// SMB2_CREATE_ALLOCATION_SIZE.
    pub const ALLOCATION_SIZE: &[u8] = b"AlSi";
    /// SMB2_CREATE_QUERY_MAXIMAL_ACCESS_REQUEST and its response.
    pub const QUERY_MAXIMAL_ACCESS: &[u8] = b"MxAc";
    /// SMB2_CREATE_TIMEWARP_TOKEN.
    pub const TIMEWARP_TOKEN: &[u8] = b"TWrp";
    /// SMB2_CREATE_QUERY_ON_DISK_ID and its response.
    pub const QUERY_ON_DISK_ID: &[u8] = b"QFid";
    /// SMB2_CREATE_REQUEST_LEASE, its version 2, and their responses.
    pub const LEASE: &[u8] = b"RqLs";
    /// SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2 and its response.
    pub const DURABLE_HANDLE_REQUEST_V2: &[u8] = b"DH2Q";
    /// SMB2_CREATE_DURABLE_HANDLE_RECONNECT_V2.
    pub const DURABLE_HANDLE_RECONNECT_V2: &[u8] = b"DH2C";
    /// SMB2_CREATE_APP_INSTANCE_ID.
    pub const APP_INSTANCE_ID: &[u8] = b"\x45\xbc\xa6\x6a\xef\xa7\xf7\x4a\x90\x08\xfa\x46\x2e\x14\x4d\x74";
    /// SMB2_CREATE_APP_INSTANCE_VERSION.
    pub const APP_INSTANCE_VERSION: &[u8] =
        b"\xb9\x82\xd0\xb7\x3b\x56\x07\x4f\xa0\x7b\x52\x4a\x81\x16\xa0\x10";
    /// SVHDX_OPEN_DEVICE_CONTEXT (MS-RSVD).
    pub const SVHDX_OPEN_DEVICE: &[u8] = b"\x9c\xcb\xcf\x9e\x04\xc1\xe6\x43\x98\x0e\x15\x8d\xa1\xf6\xec\x83";
    /// The POSIX extensions.
    pub const POSIX: &[u8] = &crate::negotiate::context::POSIX_GUID;
    /// The extensions of macOS.
    pub const AAPL: &[u8] = b"AAPL";
}

/// One context: its name, and its data as bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a> {
    /// The name, at least four bytes.
    pub name: &'a [u8],
    /// The data.
    pub data: &'a [u8],
}

/// A chain of contexts.
#[derive(Clone, Copy)]
pub enum Contexts<'a> {
    /// The bytes in a message.
    Wire(&'a [u8]),
    /// Contexts for a request.
    Requests(&'a [RequestContext<'a>]),
    /// Contexts for a response.
    Responses(&'a [ResponseContext<'a>]),
}

impl<'a> Contexts<'a> {
    /// No contexts.
    pub const EMPTY: Contexts<'static> = Contexts::Wire(&[]);

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Contexts::Wire(bytes) => bytes.is_empty(),
            Contexts::Requests(values) => values.is_empty(),
            Contexts::Responses(values) => values.is_empty(),
        }
    }

    /// The contexts of a parsed message in order. The iterator ends after an error. It is empty for a chain
    /// of values.
    #[must_use]
    pub fn iter(&self) -> Iter<'a> {
        match *self {
            Contexts::Wire(bytes) => Iter { rest: bytes },
            Contexts::Requests(_) | Contexts::Responses(_) => Iter { rest: &[] },
        }
    }

    /// The data of the first context with this name.
    ///
    /// # Errors
    /// [`Malformed`] if the chain breaks before it.
    pub fn find(&self, name: &[u8]) -> Result<Option<&'a [u8]>, Malformed> {
        for raw in self.iter() {
            let raw = raw?;
            if raw.name == name {
                return Ok(Some(raw.data));
            }
        }
        Ok(None)
    }

    /// The typed contexts of a request in order.
    pub fn requests(&self) -> impl Iterator<Item = Result<RequestContext<'a>, Malformed>> + use<'a> {
        self.iter().map(|raw| raw?.request())
    }

    /// The typed contexts of a response in order.
    pub fn responses(&self) -> impl Iterator<Item = Result<ResponseContext<'a>, Malformed>> + use<'a> {
        self.iter().map(|raw| raw?.response())
    }

    /// Appends the chain. It must begin on a boundary of eight bytes.
    pub(crate) fn write(&self, w: &mut Writer<'_>) {
        let mut chain = ChainWriter { w, last: None };
        match self {
            Contexts::Wire(bytes) => chain.w.bytes(bytes),
            Contexts::Requests(values) => {
                values.iter().for_each(|value| chain.entry(value.name(), |w| value.write(w)));
            }
            Contexts::Responses(values) => {
                values.iter().for_each(|value| chain.entry(value.name(), |w| value.write(w)));
            }
        }
    }
}

impl fmt::Debug for Contexts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contexts::Wire(_) => f.debug_list().entries(self.iter()).finish(),
            Contexts::Requests(values) => values.fmt(f),
            Contexts::Responses(values) => values.fmt(f),
        }
    }
}

impl PartialEq for Contexts<'_> {
    /// Compares the bytes that each would write.
    fn eq(&self, other: &Self) -> bool {
        let bytes = |contexts: &Contexts<'_>| {
            let mut out = Vec::new();
            contexts.write(&mut Writer::new(&mut out));
            out
        };
        bytes(self) == bytes(other)
    }
}

impl Eq for Contexts<'_> {}

/// Writes a chain and links each context to the one before it.
struct ChainWriter<'w, 'out> {
    w: &'w mut Writer<'out>,
    last: Option<usize>,
}

impl ChainWriter<'_, '_> {
    fn entry(&mut self, name: &[u8], data: impl FnOnce(&mut Writer<'_>)) {
        self.w.align(8);
        let start = self.w.position();
        if let Some(last) = self.last.replace(start) {
            self.w.patch_u32_le(last, (start - last) as u32);
        }
        self.w.u32_le(0);
        self.w.u16_le(FIXED as u16);
        self.w.u16_le(name.len() as u16);
        self.w.u16_le(0);
        self.w.u16_le(0);
        self.w.u32_le(0);
        self.w.bytes(name);
        let name_end = self.w.position();
        self.w.align(8);
        let data_start = self.w.position();
        data(self.w);
        let length = self.w.position() - data_start;
        if length == 0 {
            self.w.truncate(name_end);
            return;
        }
        self.w.patch_u16_le(start + 10, (data_start - start) as u16);
        self.w.patch_u32_le(start + 12, length as u32);
    }
}

/// Reads the contexts of a chain.
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    rest: &'a [u8],
}

impl<'a> Iter<'a> {
    /// Reads the first context of a non-empty chain. Also returns the rest of the chain.
    fn read(chain: &'a [u8]) -> Result<(Raw<'a>, &'a [u8]), Malformed> {
        let next = FieldReader::new(chain, STRUCTURE).u32("Next")? as usize;
        // A context ends at the next one, so that its name and data cannot overlap that.
        // MS-SMB2 2.2.13.2
        let (entry, rest) = match next {
            0 => (chain, &[][..]),
            _ if next >= FIXED && next.is_multiple_of(8) && next < chain.len() => chain.split_at(next),
            _ => return Err(Malformed::new(STRUCTURE, "Next")),
        };
        let mut r = FieldReader::new(entry, STRUCTURE).variable_from(FIXED);
        r.skip(4, "Next")?;
        let name_offset = usize::from(r.u16("NameOffset")?);
        let name_length = usize::from(r.u16("NameLength")?);
        r.skip(2, "Reserved")?;
        let data_offset = usize::from(r.u16("DataOffset")?);
        let data_length = r.u32("DataLength")? as usize;
        // MS-SMB2 3.3.5.9
        if name_length < 4 {
            return Err(r.wrong("NameLength"));
        }
        let name = r.window(name_offset, name_length, "NameOffset")?;
        let data = r.window(data_offset, data_length, "DataOffset")?;
        if data_length > 0 && (!data_offset.is_multiple_of(8) || data_offset < name_offset + name_length) {
            return Err(r.wrong("DataOffset"));
        }
        Ok((Raw { name, data }, rest))
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<Raw<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let chain = std::mem::take(&mut self.rest);
        Some(Self::read(chain).map(|(raw, rest)| {
            self.rest = rest;
            raw
        }))
    }
}
