//! Listening sockets that this process has inherited from the service manager: those that it has stored for
//! the process before, and those that it has opened itself (`sd_listen_fds(3)`).
//!
//! A stored socket goes on listening while no process serves it. Clients that connect meanwhile wait in its
//! queue, and the next process accepts them. A refused connection would cost them seconds.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{Shutdown, SocketType, ipproto, listen, shutdown, sockopt};

use crate::listen::{BACKLOG, accepts};

/// The beginning of the name of each stored socket.
const STORED: &str = "trunkline-listener";

/// The name under which the service manager stores the socket that listens on `address`.
#[must_use]
pub fn stored_name(address: SocketAddr) -> String {
    // A colon separates names.
    format!("{STORED}-{address}").replace(':', "_")
}

/// Ends the listening of a socket in every process that has it, and resets the connections in its queue.
pub fn stop_listening(listener: &TcpListener) {
    // It fails if another process was first.
    let _ = shutdown(listener, Shutdown::Both);
}

/// A listening TCP socket of the service manager.
#[derive(Debug)]
struct InheritedListener {
    /// The name that the service manager has for it.
    name: String,
    listener: TcpListener,
    address: SocketAddr,
}

impl InheritedListener {
    /// Examines a descriptor. None if it is no listening TCP socket with the options of
    /// [`crate::Listeners::bind`].
    fn examine(name: &str, descriptor: OwnedFd) -> Option<InheritedListener> {
        let is_listener = sockopt::socket_acceptconn(&descriptor).ok()?
            && sockopt::socket_type(&descriptor).ok()? == SocketType::STREAM
            && sockopt::socket_protocol(&descriptor).ok()? == Some(ipproto::TCP);
        let listener = TcpListener::from(descriptor);
        let address = listener.local_addr().ok()?;
        let is_single = address.is_ipv4() || sockopt::ipv6_v6only(&listener).ok()?;
        let prepare = || -> io::Result<()> {
            listener.set_nonblocking(true)?;
            sockopt::set_socket_reuseaddr(&listener, true)?;
            Ok(listen(&listener, BACKLOG)?)
        };
        (is_listener && is_single && prepare().is_ok()).then(|| InheritedListener {
            name: name.to_owned(),
            listener,
            address,
        })
    }

    /// Whether a process before this one has stored it. The service manager has opened other ones itself.
    fn is_stored(&self) -> bool {
        self.name.starts_with(STORED)
    }

    /// Whether no other socket can listen on `address` while this one listens.
    fn excludes(&self, address: SocketAddr) -> bool {
        let (own, other) = (self.address.ip(), address.ip());
        self.address.port() == address.port() && (accepts(own, other) || accepts(other, own))
    }

    /// Closes it. One that was stored stops listening at once, although the service manager has it too.
    fn close(self) -> String {
        if self.is_stored() {
            stop_listening(&self.listener);
        } else {
            let address = self.address;
            tracing::warn!(%address, "a socket of the service manager is closed: no setting listens there");
        }
        self.name
    }
}

/// The listening sockets that this process has inherited.
#[derive(Debug, Default)]
pub struct InheritedListeners {
    /// Those that are not taken over.
    left: Vec<InheritedListener>,
    /// Duplicates of those that are taken over.
    taken: Vec<InheritedListener>,
    /// The names of closed ones.
    closed: Vec<String>,
}

impl InheritedListeners {
    /// The sockets of this process. They have fixed numbers, so this must be called before the process opens
    /// anything. A second call finds none.
    ///
    /// # Errors
    /// The service manager has passed something that is no list of descriptors.
    pub fn of_process() -> io::Result<InheritedListeners> {
        static IS_TAKEN: AtomicBool = AtomicBool::new(false);
        if IS_TAKEN.swap(true, Ordering::AcqRel) {
            return Ok(InheritedListeners::default());
        }
        let passed = sd_notify::listen_fds_with_names()?.map(|(number, name)| {
            // SAFETY: the service manager has opened this descriptor for this process, which `LISTEN_PID`
            // says. `listen_fds_with_names` has found it open. Nothing else in this process has it: this
            // function comes before whatever opens one, and takes it once.
            #[allow(unsafe_code)]
            (name, unsafe { OwnedFd::from_raw_fd(number) })
        });
        Ok(InheritedListeners::from_descriptors(passed))
    }

    /// The listening sockets among `descriptors`, which have the names of the service manager. The others are
    /// closed.
    pub fn from_descriptors(descriptors: impl IntoIterator<Item = (String, OwnedFd)>) -> InheritedListeners {
        let mut all = InheritedListeners::default();
        for (name, descriptor) in descriptors {
            match InheritedListener::examine(&name, descriptor) {
                Some(listener) => all.left.push(listener),
                None => all.closed.push(name),
            }
        }
        all
    }

    /// Whether no socket is left to be taken over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The address of a socket that the service manager has opened itself, if there is one.
    #[must_use]
    pub fn opened_by_manager(&self) -> Option<SocketAddr> {
        self.left.iter().find(|one| !one.is_stored()).map(|one| one.address)
    }

    /// Takes over the socket that listens on `address`.
    pub(crate) fn take(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let same = |one: &InheritedListener| {
            (one.address.ip(), one.address.port()) == (address.ip(), address.port())
        };
        let index = self.left.iter().position(same)?;
        let listener = self.left[index].listener.try_clone().ok()?;
        self.taken.push(self.left.swap_remove(index));
        Some(listener)
    }

    /// Closes the sockets because of which `address` cannot be bound. Returns whether there were any.
    pub(crate) fn make_room(&mut self, address: SocketAddr) -> bool {
        let (excluding, left) = std::mem::take(&mut self.left)
            .into_iter()
            .partition(|one: &InheritedListener| one.is_stored() && one.excludes(address));
        self.left = left;
        self.close(excluding)
    }

    fn close(&mut self, listeners: Vec<InheritedListener>) -> bool {
        let count = listeners.len();
        self.closed.extend(listeners.into_iter().map(InheritedListener::close));
        count > 0
    }

    /// Closes the sockets that nobody has taken over.
    pub fn close_left(&mut self) {
        let left = std::mem::take(&mut self.left);
        self.close(left);
    }

    /// Closes all sockets. Those that are taken over stop listening too.
    pub fn close_all(&mut self) {
        self.close_left();
        let taken = std::mem::take(&mut self.taken);
        self.close(taken);
    }

    /// The addresses of the sockets that are taken over.
    pub fn taken(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.taken.iter().map(|one| one.address)
    }

    /// The names of stored sockets that were closed since the last call. The service manager must forget
    /// them.
    #[must_use]
    pub fn closed_names(&mut self) -> Vec<String> {
        let mut names = std::mem::take(&mut self.closed);
        names.retain(|name| name.starts_with(STORED));
        names
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream, UdpSocket};
    use std::time::Duration;

    use super::*;
    use crate::Listeners;

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        (listener, address)
    }

    /// The sockets of a process that inherits one, and the duplicate that the service manager keeps.
    fn inherited<T: Into<OwnedFd>>(name: &str, socket: T) -> (InheritedListeners, OwnedFd) {
        let socket: OwnedFd = socket.into();
        let kept = socket.try_clone().expect("a duplicate");
        (InheritedListeners::from_descriptors([(name.to_owned(), socket)]), kept)
    }

    #[test]
    fn a_queued_connection_is_that_of_the_next_process() {
        let (socket, address) = listener();
        let client = TcpStream::connect(address).expect("a queue");
        let (mut inherited, _kept) = inherited(&stored_name(address), socket);
        let bound = Listeners::bind_moving_or_take(&[address], &[], &mut inherited).expect("it is there");
        assert_eq!(inherited.taken().collect::<Vec<_>>(), [address]);
        assert_eq!(bound.local_addresses(), [address]);
        let (_, remote) = bound.sockets[0].0.accept().expect("the queued connection");
        assert_eq!(remote, client.local_addr().expect("its address"));
        inherited.close_left();
        assert!(inherited.closed_names().is_empty());
    }

    #[test]
    fn a_taken_socket_stops_listening_in_all_processes() {
        let (socket, address) = listener();
        let (mut inherited, _kept) = inherited(&stored_name(address), socket);
        let _bound = Listeners::bind_moving_or_take(&[address], &[], &mut inherited).expect("it is there");
        inherited.close_all();
        let refused =
            TcpStream::connect_timeout(&address, Duration::from_secs(5)).expect_err("nobody listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(inherited.closed_names(), [stored_name(address)]);
    }

    #[test]
    fn a_socket_on_another_address_makes_room() {
        let (socket, address) = listener();
        let (mut inherited, _kept) = inherited(&stored_name(address), socket);
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        let bound = Listeners::bind_moving_or_take(&[any], &[], &mut inherited).expect("it has made room");
        assert_eq!(bound.local_addresses(), [any]);
        assert_eq!(inherited.closed_names(), [stored_name(address)]);
        assert!(inherited.closed_names().is_empty());
    }

    #[test]
    fn a_socket_of_a_port_that_nobody_wants_is_closed() {
        let (socket, address) = listener();
        let (mut inherited, _kept) = inherited(&stored_name(address), socket);
        let other = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let _bound = Listeners::bind_moving_or_take(&[other], &[], &mut inherited).expect("a free port");
        assert!(inherited.closed_names().is_empty());
        inherited.close_left();
        assert_eq!(inherited.closed_names(), [stored_name(address)]);
        TcpStream::connect(address).expect_err("nobody listens");
    }

    #[test]
    fn what_is_no_listener_with_our_options_is_not_taken() {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let at = udp.local_addr().expect("its address");
        let (mut of_udp, _kept) = inherited(&stored_name(at), udp);
        assert!(of_udp.take(at).is_none());
        assert_eq!(of_udp.closed_names(), [stored_name(at)]);
        // A socket for both families, as a .socket unit has it unless it says otherwise.
        let both = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::STREAM, None).expect("IPv6");
        both.set_only_v6(false).expect("both families");
        both.bind(&SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0)).into()).expect("a free port");
        both.listen(1).expect("a listener");
        let at = TcpListener::from(both.try_clone().expect("a duplicate")).local_addr().expect("its address");
        let (mut of_both, _kept) = inherited("trunkline.socket", both);
        assert!(of_both.take(at).is_none());
        assert!(of_both.closed_names().is_empty(), "the manager has opened it");
    }

    #[test]
    fn a_socket_that_the_manager_has_opened_stays_its_own() {
        let (socket, address) = listener();
        let (mut inherited, kept) = inherited("trunkline.socket", socket);
        assert_eq!(inherited.opened_by_manager(), Some(address));
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        let error =
            Listeners::bind_moving_or_take(&[any], &[], &mut inherited).expect_err("it listens there");
        assert_eq!(error.reason.kind(), io::ErrorKind::AddrInUse);
        inherited.close_all();
        assert!(inherited.closed_names().is_empty());
        TcpStream::connect(address).expect("it listens still");
        drop(kept);
    }
}
