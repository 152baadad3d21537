//! NetrShareEnum, NetrShareEnumSticky and NetrShareGetInfo.

use super::{
    ERROR_ACCESS_DENIED, ERROR_INVALID_LEVEL, ERROR_MORE_DATA, NERR_BUF_TOO_SMALL, NERR_DEVICE_NOT_SHARED,
    NERR_NET_NAME_NOT_FOUND, NERR_SUCCESS, server_name,
};
use crate::fscc::names::eq_folded;
use crate::rpc::fault::Fault;
use crate::rpc::host::{Host, Share, ShareType};
use crate::rpc::ndr::{BadStub, StubReader, Writer};

/// MS-SRVS 2.2.4.22 and following: the level of information about a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Its name.
    Zero,
    /// The name and type.
    One,
    /// The fields of level 1, the path and the use.
    Two,
    /// The fields of level 1 and the flags.
    FiveZeroOne,
    /// The fields of level 2 and the security descriptor.
    FiveZeroTwo,
    /// The flags alone.
    OneThousandFive,
}

impl Level {
    fn from_number(level: u32) -> Option<Level> {
        Some(match level {
            0 => Level::Zero,
            1 => Level::One,
            2 => Level::Two,
            501 => Level::FiveZeroOne,
            502 => Level::FiveZeroTwo,
            1005 => Level::OneThousandFive,
            _ => return None,
        })
    }

    /// Whether the level is for administrators only.
    fn is_for_admins(self) -> bool {
        matches!(self, Level::Two | Level::FiveZeroTwo)
    }

    /// The approximate bytes of one entry, for PreferedMaximumLength.
    fn entry_len(self, share: &Share) -> usize {
        let text = |text: &str| text.encode_utf16().count() * 2 + 2;
        let fixed = match self {
            Level::Zero | Level::OneThousandFive => 4,
            Level::One => 12,
            Level::Two => 32,
            Level::FiveZeroOne => 16,
            Level::FiveZeroTwo => 40 + share.security_descriptor.as_ref().map_or(0, Vec::len),
        };
        let path = if self.is_for_admins() { text(&share.path) } else { 0 };
        let remark = if self == Level::Zero { 0 } else { text(&share.remark) };
        fixed + text(&share.name) + remark + path
    }

    /// The fixed part of one entry.
    fn write_fixed(self, share: &Share, out: &mut Writer) {
        if self == Level::OneThousandFive {
            return out.u32(share.flags);
        }
        out.pointer();
        if self == Level::Zero {
            return;
        }
        out.u32(share.kind.0);
        out.pointer();
        match self {
            Level::FiveZeroOne => out.u32(share.flags),
            Level::Two | Level::FiveZeroTwo => {
                // Permissions belong to share-level security, which no server has any more.
                out.u32(0);
                out.u32(share.max_uses);
                out.u32(share.current_uses);
                out.pointer();
                out.null();
            }
            Level::Zero | Level::One | Level::OneThousandFive => {}
        }
        if self == Level::FiveZeroTwo {
            let length = share.security_descriptor.as_ref().map_or(0, Vec::len);
            out.u32(length as u32);
            if length == 0 { out.null() } else { out.pointer() }
        }
    }

    /// The targets of the pointers in the fixed part.
    fn write_rest(self, share: &Share, out: &mut Writer) {
        if self == Level::OneThousandFive {
            return;
        }
        out.string(&share.name);
        if self == Level::Zero {
            return;
        }
        out.string(&share.remark);
        if self.is_for_admins() {
            out.string(&share.path);
        }
        let descriptor = share.security_descriptor.as_deref().unwrap_or_default();
        if self == Level::FiveZeroTwo && !descriptor.is_empty() {
            out.u32(descriptor.len() as u32);
            out.bytes(descriptor);
        }
    }
}

/// NetrShareEnum, or with `sticky` NetrShareEnumSticky, which lists only shares that outlive a restart.
pub(super) fn share_enum(
    args: &mut StubReader<'_>,
    out: &mut Writer,
    host: &dyn Host,
    sticky: bool,
) -> Result<(), Fault> {
    // MS-SRVS 3.1.4.8 and 3.1.4.9
    server_name(args)?;
    let level = args.u32()?;
    read_container(args)?;
    let preferred = args.u32()?;
    let resume = if args.pointer()? { Some(args.u32()?) } else { None };

    out.u32(level);
    out.u32(level);
    // MS-SRVS 3.1.4.9 (level 501 is not for sticky shares)
    let is_known = |level: &Level| match level {
        Level::FiveZeroOne => !sticky,
        Level::OneThousandFive => false,
        _ => true,
    };
    let known = Level::from_number(level).filter(is_known);
    let level = match known {
        None => return refuse(out, resume, ERROR_INVALID_LEVEL),
        Some(level) if level.is_for_admins() && !host.caller_is_admin() => {
            return refuse(out, resume, ERROR_ACCESS_DENIED);
        }
        Some(level) => level,
    };
    let mut shares = host.shares();
    shares.retain(|share| !sticky || share.kind != ShareType::IPC);
    let from = (resume.unwrap_or(0) as usize).min(shares.len());
    let rest = &shares[from..];
    let told = fitting(level, rest, preferred);
    let status = match told {
        _ if told == rest.len() => NERR_SUCCESS,
        0 => NERR_BUF_TOO_SMALL,
        _ => ERROR_MORE_DATA,
    };
    out.pointer();
    out.u32(told as u32);
    if told == 0 {
        out.null();
    } else {
        out.pointer();
        out.u32(told as u32);
        rest[..told].iter().for_each(|share| level.write_fixed(share, out));
        rest[..told].iter().for_each(|share| level.write_rest(share, out));
    }
    out.u32(rest.len() as u32);
    let next = if status == NERR_SUCCESS { 0 } else { from + told };
    write_resume(out, resume.map(|_| next as u32));
    out.u32(status);
    Ok(())
}

/// The number of shares within the client's limit.
fn fitting(level: Level, shares: &[Share], preferred: u32) -> usize {
    let mut left = preferred as usize;
    let fits = |share: &&Share| {
        let len = level.entry_len(share);
        let fits = len <= left;
        left = left.saturating_sub(len);
        fits
    };
    if preferred == u32::MAX { shares.len() } else { shares.iter().take_while(fits).count() }
}

/// Reads the InfoStruct of an enumeration: a union with an empty container.
fn read_container(args: &mut StubReader<'_>) -> Result<(), BadStub> {
    args.u32()?;
    if args.pointer()? {
        args.u32()?;
        if args.pointer()? {
            // The server fills the container. A request with entries is invalid.
            return Err(BadStub);
        }
    }
    Ok(())
}

/// The end of a response without entries.
fn refuse(out: &mut Writer, resume: Option<u32>, status: u32) -> Result<(), Fault> {
    out.null();
    out.u32(0);
    write_resume(out, resume);
    out.u32(status);
    Ok(())
}

fn write_resume(out: &mut Writer, resume: Option<u32>) {
    match resume {
        None => out.null(),
        Some(value) => {
            out.pointer();
            out.u32(value);
        }
    }
}

/// NetrShareGetInfo
pub(super) fn share_get_info(
    args: &mut StubReader<'_>,
    out: &mut Writer,
    host: &dyn Host,
) -> Result<(), Fault> {
    // MS-SRVS 3.1.4.10
    server_name(args)?;
    let name = args.string()?.to_string_lossy();
    let number = args.u32()?;
    let found = |share: &Share| eq_folded(share.name.as_bytes(), name.as_bytes());
    let shares = host.shares();
    let result = match (Level::from_number(number), shares.iter().find(|share| found(share))) {
        (None, _) => Err(ERROR_INVALID_LEVEL),
        (Some(level), _) if level.is_for_admins() && !host.caller_is_admin() => Err(ERROR_ACCESS_DENIED),
        (_, None) => Err(NERR_NET_NAME_NOT_FOUND),
        (Some(level), Some(share)) => Ok((level, share)),
    };
    out.u32(number);
    match result {
        Ok((level, share)) => {
            out.pointer();
            level.write_fixed(share, out);
            level.write_rest(share, out);
            out.u32(NERR_SUCCESS);
        }
        Err(status) => {
            out.null();
            out.u32(status);
        }
    }
    Ok(())
}

/// NetrShareCheck: whether a directory of the server is shared. It exposes the paths of shares, so it is for
/// administrators only.
pub(super) fn share_check(args: &mut StubReader<'_>, out: &mut Writer, host: &dyn Host) -> Result<(), Fault> {
    // MS-SRVS 3.1.4.16 (exception: refused to non-administrators, who get no paths elsewhere either)
    server_name(args)?;
    let device = args.string()?.to_string_lossy();
    let is_there = |share: &Share| eq_folded(share.path.as_bytes(), device.as_bytes());
    let (kind, status) = match host.shares().iter().find(|share| is_there(share)) {
        _ if !host.caller_is_admin() => (0, ERROR_ACCESS_DENIED),
        Some(share) => (share.kind.without_special(), NERR_SUCCESS),
        None => (0, NERR_DEVICE_NOT_SHARED),
    };
    out.u32(kind);
    out.u32(status);
    Ok(())
}
