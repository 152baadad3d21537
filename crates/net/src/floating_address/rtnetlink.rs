//! Requests of rtnetlink(7): to give an interface an address, to take it away, and to send nothing from it.

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;
use wire::{Cursor, Truncated};

use crate::interfaces::messages::{ADDRESSES, Address, LINKS, Link, address, link};
use crate::netlink::{ChangeRequest, DumpRequest, NetlinkFamily, ONLY_NEW, REPLACE, Socket, put_attribute};

const RTM_SETLINK: u16 = 19;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_CACHEINFO: u16 = 6;
/// The kernel does not look for duplicates.
const IFA_F_NODAD: u8 = 0x02;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
/// The type of a route to this host itself.
const RTN_LOCAL: u8 = 2;

const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
/// The action of a rule that drops packets without a notice.
const FR_ACT_BLACKHOLE: u8 = 6;
/// The rule comes after the one for this host's own addresses, which is 0, and before all others.
const SILENCE_PRIORITY: u32 = 1;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// All interfaces.
pub(super) fn links() -> io::Result<Vec<Link>> {
    Socket::open(NetlinkFamily::Route, 0)?.dump(LINKS, link)
}

/// All addresses of all interfaces.
pub(super) fn addresses() -> io::Result<Vec<Address>> {
    Socket::open(NetlinkFamily::Route, 0)?.dump(ADDRESSES, address)
}

/// The name of an interface. Its number, if it is gone.
pub(super) fn name_of(if_index: u32) -> io::Result<String> {
    let named = links()?.into_iter().find(|link| link.if_index == if_index).map(|link| link.name);
    Ok(named.unwrap_or_else(|| format!("interface {if_index}")))
}

/// Gives an interface an address with a lifetime in seconds. The kernel removes it when that is over.
pub(super) fn add_address(if_index: u32, address: IpAddr, prefix: u8, seconds: u32) -> io::Result<()> {
    change(RTM_NEWADDR, ONLY_NEW, &limited_body(if_index, address, prefix, seconds))
}

/// Gives an address of an interface a lifetime, from now on. The kernel removes it when that is over.
pub(super) fn limit_address(if_index: u32, address: IpAddr, prefix: u8, seconds: u32) -> io::Result<()> {
    change(RTM_NEWADDR, REPLACE, &limited_body(if_index, address, prefix, seconds))
}

/// Takes an address from an interface. Returns false if it is gone already, or the interface is.
pub(super) fn remove_address(if_index: u32, address: IpAddr, prefix: u8) -> io::Result<bool> {
    let gone = [Errno::ADDRNOTAVAIL, Errno::NODEV];
    unless(change(RTM_DELADDR, 0, &address_body(if_index, address, prefix)), &gone)
}

/// Whether the kernel takes packets to an address of an interface for this host. No route at all is an error.
pub(super) fn is_delivered(if_index: u32, address: IpAddr) -> io::Result<bool> {
    let body = route_body(if_index, address);
    let request = DumpRequest { ask: RTM_GETROUTE, answer: RTM_NEWROUTE, body: &body };
    Ok(Socket::open(NetlinkFamily::Route, 0)?.find(request, route_type)? == Some(RTN_LOCAL))
}

/// Whether an error of [`add_address`] means that the interface has no IPv6.
pub(super) fn is_ipv6_off(error: &io::Error, address: IpAddr) -> bool {
    address.is_ipv6() && Errno::from_io_error(error) == Some(Errno::ACCESS)
}

/// Makes the interface keep its other IPv4 addresses of a network when the first one goes. Without this
/// setting (promote_secondaries) the kernel removes them all.
pub(super) fn keep_secondaries(if_index: u32) -> io::Result<()> {
    unless(change(RTM_SETLINK, 0, &keep_secondaries_body(if_index)), &[Errno::OPNOTSUPP]).map(drop)
}

/// Makes this host send nothing from an address. The rule does not concern packets that it forwards.
pub(super) fn silence(address: IpAddr) -> io::Result<()> {
    unless(change(RTM_NEWRULE, ONLY_NEW, &silence_body(address)), &[Errno::EXIST]).map(drop)
}

/// Ends [`silence`], if there is one.
pub(super) fn lift_silence(address: IpAddr) -> io::Result<()> {
    // AFNOSUPPORT and OPNOTSUPP: a kernel without routing rules has none to remove.
    let none = [Errno::NOENT, Errno::AFNOSUPPORT, Errno::OPNOTSUPP];
    while unless(change(RTM_DELRULE, 0, &silence_body(address)), &none)? {}
    Ok(())
}

fn change(ask: u16, flags: u16, body: &[u8]) -> io::Result<()> {
    Socket::open(NetlinkFamily::Route, 0)?.change(ChangeRequest { ask, flags, body })
}

/// Turns errors that mean "nothing to do" into false.
fn unless(done: io::Result<()>, expected: &[Errno]) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(error) if Errno::from_io_error(&error).is_some_and(|errno| expected.contains(&errno)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    }
}

/// An `ifaddrmsg` with the address.
fn address_body(if_index: u32, address: IpAddr, prefix: u8) -> Vec<u8> {
    let flags = if address.is_ipv6() { IFA_F_NODAD } else { 0 };
    // The scope is 0, which is the whole network.
    let mut body = vec![family(address), prefix, flags, 0];
    body.extend(if_index.to_ne_bytes());
    put_attribute(&mut body, IFA_LOCAL, &octets(address));
    put_attribute(&mut body, IFA_ADDRESS, &octets(address));
    body
}

/// An `ifaddrmsg` with the address and its lifetime.
fn limited_body(if_index: u32, address: IpAddr, prefix: u8, seconds: u32) -> Vec<u8> {
    let mut body = address_body(if_index, address, prefix);
    // `ifa_cacheinfo`: the preferred lifetime, the valid one, and two times that the kernel sets. This host
    // prefers any other IPv6 address of its own.
    let preferred = if address.is_ipv6() { 0 } else { seconds };
    put_attribute(&mut body, IFA_CACHEINFO, &[preferred, seconds, 0, 0].map(u32::to_ne_bytes).concat());
    body
}

/// An `rtmsg` that requests the route to an address by an interface.
fn route_body(if_index: u32, address: IpAddr) -> Vec<u8> {
    let to = octets(address);
    // Family, length of the destination and of the source, TOS, table, origin, scope, type, flags.
    let mut body = vec![family(address), (to.len() * 8) as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    put_attribute(&mut body, RTA_DST, &to);
    put_attribute(&mut body, RTA_OIF, &if_index.to_ne_bytes());
    body
}

/// Reads the type of the route in an `rtmsg`.
fn route_type(body: &mut Cursor<'_>) -> Result<Option<u8>, Truncated> {
    let [_, _, _, _, _, _, _, kind] = body.array()?;
    Ok(Some(kind))
}

/// A `fib_rule_hdr` and attributes: what this host itself sends from the address is dropped.
fn silence_body(address: IpAddr) -> Vec<u8> {
    let from = octets(address);
    // Family, length of the destination and of the source, TOS, table, two unused bytes, action, flags.
    let bits = (from.len() * 8) as u8;
    let mut body = vec![family(address), 0, bits, 0, 0, 0, 0, FR_ACT_BLACKHOLE, 0, 0, 0, 0];
    put_attribute(&mut body, FRA_SRC, &from);
    // Packets of this host come from the interface lo (ip-rule(8)).
    put_attribute(&mut body, FRA_IIFNAME, b"lo\0");
    put_attribute(&mut body, FRA_PRIORITY, &SILENCE_PRIORITY.to_ne_bytes());
    body
}

/// An `ifinfomsg` with the setting.
fn keep_secondaries_body(if_index: u32) -> Vec<u8> {
    const IFLA_AF_SPEC: u16 = 26;
    const IFLA_INET_CONF: u16 = 1;
    const IPV4_DEVCONF_PROMOTE_SECONDARIES: u16 = 20;
    let (mut setting, mut settings, mut of_ipv4) = (Vec::new(), Vec::new(), Vec::new());
    put_attribute(&mut setting, IPV4_DEVCONF_PROMOTE_SECONDARIES, &1u32.to_ne_bytes());
    put_attribute(&mut settings, IFLA_INET_CONF, &setting);
    put_attribute(&mut of_ipv4, u16::from(AF_INET), &settings);
    // Family, padding, type of the device; then flags and the mask of changed flags, both none.
    let mut body = vec![0; 4];
    body.extend(if_index.to_ne_bytes());
    body.extend([0; 8]);
    put_attribute(&mut body, IFLA_AF_SPEC, &of_ipv4);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: [u8; 4] = [10, 77, 0, 50];

    #[test]
    fn a_request_for_an_address_has_the_layout_of_ifaddrmsg() {
        let body = address_body(7, FOUR.into(), 24);
        assert_eq!(body[..4], [2, 24, 0, 0]);
        assert_eq!(body[4..8], 7u32.to_ne_bytes());
        let attribute = |kind: u16| [&8u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &FOUR].concat();
        assert_eq!(body[8..], [attribute(2), attribute(1)].concat());
        // IPv6 addresses are not looked for by the kernel.
        let six = address_body(7, IpAddr::from([0xfd; 16]), 64);
        assert_eq!((&six[..4], six.len()), (&[10, 64, 2, 0][..], 8 + 2 * 20));
        // An address that we have added is told from one of the machine by its lifetime.
        let limited = limited_body(7, FOUR.into(), 24, 5);
        assert_eq!(limited[24..28], [&20u16.to_ne_bytes()[..], &6u16.to_ne_bytes()].concat());
        assert_eq!(limited[28..], [5u32, 5, 0, 0].map(u32::to_ne_bytes).concat());
    }

    #[test]
    fn a_route_is_requested_by_its_end_and_read_by_its_type() {
        let body = route_body(7, FOUR.into());
        assert_eq!(body[..12], [2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((&body[16..20], &body[24..]), (&FOUR[..], &7u32.to_ne_bytes()[..]));
        let route = [2, 32, 0, 0, 255, 2, 254, RTN_LOCAL, 0, 0, 0, 0];
        assert_eq!(route_type(&mut Cursor::new(&route)), Ok(Some(RTN_LOCAL)));
        assert!(route_type(&mut Cursor::new(&route[..7])).is_err());
        let own = IpAddr::from([127, 0, 0, 1]);
        assert!(is_delivered(1, own).expect("the route to this host"));
        // There is another route by lo, or none.
        assert!(!matches!(is_delivered(1, IpAddr::from([192, 0, 2, 1])), Ok(true)));
    }

    #[test]
    fn the_rule_of_silence_concerns_one_address_and_only_what_this_host_sends() {
        let body = silence_body(FOUR.into());
        assert_eq!(body[..12], [2, 0, 32, 0, 0, 0, 0, 6, 0, 0, 0, 0]);
        // The attributes of the source, of the interface with its padding, and of the priority.
        assert_eq!(body[16..20], FOUR);
        assert_eq!(body[24..28], *b"lo\0\0");
        assert_eq!(body[32..], 1u32.to_ne_bytes());
        assert_eq!(silence_body(IpAddr::from([0xfd; 16]))[..3], [10, 0, 128]);
    }

    #[test]
    fn only_the_expected_errors_mean_that_there_is_nothing_to_do() {
        let error = |errno: Errno| Err(io::Error::from(errno));
        assert!(unless(Ok(()), &[]).expect("done"));
        assert!(!unless(error(Errno::EXIST), &[Errno::EXIST]).expect("nothing to do"));
        assert!(unless(error(Errno::PERM), &[Errno::EXIST]).is_err());
        assert!(is_ipv6_off(&io::Error::from(Errno::ACCESS), IpAddr::from([0xfd; 16])));
        assert!(!is_ipv6_off(&io::Error::from(Errno::PERM), IpAddr::from([0xfd; 16])));
    }
}
