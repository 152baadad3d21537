//! Connections that an address has left on this host when it moved away (sock_diag(7)).
//!
//! A process that ends leaves connections behind whose FIN can no longer be sent. The kernel keeps them for
//! minutes. When the address comes back, they would reply to clients that belong to connections of the owner
//! in between, in place of the reset that makes these clients connect again.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;
use wire::{Cursor, Truncated};

use crate::netlink::{ChangeRequest, DumpRequest, NetlinkFamily, Socket};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
/// The size of `inet_diag_req_v2`, and the position of its `inet_diag_sockid`.
const REQUEST: usize = 56;
const REQUEST_ID: usize = 8;
/// The size of `inet_diag_sockid`: two ports, two addresses, the interface and a cookie.
const ID: usize = 48;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// The bits of all states (1 to 12) but TCP_LISTEN (10).
const ALL_BUT_LISTENERS: u32 = 0x1ffe & !(1 << 10);

/// The kernel's identity of a connection.
type ConnectionId = [u8; ID];

/// Ends all connections of the address. A kernel that cannot (before Linux 4.5, or without
/// CONFIG_INET_DIAG_DESTROY) keeps them until their time is over.
pub(super) fn end(address: IpAddr) -> io::Result<()> {
    let socket = Socket::open(NetlinkFamily::SockDiag, 0)?;
    let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    let body = request(family, ALL_BUT_LISTENERS, &[0; ID]);
    let asked = DumpRequest { ask: SOCK_DIAG_BY_FAMILY, answer: SOCK_DIAG_BY_FAMILY, body: &body };
    let found = match socket.dump(asked, |message| connection(message, address)) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Vec::new(),
        found => found?,
    };
    for id in found {
        let body = request(family, ALL_BUT_LISTENERS, &id);
        match socket.change(ChangeRequest { ask: SOCK_DESTROY, flags: 0, body: &body }) {
            Ok(()) => {}
            Err(error) => match Errno::from_io_error(&error) {
                // It has just ended by itself.
                Some(Errno::NOENT) => {}
                Some(Errno::OPNOTSUPP) => return Ok(()),
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

/// An `inet_diag_req_v2`.
fn request(family: u8, states: u32, id: &ConnectionId) -> [u8; REQUEST] {
    let mut body = [0; REQUEST];
    body[..2].copy_from_slice(&[family, IPPROTO_TCP]);
    body[4..8].copy_from_slice(&states.to_ne_bytes());
    body[REQUEST_ID..].copy_from_slice(id);
    body
}

/// Reads an `inet_diag_msg`: the identity of a connection, if its local address is this one.
fn connection(message: &mut Cursor<'_>, address: IpAddr) -> Result<Option<ConnectionId>, Truncated> {
    let [family, ..] = message.array::<4>()?;
    let id: ConnectionId = message.array()?;
    let mut octets = [0; 16];
    octets.copy_from_slice(&id[4..20]);
    let local = match family {
        AF_INET => IpAddr::V4(Ipv4Addr::from([octets[0], octets[1], octets[2], octets[3]])),
        _ => IpAddr::V6(Ipv6Addr::from(octets)),
    };
    Ok((local == address).then_some(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_the_address_is_named_by_what_the_kernel_called_it() {
        let mut id = [7; ID];
        id[4..20].fill(0);
        id[4..8].copy_from_slice(&[10, 77, 0, 50]);
        let message = [&[AF_INET, 1, 0, 0][..], &id, &[0; 20]].concat();
        let found = |address: [u8; 4]| connection(&mut Cursor::new(&message), address.into());
        assert_eq!(found([10, 77, 0, 50]), Ok(Some(id)));
        assert_eq!(found([10, 77, 0, 51]), Ok(None));
        assert_eq!(request(AF_INET, 2, &id)[REQUEST_ID..], id);
        for end in 0..4 + ID {
            let cut = connection(&mut Cursor::new(&message[..end]), IpAddr::from([10, 77, 0, 50]));
            assert!(cut.is_err(), "{end}");
        }
    }

    /// Nothing is found for an address of documentation (RFC 5737), so nothing is ended.
    #[test]
    fn an_address_without_connections_needs_no_privilege() {
        end(IpAddr::from([192, 0, 2, 1])).expect("sock_diag");
    }
}
