//! Binds the port, and says what to change when it cannot be had.

use std::io;
use std::net::SocketAddr;

use net::{BindError, Listeners};

use crate::config::{Config, Origin, os_error};

/// The port that clients use unless they are told another (MS-SMB2 2.1).
const STANDARD_PORT: u16 = 445;
/// The port where the standard one is not allowed.
const OTHER_PORT: u16 = 4450;
/// How often a port that is free on the first address is tried on the others, when any port will do.
const PORT_ATTEMPTS: usize = 16;

/// What is listened on.
#[derive(Debug)]
pub struct Bound {
    /// One socket for each address.
    pub listeners: Listeners,
    /// The addresses, with the port that was taken.
    pub addresses: Vec<SocketAddr>,
    /// Why it is not the standard port.
    pub note: Option<String>,
}

impl Bound {
    /// The port.
    pub fn port(&self) -> u16 {
        self.addresses.first().map_or(0, SocketAddr::port)
    }
}

/// Binds every address of the configuration.
///
/// # Errors
/// One line with the setting to change.
pub fn bind(config: &Config) -> anyhow::Result<Bound> {
    let told = |error: BindError| told(config, &error);
    let (listeners, note) = match config.server.smb_port.value {
        Some(port) => (bind_port(config, port).map_err(told)?, None),
        None => match bind_port(config, STANDARD_PORT) {
            Err(error) if error.reason.kind() == io::ErrorKind::PermissionDenied => {
                let note =
                    format!("port {STANDARD_PORT} needs root, so port {OTHER_PORT} is used; see --smb-port");
                (bind_port(config, OTHER_PORT).map_err(told)?, Some(note))
            }
            other => (other.map_err(told)?, None),
        },
    };
    Ok(Bound { addresses: listeners.local_addresses(), listeners, note })
}

fn bind_port(config: &Config, port: u16) -> Result<Listeners, BindError> {
    let listen = &config.server.listen;
    // A host without IPv6 is no reason not to serve, as long as nobody asked for it.
    if listen.origin == Origin::Default {
        return Listeners::bind_any(port);
    }
    let all = |port| {
        let addresses: Vec<_> = listen.value.iter().map(|address| SocketAddr::new(*address, port)).collect();
        Listeners::bind(&addresses)
    };
    if port != 0 || listen.value.len() < 2 {
        return all(port);
    }
    let mut attempts = PORT_ATTEMPTS;
    loop {
        attempts -= 1;
        let first = Listeners::bind(&[SocketAddr::new(listen.value[0], 0)])?;
        let free = first.local_addresses().first().map_or(0, SocketAddr::port);
        drop(first);
        match all(free) {
            Err(error) if error.reason.kind() == io::ErrorKind::AddrInUse && attempts > 0 => {}
            other => return other,
        }
    }
}

/// The error with the setting to change.
fn told(config: &Config, error: &BindError) -> anyhow::Error {
    let BindError { address, reason } = error;
    match reason.kind() {
        io::ErrorKind::AddrInUse => {
            anyhow::anyhow!(
                "port {} on {} is in use; choose another with --smb-port",
                address.port(),
                address.ip()
            )
        }
        io::ErrorKind::PermissionDenied => {
            anyhow::anyhow!(
                "port {} is not allowed to this user; choose another with --smb-port",
                address.port()
            )
        }
        _ => {
            let place = config.place(&config.server.listen.origin);
            anyhow::anyhow!(
                "cannot listen on {}: {}; change `listen` ({place})",
                address.ip(),
                os_error(reason)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Setting, read};
    use std::path::Path;

    fn config(listen: &[&str], port: u16) -> Config {
        let mut config = read::parse("t", "", Path::new("/")).unwrap();
        let listen = listen.iter().map(|address| address.parse().unwrap()).collect();
        config.server.listen = Setting { value: listen, origin: Origin::CommandLine("--listen") };
        config.server.smb_port = Setting { value: Some(port), origin: Origin::CommandLine("--smb-port") };
        config
    }

    #[test]
    fn every_address_has_the_same_port() {
        let bound = bind(&config(&["127.0.0.1", "127.0.0.2"], 0)).unwrap();
        assert_ne!(bound.port(), 0);
        assert!(bound.addresses.iter().all(|address| address.port() == bound.port()));
        let taken = bind(&config(&["127.0.0.2"], bound.port())).unwrap_err().to_string();
        assert_eq!(
            taken,
            format!("port {} on 127.0.0.2 is in use; choose another with --smb-port", bound.port())
        );
    }

    #[test]
    fn an_address_of_another_host_is_named() {
        let error = bind(&config(&["203.0.113.9"], 0)).unwrap_err().to_string();
        assert!(
            error.contains("cannot listen on 203.0.113.9") && error.contains("`listen` (--listen)"),
            "{error}"
        );
    }
}
