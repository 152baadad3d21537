//! `[admin]`: checks of the settings for the admin page, the metrics and the records.

use std::path::PathBuf;

use admin::tls::{Tls, Unusable};

use super::setting::{ConfigError, Setting};
use super::tables::{Admin, Config};

impl Admin {
    /// The certificate of the admin page with its key. None if the page is served without TLS.
    ///
    /// # Errors
    /// The file that is missing or invalid, with the setting to change.
    pub fn tls(&self, config: &Config) -> Result<Option<Tls>, ConfigError> {
        let wrong = |setting: &Setting<PathBuf>, key: &str, why: &str| {
            ConfigError(format!("{}: `{key}` in [admin]: {why}", config.location(&setting.origin)))
        };
        match (&self.tls_certificate, &self.tls_key) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => {
                Tls::load(&certificate.value, &key.value).map(Some).map_err(|unusable| match unusable {
                    Unusable::Certificate(why) => wrong(certificate, "tls_certificate", &why),
                    Unusable::Key(why) => wrong(key, "tls_key", &why),
                })
            }
            (Some(certificate), None) => {
                Err(wrong(certificate, "tls_certificate", "its key is missing; set `tls_key` too"))
            }
            (None, Some(key)) => {
                Err(wrong(key, "tls_key", "its certificate is missing; set `tls_certificate` too"))
            }
        }
    }
}

/// Checks the address of the admin page: other hosts may reach it only over TLS.
///
/// # Errors
/// The setting to change.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    let tls = config.admin.tls(config)?;
    match &config.admin.listen {
        Some(Setting { value: at, origin }) if tls.is_none() && !at.ip().to_canonical().is_loopback() => {
            let location = config.location(origin);
            Err(ConfigError(format!(
                "{location}: the admin page at {at} can be reached from other hosts, which needs TLS: set \
                 `tls_certificate` and `tls_key` in [admin], or give 127.0.0.1:PORT or [::1]:PORT"
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::read;
    use std::path::Path;

    #[test]
    fn records_go_to_a_file_that_counts_from_the_configuration() {
        let of = |text: &str| read::parse("t", text, Path::new("/etc")).map(|config| config.admin);
        let none = of("").unwrap();
        assert_eq!((none.records, none.records_sample.value, none.records_max_mib.value), (None, 1, 64));
        let some = of("[admin]\nrecords = \"r.jsonl\"\nrecords_sample = 100\nrecords_max_mib = 5\n\
                       records_paths = false\n")
        .unwrap();
        assert_eq!(some.records.unwrap().value, Path::new("/etc/r.jsonl"));
        let rest = (some.records_sample.value, some.records_max_mib.value, some.records_paths.value);
        assert_eq!(rest, (100, 5, false));
        assert!(of("").unwrap().records_paths.value);
        let error = of("[admin]\nrecords_sample = 0\n").unwrap_err().0;
        assert!(error.starts_with("t:2: `records_sample` in [admin]: "), "{error}");
    }

    #[test]
    fn metrics_are_for_this_host_alone() {
        let value = |config: crate::config::Config| config.admin.metrics.map(|metrics| metrics.value);
        let of = |text: &str| read::parse("t", text, Path::new("/")).map(value);
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
