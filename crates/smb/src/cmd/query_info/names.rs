//! Classes with names: the normalized name, the short name, and names of streams.

use smb_wire::fscc::file::{StreamEntry, write_name, write_streams};
use smb_wire::fscc::names::{Syntax, is_short_name, to_wire};
use smb_wire::{NtStatus, Utf16, utf16};

use super::{Query, whole_or_cut};
use crate::exchange::{Handled, Stop};
use crate::info::names::{self, STREAM_SYNTAX};

/// FileNormalizedNameInformation: the path from the root of the share with the actual names.
// MS-SMB2 3.3.5.20.1
// MS-FSA 2.1.5.12.30
pub(super) fn normalized(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let name = names::relative(query.engine, query.file);
    whole_or_cut(write_name(&name, query.limit(), out))
}

/// FileAlternateNameInformation: a name in the 8.3 form is its own short name. Other names have none.
// MS-FSA 2.1.5.12.4
pub(super) fn alternate(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let mut name = Vec::new();
    if let Some(own) = query.file.name() {
        to_wire(own.as_bytes(), Syntax::Windows, &mut name);
    }
    Stop::when(!Utf16::new(&name).is_some_and(is_short_name), NtStatus::OBJECT_NAME_NOT_FOUND)?;
    whole_or_cut(write_name(&name, query.limit(), out))
}

/// FileStreamInformation: the unnamed stream of a file, and its named streams.
// MS-FSA 2.1.5.12.29
pub(super) fn streams(query: &Query<'_>, out: &mut Vec<u8>) -> Handled {
    let mut named = Vec::new();
    if let Some((size, allocation_size)) = query.engine.unnamed_stream(query.file)? {
        named.push((size, allocation_size, utf16::encode("::$DATA")));
    }
    for stream in query.engine.streams(query.file)? {
        let mut name = utf16::encode(":");
        to_wire(stream.name.as_bytes(), STREAM_SYNTAX, &mut name);
        utf16::push(":$DATA", &mut name);
        named.push((stream.size, stream.allocated, name));
    }
    let entries = named.iter().map(|(size, allocation_size, name)| StreamEntry {
        size: *size,
        allocation_size: *allocation_size,
        name,
    });
    match write_streams(entries, query.limit(), out) {
        // MS-FSA 2.1.5.12.29: a buffer too small for the first stream is an overflow too.
        Err(smb_wire::fscc::Full) => Ok(NtStatus::BUFFER_OVERFLOW),
        written => whole_or_cut(written),
    }
}
