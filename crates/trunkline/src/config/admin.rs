//! `[admin]`: what is open to those who look after the server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use admin::tls::{Tls, Unusable};

use super::section::Section;
use crate::config::model::Config;
use crate::config::setting::{ConfigError, Setting};

/// The keys of the table.
pub const KEYS: &[&str] = &[
    "metrics",
    "listen",
    "tls_certificate",
    "tls_key",
    "records",
    "records_sample",
    "records_max_mib",
    "records_paths",
];

/// `[admin]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Where metrics can be read over HTTP; none: nowhere.
    pub metrics: Setting<Option<SocketAddr>>,
    /// Where the admin page and its API are; none: nowhere.
    pub listen: Setting<Option<SocketAddr>>,
    /// The certificate of the admin page, and what leads to it; none: it is asked without TLS.
    pub tls_certificate: Setting<Option<PathBuf>>,
    /// The certificate's key.
    pub tls_key: Setting<Option<PathBuf>>,
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
    /// Whether paths and names are in it.
    pub paths: Setting<bool>,
}

impl Records {
    fn read(table: Option<&Section<'_>>, base: &Path) -> Result<Records, ConfigError> {
        let number = |key, most, default| -> Result<Setting<u64>, ConfigError> {
            let found = table.map(|table| table.number(key, 1, most)).transpose()?.flatten();
            Ok(found.unwrap_or_else(|| Setting::default_of(default)))
        };
        let path = table.map(|table| table.path("records", base)).transpose()?.flatten();
        let paths = table.map(|table| table.boolean("records_paths")).transpose()?.flatten();
        Ok(Records {
            path: path.map_or(Setting::default_of(None), |path| path.map(Some)),
            sample: number("records_sample", 1 << 32, 1)?,
            max_mib: number("records_max_mib", 1 << 20, 64)?,
            paths: paths.unwrap_or_else(|| Setting::default_of(true)),
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
        let file = |key| -> Result<Setting<Option<PathBuf>>, ConfigError> {
            let path = table.map(|table| table.path(key, base)).transpose()?.flatten();
            Ok(path.map_or(Setting::default_of(None), |path| path.map(Some)))
        };
        let address = |key, parse: fn(&str) -> Result<SocketAddr, String>| {
            table.map(|table| table.parsed(key, parse)).transpose().map(Option::flatten)
        };
        Ok(Admin {
            metrics: set(address("metrics", metrics_address)?),
            listen: set(address("listen", page_address)?),
            tls_certificate: file("tls_certificate")?,
            tls_key: file("tls_key")?,
            records: Records::read(table, base)?,
        })
    }

    /// The certificate of the page with its key; none where it is asked without TLS.
    ///
    /// # Errors
    /// What is missing or cannot be used, with the setting to change.
    pub fn tls(&self, config: &Config) -> Result<Option<Tls>, ConfigError> {
        let wrong = |setting: &Setting<Option<PathBuf>>, key: &str, why: &str| {
            ConfigError(format!("{}: `{key}` in [admin]: {why}", config.place(&setting.origin)))
        };
        let (certificate, key) = (&self.tls_certificate, &self.tls_key);
        match (&certificate.value, &key.value) {
            (None, None) => Ok(None),
            (Some(of), Some(with)) => Tls::load(of, with).map(Some).map_err(|unusable| match unusable {
                Unusable::Certificate(why) => wrong(certificate, "tls_certificate", &why),
                Unusable::Key(why) => wrong(key, "tls_key", &why),
            }),
            (Some(_), None) => {
                Err(wrong(certificate, "tls_certificate", "its key is missing; set `tls_key` too"))
            }
            (None, Some(_)) => {
                Err(wrong(key, "tls_key", "its certificate is missing; set `tls_certificate` too"))
            }
        }
    }
}

/// Whether the page is where it may be: at an address that other hosts reach only with TLS.
///
/// # Errors
/// With the setting to change.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    let Admin { listen, .. } = &config.admin;
    let tls = config.admin.tls(config)?;
    match listen.value {
        Some(at) if tls.is_none() && !at.ip().to_canonical().is_loopback() => {
            let place = config.place(&listen.origin);
            Err(ConfigError(format!(
                "{place}: the admin page at {at} can be reached from other hosts, which needs TLS: set `tls_certificate` and \
                 `tls_key` in [admin], or give 127.0.0.1:PORT or [::1]:PORT"
            )))
        }
        _ => Ok(()),
    }
}

/// Where the admin page is to be; [`check`] says whether it may.
///
/// # Errors
/// When it is no address.
pub fn page_address(text: &str) -> Result<SocketAddr, String> {
    address(text)
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address with a port, such as 127.0.0.1:9445"))
}

/// An address of this host alone, and a port.
fn loopback(text: &str, why: &str) -> Result<SocketAddr, String> {
    let address = address(text)?;
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
        let some = of("[admin]\nrecords = \"r.jsonl\"\nrecords_sample = 100\nrecords_max_mib = 5\nrecords_paths = false\n").unwrap();
        assert_eq!(some.path.value.as_deref(), Some(Path::new("/etc/r.jsonl")));
        assert_eq!((some.sample.value, some.max_mib.value, some.paths.value), (100, 5, false));
        assert!(of("").unwrap().paths.value);
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
            let error = of(&format!("[admin]\nmetrics = \"{bad}\"\n")).unwrap_err().0;
            assert!(error.starts_with("t:2: `metrics` in [admin]: ") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn the_page_is_elsewhere_only_with_tls() {
        let of = |text: &str| {
            let config = read::parse("t", text, Path::new("/none")).map_err(|e| e.0)?;
            super::check(&config).map_err(|e| e.0)
        };
        assert_eq!((of(""), of("[admin]\nlisten = \"[::1]:9446\"\n")), (Ok(()), Ok(())));
        for open in ["0.0.0.0:9446", "[::]:9446", "192.0.2.1:9446"] {
            let why = of(&format!("[admin]\nlisten = \"{open}\"\n")).unwrap_err();
            let wanted = format!(
                "line 2: the admin page at {open} can be reached from other hosts, which needs TLS: "
            );
            assert!(why.starts_with(&wanted) && why.contains("`tls_certificate` and `tls_key`"), "{why}");
        }
        let cases = [
            (
                "listen = \"localhost:9446\"\n",
                "t:2: `listen` in [admin]: `localhost:9446` is not an address with a port",
            ),
            (
                "tls_certificate = \"c\"\n",
                "line 2: `tls_certificate` in [admin]: its key is missing; set `tls_key` too",
            ),
            (
                "tls_key = \"k\"\n",
                "line 2: `tls_key` in [admin]: its certificate is missing; set `tls_certificate` too",
            ),
            (
                "tls_key = \"k\"\ntls_certificate = \"c\"\n",
                "line 3: `tls_certificate` in [admin]: /none/c: no such file or directory",
            ),
        ];
        for (text, wanted) in cases {
            let why = of(&format!("[admin]\n{text}")).unwrap_err();
            assert!(why.starts_with(wanted), "{why}");
        }
    }
}
