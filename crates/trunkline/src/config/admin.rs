//! `[admin]`: what is open to those who look after the server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::section::Section;
use super::{ConfigError, Setting};

/// The keys of the table.
pub const KEYS: &[&str] = &["metrics", "listen", "records", "records_sample", "records_max_mib"];

/// `[admin]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where metrics can be read over HTTP; none: nowhere.
    pub metrics: Setting<Option<SocketAddr>>,
    /// Where the admin page and its API are; none: nowhere.
    pub listen: Setting<Option<SocketAddr>>,
    /// What is written down of single requests.
    pub records: Records,
}

/// What is written down of single requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    /// The file; none: nothing is.
    pub path: Setting<Option<PathBuf>>,
    /// One of so many requests of each connection is.
    pub sample: Setting<u64>,
    /// Size at which the file is put aside, in MiB.
    pub max_mib: Setting<u64>,
}

impl Records {
    fn read(table: Option<&Section<'_>>, base: &Path) -> Result<Records, ConfigError> {
        let number = |key, most, default| -> Result<Setting<u64>, ConfigError> {
            let found = table.map(|table| table.number(key, 1, most)).transpose()?.flatten();
            Ok(found.unwrap_or_else(|| Setting::default_of(default)))
        };
        let path = table.map(|table| table.path("records", base)).transpose()?.flatten();
        Ok(Records {
            path: path.map_or(Setting::default_of(None), |path| path.map(Some)),
            sample: number("records_sample", 1 << 32, 1)?,
            max_mib: number("records_max_mib", 1 << 20, 64)?,
        })
    }
}

impl Admin {
    /// Reads the table; without it nothing is open.
    ///
    /// # Errors
    /// What is wrong, with its line.
    pub fn read(table: Option<&Section<'_>>, base: &Path) -> Result<Admin, ConfigError> {
        let metrics_address = |text: &str| loopback(text, "metrics are neither protected nor sealed");
        let set = |at: Option<Setting<SocketAddr>>| at.map_or(Setting::default_of(None), |at| at.map(Some));
        let records = Records::read(table, base)?;
        let Some(table) = table else { return Ok(Admin { metrics: set(None), listen: set(None), records }) };
        Ok(Admin {
            metrics: set(table.parsed("metrics", metrics_address)?),
            listen: set(table.parsed("listen", page_address)?),
            records,
        })
    }
}

/// Where the admin page can be.
///
/// # Errors
/// Why not there.
pub fn page_address(text: &str) -> Result<SocketAddr, String> {
    loopback(text, "the server has no TLS for its admin page")
}

/// An address of this host alone, and a port.
fn loopback(text: &str, why: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| format!("`{text}` is not an address with a port, such as 127.0.0.1:9445"))?;
    if address.ip().to_canonical().is_loopback() {
        return Ok(address);
    }
    Err(format!(
        "`{text}` can be reached from other hosts, and {why}; give 127.0.0.1:PORT or [::1]:PORT, and let a program here \
         that protects it pass it on"
    ))
}

#[cfg(test)]
mod tests {
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn records_go_to_a_file_that_counts_from_the_configuration() {
        let of = |text: &str| read::parse("t", text, Path::new("/etc")).map(|config| config.admin.records);
        let none = of("").unwrap();
        assert_eq!((none.path.value, none.sample.value, none.max_mib.value), (None, 1, 64));
        let some = of("[admin]\nrecords = \"r.jsonl\"\nrecords_sample = 100\nrecords_max_mib = 5\n").unwrap();
        assert_eq!(some.path.value.as_deref(), Some(Path::new("/etc/r.jsonl")));
        assert_eq!((some.sample.value, some.max_mib.value), (100, 5));
        let error = of("[admin]\nrecords_sample = 0\n").unwrap_err().0;
        assert!(error.starts_with("t:2: `records_sample` in [admin]: "), "{error}");
    }

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
            for key in ["metrics", "listen"] {
                let error = of(&format!("[admin]\n{key} = \"{bad}\"\n")).unwrap_err().0;
                assert!(
                    error.starts_with(&format!("t:2: `{key}` in [admin]: ")) && error.contains(why),
                    "{error}"
                );
            }
        }
    }
}
