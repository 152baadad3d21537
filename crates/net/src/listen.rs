//! Listening sockets. They are bound before anything starts, so that an address in use is one clear error.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt};

use crate::inherited::InheritedListeners;

/// Connections that may wait to be accepted.
pub(crate) const BACKLOG: i32 = 4096;
/// Attempts to find a port that is free for both IPv4 and IPv6, if any port will do.
const PORT_ATTEMPTS: usize = 16;

/// An address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {}", explain(.reason))]
pub struct BindError {
    /// The requested address.
    pub address: SocketAddr,
    /// The host's error.
    #[source]
    pub reason: io::Error,
}

/// The host's error in words that lead to the setting.
fn explain(reason: &io::Error) -> String {
    match reason.kind() {
        io::ErrorKind::AddrInUse => "another program uses this port".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this host does not have the address".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "no permission (a port below 1024 needs root or CAP_NET_BIND_SERVICE)".to_owned()
        }
        _ => reason.to_string(),
    }
}

/// Bound sockets that listen. Nothing is accepted before they are served.
#[derive(Debug)]
pub struct Listeners {
    pub(crate) sockets: Vec<(TcpListener, SocketAddr)>,
}

impl Listeners {
    /// Binds each of `addresses`. An IPv6 address covers IPv6 only, so `0.0.0.0` and `[::]` go together.
    ///
    /// # Errors
    /// The first address that cannot be bound, and the reason. No address is bound then.
    pub fn bind(addresses: &[SocketAddr]) -> Result<Listeners, BindError> {
        Listeners::bind_moving(addresses, &[])
    }

    /// Like [`Listeners::bind`]. The host need not have those addresses that are among `moving`: it gets them
    /// once it serves, and no client finds it without a listener then.
    ///
    /// # Errors
    /// As of [`Listeners::bind`].
    pub fn bind_moving(addresses: &[SocketAddr], moving: &[IpAddr]) -> Result<Listeners, BindError> {
        Listeners::bind_moving_or_take(addresses, moving, &mut InheritedListeners::default())
    }

    /// Like [`Listeners::bind_moving`]. A socket that this process has inherited is taken over where it
    /// listens on a requested address and port. One that is in the way of a requested address is closed.
    ///
    /// # Errors
    /// As of [`Listeners::bind`].
    pub fn bind_moving_or_take(
        addresses: &[SocketAddr],
        moving: &[IpAddr],
        inherited: &mut InheritedListeners,
    ) -> Result<Listeners, BindError> {
        let open = |address: &SocketAddr| open(*address, moving.contains(&address.ip()), inherited);
        Ok(Listeners { sockets: addresses.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Binds `port` on every address of the host, IPv4 and IPv6 (if the host has it). Port 0 takes any free
    /// port, the same for both. Inherited sockets are taken over, as by [`Listeners::bind_moving_or_take`].
    ///
    /// # Errors
    /// The address that cannot be bound, and the reason.
    pub fn bind_any(port: u16, inherited: &mut InheritedListeners) -> Result<Listeners, BindError> {
        let mut attempts = if port == 0 { PORT_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            let four = open(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), false, inherited)?;
            match open(SocketAddr::from((Ipv6Addr::UNSPECIFIED, four.1.port())), false, inherited) {
                Ok(six) => return Ok(Listeners { sockets: vec![four, six] }),
                Err(error) if is_absent(&error.reason) => return Ok(Listeners { sockets: vec![four] }),
                Err(_) if attempts > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Combines these listeners with others.
    #[must_use]
    pub fn join(mut self, others: Listeners) -> Listeners {
        self.sockets.extend(others.sockets);
        self
    }

    /// The sockets and their addresses.
    pub fn sockets(&self) -> impl Iterator<Item = (&TcpListener, SocketAddr)> {
        self.sockets.iter().map(|(listener, address)| (listener, *address))
    }

    /// The addresses, with the ports that the host has chosen.
    #[must_use]
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|(_, address)| *address).collect()
    }
}

/// Whether the host lacks this address family.
fn is_absent(reason: &io::Error) -> bool {
    let code = reason.raw_os_error();
    code == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
        || reason.kind() == io::ErrorKind::AddrNotAvailable
}

/// Whether a socket that listens on `listening` accepts connections to `address`.
#[must_use]
pub fn accepts(listening: IpAddr, address: IpAddr) -> bool {
    listening == address || listening.is_unspecified() && listening.is_ipv4() == address.is_ipv4()
}

/// Takes over the socket that listens on `address`, or opens one.
fn open(
    address: SocketAddr,
    is_moving: bool,
    inherited: &mut InheritedListeners,
) -> Result<(TcpListener, SocketAddr), BindError> {
    if let Some(listener) = inherited.take(address) {
        return Ok((listener, address));
    }
    match open_new(address, is_moving) {
        Err(error) if error.reason.kind() == io::ErrorKind::AddrInUse && inherited.make_room(address) => {
            open_new(address, is_moving)
        }
        opened => opened,
    }
}

fn open_new(address: SocketAddr, is_moving: bool) -> Result<(TcpListener, SocketAddr), BindError> {
    let attempt = || -> io::Result<(TcpListener, SocketAddr)> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        // A restart must not wait for the connections of the process before it.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        match address {
            SocketAddr::V4(_) if is_moving => sockopt::set_ip_freebind(&socket, true)?,
            SocketAddr::V6(_) if is_moving => sockopt::set_ipv6_freebind(&socket, true)?,
            _ => {}
        }
        bind(&socket, &address)?;
        listen(&socket, BACKLOG)?;
        let listener = TcpListener::from(socket);
        let local = listener.local_addr()?;
        Ok((listener, local))
    };
    attempt().map_err(|reason| BindError { address, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_use_is_named_with_its_reason() {
        let first = Listeners::bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]).expect("a free port");
        let taken = first.local_addresses();
        let error = Listeners::bind(&taken).expect_err("it is in use");
        assert_eq!(error.address, taken[0]);
        assert_eq!(
            error.to_string(),
            format!("cannot listen on {}: another program uses this port", taken[0])
        );
    }

    #[test]
    fn an_address_of_another_host_is_refused() {
        let foreign = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 0));
        let error = Listeners::bind(&[foreign]).expect_err("not ours");
        assert!(error.to_string().contains("192.0.2.1:0"), "{error}");
        let moving = Listeners::bind_moving(&[foreign], &[foreign.ip()]).expect("it may come");
        assert_eq!(moving.local_addresses()[0].ip(), foreign.ip());
    }

    #[test]
    fn both_families_share_one_port() {
        let both = Listeners::bind_any(0, &mut InheritedListeners::default()).expect("a free port");
        let ports: Vec<u16> = both.local_addresses().iter().map(SocketAddr::port).collect();
        assert!(ports.iter().all(|&port| port != 0 && port == ports[0]), "{ports:?}");
    }
}
