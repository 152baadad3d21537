//! The server's membership of a Kerberos realm or an Active Directory domain.
//!
//! Start with [`membership`], which joins, leaves and renews by the programs of the host, and with
//! [`mod@examine`], which tries each step from the DNS to a ticket for the server and names what is wrong.
//! [`controllers`] finds the KDCs. [`kdc`] and [`dns`] ask them and the name servers one question each.
//! [`accounts`] makes the resolver of the domain's users, and [`directory`] is its way to LDAP.
//! [`search`] asks the directory for an account and for the domain itself, and [`permission`] says what a
//! join may do there. [`logon`] is an administrator who does it.
//! [`keytab`] reads the list of the server's keys, and [`work`] replaces them. [`program`] runs `adcli`,
//! `kinit` and `kvno`, and [`ticket`] keeps their tickets in a directory that [`scratch`] makes.

pub mod accounts;
pub mod controllers;
pub mod directory;
mod directory_steps;
pub mod dns;
pub mod enctype;
pub mod examine;
pub mod kdc;
pub mod keytab;
pub mod logon;
pub mod membership;
pub mod permission;
pub mod program;
mod scratch;
pub mod search;
pub mod ticket;
pub mod work;

/// The largest difference between two clocks that Kerberos allows by default (RFC 4120 8.2).
pub const MAX_SKEW_S: u64 = 300;
/// The command that sets a clock.
pub const SET_CLOCK: &str = "`timedatectl set-ntp true`, or `chronyd -q 'pool HOST iburst'`";

/// Says how far the host's clock is from that of a KDC, if that is too far.
pub fn skew(ahead_s: i64) -> Option<String> {
    let direction = if ahead_s > 0 { "ahead of" } else { "behind" };
    (ahead_s.unsigned_abs() > MAX_SKEW_S).then(|| format!("{} s {direction}", ahead_s.unsigned_abs()))
}
