//! `[admin]`: what is open to those who look after the server.

use std::net::SocketAddr;

use super::section::Section;
use super::{ConfigError, Setting};

/// The keys of the table.
pub const KEYS: &[&str] = &["metrics"];

/// `[admin]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where metrics can be read over HTTP; none: nowhere.
    pub metrics: Setting<Option<SocketAddr>>,
}

impl Admin {
    /// Reads the table; without it nothing is open.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn read(table: Option<&Section<'_>>) -> Result<Admin, ConfigError> {
        let metrics = table.map(|table| table.parsed("metrics", loopback)).transpose()?.flatten();
        Ok(Admin { metrics: metrics.map_or(Setting::default_of(None), |at| at.map(Some)) })
    }
}

/// An address of this host alone, and a port.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| format!("`{text}` is not an address with a port, such as 127.0.0.1:9445"))?;
    if address.ip().to_canonical().is_loopback() {
        return Ok(address);
    }
    Err(format!(
        "`{text}` can be reached from other hosts, and metrics are neither protected nor sealed; \
         give 127.0.0.1:PORT or [::1]:PORT, and let a program here pass them on"
    ))
}

#[cfg(test)]
mod tests {
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn metrics_are_for_this_host_alone() {
        let of = |text: &str| read::parse("t", text, Path::new("/")).map(|config| config.admin.metrics.value);
        assert_eq!(of(""), Ok(None));
        assert_eq!(of("[admin]\n"), Ok(None));
        for address in ["127.0.0.1:9445", "[::1]:0", "127.8.8.8:80"] {
            let text = format!("[admin]\nmetrics = \"{address}\"\n");
            assert_eq!(of(&text), Ok(Some(address.parse().unwrap())));
        }
        for (bad, why) in [
            ("0.0.0.0:9445", "can be reached from other hosts"),
            ("[::]:9445", "can be reached from other hosts"),
            ("192.0.2.1:9445", "can be reached from other hosts"),
            ("localhost:9445", "is not an address with a port"),
            ("127.0.0.1", "is not an address with a port"),
        ] {
            let error = of(&format!("[admin]\nmetrics = \"{bad}\"\n")).unwrap_err().0;
            assert!(error.starts_with("t:2: `metrics` in [admin]: ") && error.contains(why), "{error}");
        }
    }
}
