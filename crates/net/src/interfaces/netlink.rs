//! rtnetlink: asks the kernel for its interfaces and addresses, and hears of their changes (rtnetlink(7)).
//!
//! Messages are read with the bounded [`Cursor`]; what is not understood is passed over.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use wire::{Cursor, Truncated};

/// What can be asked for: the kinds of the request and of the answers.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    ask: u16,
    answer: u16,
}

/// RTM_GETLINK, RTM_NEWLINK
pub const LINKS: Kind = Kind { ask: 18, answer: 16 };
/// RTM_GETADDR, RTM_NEWADDR
pub const ADDRESSES: Kind = Kind { ask: 22, answer: 20 };
/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR.
pub const CHANGES: u32 = 0x1 | 0x10 | 0x100;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST and NLM_F_DUMP.
const ASK_FOR_ALL: u16 = 0x1 | 0x300;
/// The sizes of a message's header and of an attribute's.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;
/// An interface with many virtual functions fills half of it.
const BUFFER: usize = 64 * 1024;
/// The kernel answers at once; this only keeps a fault from lasting for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// An interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    pub if_index: u32,
    pub name: String,
    pub up: bool,
    pub loopback: bool,
}

/// An address of an interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Address {
    pub if_index: u32,
    pub address: IpAddr,
    pub prefix: u8,
    pub settled: bool,
}

/// A netlink socket.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// A socket that hears of changes in `groups`; 0 is none.
    pub fn open(groups: u32) -> io::Result<Socket> {
        let kind = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC);
        // No protocol is NETLINK_ROUTE, which has the number 0.
        let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, None)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Socket(socket))
    }

    /// Passes over what has come so far.
    pub fn drain(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        // ENOBUFS says that changes were lost; what is read afterwards holds them.
        while matches!(
            rustix::net::recv(&self.0, &mut buffer, RecvFlags::DONTWAIT),
            Ok(_) | Err(Errno::NOBUFS | Errno::INTR)
        ) {}
    }

    /// All that the kernel has of a kind; `parse` takes the body of one answer.
    pub fn dump<T>(
        &self,
        kind: Kind,
        parse: impl Fn(&mut Cursor<'_>) -> Result<Option<T>, Truncated>,
    ) -> io::Result<Vec<T>> {
        rustix::net::send(&self.0, &question(kind.ask), SendFlags::empty())?;
        let mut found = Vec::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            let (received, whole) =
                retry_on_intr(|| rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::TRUNC))?;
            if whole > received {
                return Err(senseless());
            }
            if read(&buffer[..received], kind.answer, &parse, &mut found)? {
                return Ok(found);
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn senseless() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer of the kernel about interfaces makes no sense")
}

/// A request for everything of a kind: a header, and a body of the family "any".
fn question(request: u16) -> [u8; HEADER + 16] {
    let mut message = [0; HEADER + 16];
    let len = message.len() as u32;
    message[..4].copy_from_slice(&len.to_ne_bytes());
    message[4..6].copy_from_slice(&request.to_ne_bytes());
    message[6..8].copy_from_slice(&ASK_FOR_ALL.to_ne_bytes());
    message
}

/// Reads the messages of one datagram. True when the last of an answer is among them.
fn read<T>(
    datagram: &[u8],
    answer: u16,
    parse: impl Fn(&mut Cursor<'_>) -> Result<Option<T>, Truncated>,
    found: &mut Vec<T>,
) -> io::Result<bool> {
    let mut rest = Cursor::new(datagram);
    while rest.remaining() >= HEADER {
        let mut one = || -> Result<(u16, Cursor<'_>), Truncated> {
            let len = u32::from_ne_bytes(rest.array()?) as usize;
            let kind = u16::from_ne_bytes(rest.array()?);
            rest.skip(HEADER - 6)?;
            let body = len.checked_sub(HEADER).ok_or(Truncated { at: 0 })?;
            let message = rest.sub(body)?;
            rest.skip(padding(len).min(rest.remaining()))?;
            Ok((kind, message))
        };
        let (kind, mut message) = one().map_err(|_| senseless())?;
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = message.array().map(i32::from_ne_bytes).map_err(|_| senseless())?;
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            kind if kind == answer => found.extend(parse(&mut message).map_err(|_| senseless())?),
            _ => {}
        }
    }
    Ok(false)
}

/// Bytes behind something of `len` bytes up to the next multiple of four.
fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// Calls `take` with the kind and the value of each attribute.
fn attributes<'a>(body: &mut Cursor<'a>, mut take: impl FnMut(u16, &'a [u8])) -> Result<(), Truncated> {
    // NLA_F_NESTED and NLA_F_NET_BYTEORDER are no part of the kind.
    const KIND: u16 = 0x3fff;
    while body.remaining() >= ATTRIBUTE {
        let len = usize::from(u16::from_ne_bytes(body.array()?));
        let kind = u16::from_ne_bytes(body.array()?) & KIND;
        let value = body.bytes(len.checked_sub(ATTRIBUTE).ok_or(Truncated { at: body.position() })?)?;
        body.skip(padding(len).min(body.remaining()))?;
        take(kind, value);
    }
    Ok(())
}

/// Reads an `ifinfomsg` and its attributes.
pub fn link(body: &mut Cursor<'_>) -> Result<Option<Link>, Truncated> {
    const IFF_UP: u32 = 0x1;
    const IFF_LOOPBACK: u32 = 0x8;
    const IFF_RUNNING: u32 = 0x40;
    const IFLA_IFNAME: u16 = 3;
    // Family, padding, type of the device.
    body.skip(4)?;
    let if_index = u32::from_ne_bytes(body.array()?);
    let flags = u32::from_ne_bytes(body.array()?);
    body.skip(4)?;
    let mut name = None;
    attributes(body, |kind, value| {
        if kind == IFLA_IFNAME {
            let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
            name = Some(String::from_utf8_lossy(&value[..end]).into_owned());
        }
    })?;
    Ok(name.filter(|_| if_index != 0).map(|name| Link {
        if_index,
        name,
        up: flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING,
        loopback: flags & IFF_LOOPBACK != 0,
    }))
}

/// Reads an `ifaddrmsg` and its attributes.
pub fn address(body: &mut Cursor<'_>) -> Result<Option<Address>, Truncated> {
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    const IFA_FLAGS: u16 = 8;
    const IFA_F_DADFAILED: u32 = 0x8;
    const IFA_F_TENTATIVE: u32 = 0x40;
    let [family, prefix, flags, _scope] = body.array()?;
    let if_index = u32::from_ne_bytes(body.array()?);
    let (mut other, mut own, mut flags) = (None, None, u32::from(flags));
    attributes(body, |kind, value| match kind {
        // On a link between two hosts this is the other end's.
        IFA_ADDRESS => other = ip(u16::from(family), value),
        IFA_LOCAL => own = ip(u16::from(family), value),
        IFA_FLAGS => flags = value.try_into().map_or(flags, u32::from_ne_bytes),
        _ => {}
    })?;
    let settled = flags & (IFA_F_DADFAILED | IFA_F_TENTATIVE) == 0;
    let address = own.or(other).filter(|_| if_index != 0);
    Ok(address.map(|address| Address { if_index, address, prefix, settled }))
}

fn ip(family: u16, value: &[u8]) -> Option<IpAddr> {
    match AddressFamily::from_raw(family) {
        AddressFamily::INET => <[u8; 4]>::try_from(value).ok().map(|octets| Ipv4Addr::from(octets).into()),
        AddressFamily::INET6 => <[u8; 16]>::try_from(value).ok().map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel sends it, on this host's byte order.
    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend((HEADER as u32 + body.len() as u32).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend([0; 10]);
        out.extend(body);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend((ATTRIBUTE as u16 + value.len() as u16).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    fn address_message(family: u8, flags: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![family, 24, flags, 0];
        body.extend(7u32.to_ne_bytes());
        body.extend(attributes.concat());
        message(ADDRESSES.answer, &body)
    }

    fn addresses(datagram: &[u8]) -> Vec<Address> {
        let mut found = Vec::new();
        let done = [datagram, &message(NLMSG_DONE, &[0; 4])].concat();
        assert!(read(&done, ADDRESSES.answer, address, &mut found).expect("readable"));
        found
    }

    #[test]
    fn the_own_end_of_a_link_between_two_hosts_counts() {
        let both = [attribute(1, &[192, 0, 2, 2]), attribute(2, &[192, 0, 2, 1])];
        let found = addresses(&address_message(2, 0, &both));
        let own = "192.0.2.1".parse().expect("an address");
        assert_eq!(found, [Address { if_index: 7, address: own, prefix: 24, settled: true }]);
    }

    #[test]
    fn an_address_that_is_still_being_tried_is_not_settled() {
        let six = attribute(1, &[0x20; 16]);
        // The short field of flags has no room for newer ones; the attribute counts where it stands.
        assert!(!addresses(&address_message(10, 0x40, std::slice::from_ref(&six)))[0].settled);
        let long = attribute(8, &0x08u32.to_ne_bytes());
        assert!(!addresses(&address_message(10, 0, &[six.clone(), long]))[0].settled);
        assert!(addresses(&address_message(10, 0, &[six]))[0].settled);
    }

    #[test]
    fn a_link_without_a_carrier_is_down() {
        let link_message = |flags: u32| {
            let mut body = vec![0; 4];
            body.extend(3u32.to_ne_bytes());
            body.extend(flags.to_ne_bytes());
            body.extend([0; 4]);
            body.extend(attribute(3, b"eth0\0"));
            let mut found = Vec::new();
            assert!(!read(&message(LINKS.answer, &body), LINKS.answer, link, &mut found).expect("readable"));
            found.remove(0)
        };
        let found = link_message(0x1 | 0x40);
        assert_eq!(found, Link { if_index: 3, name: "eth0".to_owned(), up: true, loopback: false });
        assert!(!link_message(0x1).up && !link_message(0x40).up && link_message(0x49).loopback);
    }

    #[test]
    fn no_bytes_make_it_panic_and_broken_ones_are_an_error() {
        let whole = address_message(2, 0, &[attribute(2, &[192, 0, 2, 1])]);
        for end in 0..whole.len() {
            let mut found = Vec::new();
            let read = read(&whole[..end], ADDRESSES.answer, address, &mut found);
            assert!(read.is_err() == (end >= HEADER) && found.is_empty(), "{end}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _answer_or_error = read(&changed, ADDRESSES.answer, address, &mut Vec::new());
                let _answer_or_error = read(&changed, ADDRESSES.answer, link, &mut Vec::new());
            }
        }
        let refused = message(NLMSG_ERROR, &(-13i32).to_ne_bytes());
        let error = read(&refused, ADDRESSES.answer, address, &mut Vec::new()).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
