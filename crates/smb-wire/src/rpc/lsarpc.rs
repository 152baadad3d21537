//! MS-LSAD and MS-LSAT: the domain of this server, names of SIDs and SIDs of names.
//!
//! Clients use it to show owners and access lists. [`policy`] opens handles and returns domains, [`lookup`]
//! translates. There are no changes.

pub mod lookup;
pub mod policy;

use super::fault::Fault;
use super::handles::{Handle, Handles};
use super::host::Host;
use super::ndr::{StubReader, Writer};

const STATUS_SUCCESS: u32 = 0x0000_0000;
const STATUS_SOME_NOT_MAPPED: u32 = 0x0000_0107;
const STATUS_INVALID_PARAMETER: u32 = 0xC000_000D;
const STATUS_NONE_MAPPED: u32 = 0xC000_0073;
const STATUS_INSUFFICIENT_RESOURCES: u32 = 0xC000_009A;

/// Runs operation `opnum`.
pub(super) fn call(
    opnum: u16,
    args: &mut StubReader<'_>,
    out: &mut Writer,
    host: &dyn Host,
    handles: &mut Handles,
) -> Result<(), Fault> {
    match opnum {
        0 => policy::close(args, out, handles),
        6 => policy::open(args, out, handles, policy::SystemName::OneCharacter),
        7 | 46 => policy::query(args, out, host, handles),
        14 => lookup::names(args, out, host, handles, lookup::Version::One),
        15 => lookup::sids(args, out, host, handles, lookup::Version::One),
        44 => policy::open(args, out, handles, policy::SystemName::Text),
        45 => policy::get_user_name(args, out, host),
        57 => lookup::sids(args, out, host, handles, lookup::Version::Two),
        58 => lookup::names(args, out, host, handles, lookup::Version::Two),
        68 => lookup::names(args, out, host, handles, lookup::Version::Three),
        // MS-LSAT 3.1.4.5 and 3.1.4.9 (LsarLookupNames4 and LsarLookupSids3 are for the secure channels of
        // domain controllers; Windows refuses other callers before anything else)
        76 | 77 => Err(Fault::ACCESS_DENIED),
        _ => Err(Fault::OP_RNG_ERROR),
    }
}

/// The policy handle at the start of most operations.
fn policy_handle(args: &mut StubReader<'_>, handles: &Handles) -> Result<Handle, Fault> {
    let handle = args.handle()?;
    handles.check(&handle)?;
    Ok(handle)
}
