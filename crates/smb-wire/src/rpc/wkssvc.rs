//! MS-WKST: information about the machine.

use super::fault::Fault;
use super::host::Host;
use super::ndr::{StubReader, Writer};
use super::srvsvc::{ERROR_INVALID_LEVEL, NERR_SUCCESS, PLATFORM_ID_NT};

/// Runs operation `opnum`.
pub(super) fn call(
    opnum: u16,
    args: &mut StubReader<'_>,
    out: &mut Writer,
    host: &dyn Host,
) -> Result<(), Fault> {
    match opnum {
        0 => wksta_get_info(args, out, host),
        _ => Err(Fault::OP_RNG_ERROR),
    }
}

fn wksta_get_info(args: &mut StubReader<'_>, out: &mut Writer, host: &dyn Host) -> Result<(), Fault> {
    // MS-WKST 3.2.4.1
    args.unique_string()?;
    let level = args.u32()?;
    out.u32(level);
    if !(100..=102).contains(&level) {
        out.null();
        out.u32(ERROR_INVALID_LEVEL);
        return Ok(());
    }
    let facts = host.facts();
    out.pointer();
    out.u32(PLATFORM_ID_NT);
    out.pointer();
    out.pointer();
    out.u32(facts.version_major);
    out.u32(facts.version_minor);
    if level >= 101 {
        out.pointer();
    }
    if level == 102 {
        out.u32(facts.users);
    }
    out.string(&facts.name);
    out.string(&facts.domain);
    if level >= 101 {
        out.string("");
    }
    out.u32(NERR_SUCCESS);
    Ok(())
}
