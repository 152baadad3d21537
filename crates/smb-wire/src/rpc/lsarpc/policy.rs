//! LsarOpenPolicy, LsarQueryInformationPolicy, LsarGetUserName, LsarClose.

use super::{STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_SUCCESS, policy_handle};
use crate::rpc::fault::Fault;
use crate::rpc::handles::Handles;
use crate::rpc::host::Host;
use crate::rpc::ndr::{StubReader, Writer};

/// The form of the server's name, which is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemName {
    /// A pointer to its first character: LsarOpenPolicy.
    OneCharacter,
    /// A string: LsarOpenPolicy2.
    Text,
}

/// LsarOpenPolicy and LsarOpenPolicy2
pub(super) fn open(
    args: &mut StubReader<'_>,
    out: &mut Writer,
    handles: &mut Handles,
    form: SystemName,
) -> Result<(), Fault> {
    // MS-LSAD 3.1.4.4.1 and 3.1.4.4.2
    match form {
        SystemName::Text => {
            args.unique_string()?;
        }
        SystemName::OneCharacter => {
            if args.pointer()? {
                args.u16()?;
            }
        }
    }
    // Only RootDirectory of the object attributes counts: there must be none.
    args.u32()?;
    let (handle, status) = if args.pointer()? {
        (Handles::NONE, STATUS_INVALID_PARAMETER)
    } else {
        match handles.open() {
            Some(handle) => (handle, STATUS_SUCCESS),
            None => (Handles::NONE, STATUS_INSUFFICIENT_RESOURCES),
        }
    };
    out.handle(&handle);
    out.u32(status);
    Ok(())
}

/// LsarClose
pub(super) fn close(args: &mut StubReader<'_>, out: &mut Writer, handles: &mut Handles) -> Result<(), Fault> {
    // MS-LSAD 3.1.4.3
    handles.close(&args.handle()?)?;
    out.handle(&Handles::NONE);
    out.u32(STATUS_SUCCESS);
    Ok(())
}

/// LsarQueryInformationPolicy and LsarQueryInformationPolicy2
pub(super) fn query(
    args: &mut StubReader<'_>,
    out: &mut Writer,
    host: &dyn Host,
    handles: &Handles,
) -> Result<(), Fault> {
    // MS-LSAD 3.1.4.4.3 and 3.1.4.4.4
    policy_handle(args, handles)?;
    let class = args.u16()?;
    let facts = host.facts();
    if !matches!(class, 3 | 5 | 12 | 13 | 14) {
        out.null();
        out.u32(STATUS_INVALID_PARAMETER);
        return Ok(());
    }
    out.pointer();
    out.u16(class);
    match class {
        // MS-LSAD 2.2.4.5: the domain of the machine. A workgroup has no SID.
        3 => {
            out.string_head(&facts.domain);
            out.null();
            out.string_body(&facts.domain);
        }
        // MS-LSAD 2.2.4.6: the domain of the machine's own accounts.
        5 | 14 => {
            out.string_head(&facts.name);
            out.pointer();
            out.string_body(&facts.name);
            out.sid(&facts.account_domain_sid);
        }
        // MS-LSAD 2.2.4.14: the domain again, with DNS names, which a workgroup does not have.
        _ => {
            out.string_head(&facts.domain);
            out.string_head("");
            out.string_head("");
            out.bytes(&[0; 16]);
            out.null();
            out.string_body(&facts.domain);
            out.string_body("");
            out.string_body("");
        }
    }
    out.u32(STATUS_SUCCESS);
    Ok(())
}

/// LsarGetUserName
pub(super) fn get_user_name(
    args: &mut StubReader<'_>,
    out: &mut Writer,
    host: &dyn Host,
) -> Result<(), Fault> {
    // MS-LSAT 3.1.4.4
    args.unique_string()?;
    if args.pointer()? {
        let head = args.string_head()?;
        args.string_body(head)?;
    }
    let wants_domain = args.pointer()?;
    let caller = host.caller();
    out.pointer();
    out.string_head(&caller.name);
    out.string_body(&caller.name);
    if wants_domain {
        out.pointer();
        out.pointer();
        out.string_head(&caller.domain);
        out.string_body(&caller.domain);
    } else {
        out.null();
    }
    out.u32(STATUS_SUCCESS);
    Ok(())
}
