//! Reports the server's state to the service manager, by the protocol of `sd_notify(3)`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

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

fn tell(text: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(e) = send(path.as_bytes(), text) {
        tracing::warn!(error = %e, "the service manager could not be notified");
    }
}

fn send(path: &[u8], text: &str) -> std::io::Result<()> {
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_addresses_are_reached() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n");
        let name = format!("trunkline-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, address) in [(by_path, path.to_str().unwrap().to_owned()), (by_name, format!("@{name}"))]
        {
            send(address.as_bytes(), "READY=1\n").unwrap();
            let mut buffer = [0; 64];
            let length = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1\n");
        }
    }
}
