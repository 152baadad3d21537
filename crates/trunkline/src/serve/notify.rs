//! Reports the server's state to the service manager, and hands it sockets, by the protocol of
//! `sd_notify(3)`.

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::cmsg_space;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sendmsg_addr, socket_with,
};

/// The server is ready.
pub fn ready() {
    tell("READY=1\nSTATUS=Serving\n");
}

/// The node is up and waits for its virtual server, for this reason. The service has started by that.
pub fn waiting(why: &str) {
    tell(&format!("READY=1\nSTATUS=Waiting: {why}\n"));
}

/// The server reads its configuration again. [`ready`] follows.
pub fn reloading() {
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = since_boot.tv_sec.unsigned_abs() * 1_000_000 + since_boot.tv_nsec.unsigned_abs() / 1000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\n"));
}

/// The server is stopping.
pub fn stopping() {
    tell("STOPPING=1\nSTATUS=Ending\n");
}

/// Stores a socket for the next process, under this name.
pub fn store(name: &str, socket: &impl AsFd) {
    tell_with(&format!("FDSTORE=1\nFDNAME={name}\n"), Some(socket.as_fd()));
}

/// The stored sockets with this name are not wanted any more.
pub fn forget(name: &str) {
    tell(&format!("FDSTOREREMOVE=1\nFDNAME={name}\n"));
}

fn tell(text: &str) {
    tell_with(text, None);
}

fn tell_with(text: &str, socket: Option<BorrowedFd<'_>>) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(e) = send(path.as_bytes(), text, socket) {
        tracing::warn!(error = %e, "the service manager could not be notified");
    }
}

fn send(path: &[u8], text: &str, socket: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddrUnix::new_abstract_name(name)?,
        None => SocketAddrUnix::new(OsStr::from_bytes(path))?,
    };
    let sender = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(socket) = &socket {
        control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(socket)));
    }
    sendmsg_addr(&sender, &address, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    use rustix::io::IoSliceMut;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

    use super::*;

    #[test]
    fn a_stored_socket_arrives_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n");
        let manager = UnixDatagram::bind(&path).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        send(path.as_os_str().as_bytes(), "FDSTORE=1\nFDNAME=a\n", Some(listener.as_fd())).unwrap();
        let mut buffer = [0; 64];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let received = recvmsg(&manager, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let sockets: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
                _ => None,
            })
            .flatten()
            .collect();
        assert_eq!(&buffer[..received.bytes], b"FDSTORE=1\nFDNAME=a\n");
        let [socket] = <[OwnedFd; 1]>::try_from(sockets).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(TcpListener::from(socket).local_addr().unwrap(), address);
    }

    #[test]
    fn both_kinds_of_addresses_are_reached() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n");
        let name = format!("trunkline-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, address) in [(by_path, path.to_str().unwrap().to_owned()), (by_name, format!("@{name}"))]
        {
            send(address.as_bytes(), "READY=1\n", None).unwrap();
            let mut buffer = [0; 64];
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1\n");
        }
    }
}
