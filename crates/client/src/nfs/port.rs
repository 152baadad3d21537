//! The local port of connections: a low port if we may use one. Many servers accept AUTH_SYS only from low
//! ports, because on a well-kept client only root can use one. Each export of the Linux server without
//! `insecure` requires it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpSocket, TcpStream};

/// The low ports that the Linux client uses. No well-known service has one of them.
const FIRST: u16 = 665;
const COUNT: u16 = 1024 - FIRST;

/// Connects to `address` from a low port, or from any port if we may not use one or none is free.
pub(super) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let start = u16::from_ne_bytes(auth::crypto::random()) % COUNT;
    connect_from((0..COUNT).map(|at| FIRST + (start + at) % COUNT), address).await
}

/// Connects from the first free port of `ports`.
async fn connect_from(ports: impl Iterator<Item = u16>, address: SocketAddr) -> io::Result<TcpStream> {
    for port in ports {
        let (socket, any) = match address {
            SocketAddr::V4(_) => (TcpSocket::new_v4()?, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            SocketAddr::V6(_) => (TcpSocket::new_v6()?, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        };
        match socket.bind(SocketAddr::new(any, port)) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => break,
            Err(error) if error.kind() == ErrorKind::AddrInUse => continue,
            bound => bound?,
        }
        match socket.connect(address).await {
            // An earlier connection between these ports is not over yet.
            Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable) => {}
            connected => return connected,
        }
    }
    TcpStream::connect(address).await
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_first_free_port_is_taken_and_any_where_none_is() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let taken = address.port();
        let free = std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        let stream = connect_from([taken, free].into_iter(), address).await.unwrap();
        assert_eq!(stream.local_addr().unwrap().port(), free);
        let stream = connect_from([taken, free].into_iter(), address).await.unwrap();
        assert!(![taken, free].contains(&stream.local_addr().unwrap().port()));
    }

    #[tokio::test]
    async fn who_may_have_a_low_port_takes_one_and_who_may_not_connects_all_the_same() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let may = (FIRST..1024).any(|port| std::net::TcpListener::bind(("0.0.0.0", port)).is_ok());
        let from = connect(address).await.unwrap().local_addr().unwrap().port();
        assert_eq!((FIRST..1024).contains(&from), may, "from port {from}");
    }
}
