//! MS-SRVS: shares, the server and its clock, and checks of names.
//!
//! [`shares`] has the operations on shares. [`paths`] classifies and compares paths and names. Operations
//! that change the server do not exist here. Lists of other users' sessions are refused.

pub mod paths;
pub mod shares;

use super::fault::Fault;
use super::host::Host;
use super::ndr::{BadStub, StubReader, Writer};

/// The call succeeded.
pub const NERR_SUCCESS: u32 = 0;
/// The caller is not allowed.
pub const ERROR_ACCESS_DENIED: u32 = 5;
/// An argument has an invalid value.
pub const ERROR_INVALID_PARAMETER: u32 = 87;
/// The text is not a name of the requested kind.
pub const ERROR_INVALID_NAME: u32 = 123;
/// The level of information does not exist.
pub const ERROR_INVALID_LEVEL: u32 = 124;
/// There is more data, to be requested with the resume handle.
pub const ERROR_MORE_DATA: u32 = 234;
/// The client's limit is too small for one entry.
pub const NERR_BUF_TOO_SMALL: u32 = 2123;
/// The device is not shared.
pub const NERR_DEVICE_NOT_SHARED: u32 = 2311;
/// There is no such share.
pub const NERR_NET_NAME_NOT_FOUND: u32 = 2310;

/// MS-SRVS 2.2.2.6: Windows NT and its successors.
pub const PLATFORM_ID_NT: u32 = 500;

/// MS-SRVS 2.2.2.7: workstation, server, NT, and NT server that is not a domain controller.
const SERVER_TYPE: u32 = 0x0000_9003;

/// Runs operation `opnum`.
pub(super) fn call(
    opnum: u16,
    args: &mut StubReader<'_>,
    out: &mut Writer,
    host: &dyn Host,
) -> Result<(), Fault> {
    match opnum {
        8 => refused_enum(args, out, 1),
        9 => refused_enum(args, out, 2),
        12 => refused_enum(args, out, 2),
        15 => shares::share_enum(args, out, host, false),
        16 => shares::share_get_info(args, out, host),
        20 => shares::share_check(args, out, host),
        21 => server_get_info(args, out, host),
        28 => remote_tod(args, out, host),
        30 => paths::path_type(args, out),
        32 => paths::path_compare(args, out),
        33 => paths::name_validate(args, out),
        36 => shares::share_enum(args, out, host, true),
        _ => Err(Fault::OP_RNG_ERROR),
    }
}

/// NetrConnectionEnum, NetrFileEnum and NetrSessionEnum: callers may not see other users' sessions. The
/// arguments are the server, `strings` optional strings, and the level.
fn refused_enum(args: &mut StubReader<'_>, out: &mut Writer, strings: u32) -> Result<(), Fault> {
    // MS-SRVS 3.1.4.1, 3.1.4.2, 3.1.4.5 (exception: all callers are refused, like non-administrators)
    for _ in 0..=strings {
        args.unique_string()?;
    }
    let level = args.u32()?;
    out.u32(level);
    out.u32(level);
    out.null();
    out.u32(0);
    out.null();
    out.u32(ERROR_ACCESS_DENIED);
    Ok(())
}

fn server_get_info(args: &mut StubReader<'_>, out: &mut Writer, host: &dyn Host) -> Result<(), Fault> {
    // MS-SRVS 3.1.4.17
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
    if level >= 101 {
        out.u32(facts.version_major);
        out.u32(facts.version_minor);
        out.u32(SERVER_TYPE);
        out.pointer();
    }
    if level == 102 {
        out.u32(facts.users);
        // Idle clients are never disconnected. The server is visible, and announced every 240 s plus or
        // minus 3. There are no licences.
        out.u32(u32::MAX);
        out.u32(0);
        out.u32(240);
        out.u32(3000);
        out.u32(0);
        out.pointer();
    }
    out.string(&facts.name);
    if level >= 101 {
        out.string(&facts.comment);
    }
    if level == 102 {
        out.string("c:\\");
    }
    out.u32(NERR_SUCCESS);
    Ok(())
}

fn remote_tod(args: &mut StubReader<'_>, out: &mut Writer, host: &dyn Host) -> Result<(), Fault> {
    // MS-SRVS 3.1.4.21
    args.unique_string()?;
    let day = TimeOfDay::new(host.wall_ns());
    out.pointer();
    let seconds = day.unix_seconds;
    for value in [
        seconds as u32,
        (seconds.rem_euclid(86_400) * 1000) as u32 + day.hundredths * 10,
        day.hour,
        day.minute,
        day.second,
        day.hundredths,
        // Minutes west of UTC. The clock is in UTC.
        0,
        // The clock's step in 1/10,000 s.
        310,
        day.day,
        day.month,
        day.year,
        day.weekday,
    ] {
        out.u32(value);
    }
    out.u32(NERR_SUCCESS);
    Ok(())
}

/// A time as a calendar date in UTC.
#[derive(Debug, PartialEq, Eq)]
struct TimeOfDay {
    unix_seconds: i64,
    hundredths: u32,
    second: u32,
    minute: u32,
    hour: u32,
    day: u32,
    month: u32,
    year: u32,
    /// 0 is Sunday.
    weekday: u32,
}

impl TimeOfDay {
    fn new(wall_ns: i64) -> Self {
        let unix_seconds = wall_ns.div_euclid(1_000_000_000);
        let days = unix_seconds.div_euclid(86_400);
        let in_day = unix_seconds.rem_euclid(86_400) as u32;
        // Years start in March, so that the leap day comes last. There are 719,468 days between 0000-03-01
        // and 1970-01-01, and 146,097 in 400 years.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        TimeOfDay {
            unix_seconds,
            hundredths: (wall_ns.rem_euclid(1_000_000_000) / 10_000_000) as u32,
            second: in_day % 60,
            minute: in_day / 60 % 60,
            hour: in_day / 3600,
            day: (day_of_year - (153 * from_march + 2) / 5 + 1) as u32,
            month: month as u32,
            year: (era * 400 + year_of_era + i64::from(month <= 2)) as u32,
            weekday: (days + 4).rem_euclid(7) as u32,
        }
    }
}

/// Reads the server's name at the start of every operation. It is ignored.
fn server_name(args: &mut StubReader<'_>) -> Result<(), BadStub> {
    args.unique_string().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_agrees_with_known_days() {
        let at = |seconds: i64| {
            let t = TimeOfDay::new(seconds * 1_000_000_000 + 120_000_000);
            (t.year, t.month, t.day, t.weekday, t.hour, t.minute, t.second, t.hundredths)
        };
        // `date -u -d @N`
        assert_eq!(at(0), (1970, 1, 1, 4, 0, 0, 0, 12));
        assert_eq!(at(951_782_399), (2000, 2, 28, 1, 23, 59, 59, 12));
        assert_eq!(at(951_782_400), (2000, 2, 29, 2, 0, 0, 0, 12));
        assert_eq!(at(1_795_176_000), (2026, 11, 20, 5, 12, 0, 0, 12));
        assert_eq!(at(-1), (1969, 12, 31, 3, 23, 59, 59, 12));
        assert_eq!(at(4_107_542_400), (2100, 3, 1, 1, 0, 0, 0, 12));
    }
}
