//! `[admin]`: checks of the settings for the admin page, the metrics and the records.

use std::net::SocketAddr;
use std::path::PathBuf;

use admin::door::CertificateRoles;
use admin::listener::is_reached_from_elsewhere;
use admin::tls::{Tls, TlsFiles, Unusable};

use super::mounts::file_error;
use super::setting::{ConfigError, Setting};
use super::tables::{Admin, Config};

impl Admin {
    /// TLS for the admin page and for metrics that other hosts read. None without its files.
    ///
    /// # Errors
    /// The file that is missing or invalid, with the setting to change.
    pub fn tls(&self, config: &Config) -> Result<Option<Tls>, ConfigError> {
        let wrong = |setting: &Setting<PathBuf>, key: &str, why: &str| {
            ConfigError(format!("{}: `{key}` in [admin]: {why}", config.location(&setting.origin)))
        };
        let (certificate, key) = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(certificate), None) => {
                return Err(wrong(certificate, "tls_certificate", "its key is missing; set `tls_key` too"));
            }
            (None, Some(key)) => {
                return Err(wrong(key, "tls_key", "its certificate is missing; set `tls_certificate` too"));
            }
            (None, None) => {
                return match &self.tls_client_ca {
                    Some(authorities) => {
                        let why = "without TLS there are no client certificates; set `tls_certificate` and \
                                   `tls_key` too";
                        Err(wrong(authorities, "tls_client_ca", why))
                    }
                    None => Ok(None),
                };
            }
        };
        let authorities = self.tls_client_ca.as_ref().map(|authorities| (authorities, "tls_client_ca"));
        let own = [(certificate, "tls_certificate"), (key, "tls_key")];
        for (file, name) in own.into_iter().chain(authorities) {
            if let Err(error) = std::fs::metadata(&file.value) {
                let why = format!("{}: {}", file.value.display(), file_error(&file.value, &error));
                return Err(wrong(file, name, &why));
            }
        }
        let files = TlsFiles {
            certificate: certificate.value.clone(),
            key: key.value.clone(),
            client_ca: self.tls_client_ca.as_ref().map(|authorities| authorities.value.clone()),
        };
        Tls::load(files).map(Some).map_err(|unusable| match (unusable, &self.tls_client_ca) {
            (Unusable::ClientCa(why), Some(authorities)) => wrong(authorities, "tls_client_ca", &why),
            (Unusable::Key(why), _) => wrong(key, "tls_key", &why),
            (Unusable::Certificate(why) | Unusable::ClientCa(why), _) => {
                wrong(certificate, "tls_certificate", &why)
            }
        })
    }

    /// The roles of client certificates by their names.
    pub fn certificate_roles(&self) -> CertificateRoles {
        CertificateRoles {
            operate: self.tls_client_operate.value.clone(),
            administer: self.tls_client_administer.value.clone(),
        }
    }
}

/// Checks the addresses of the admin page and of the metrics: other hosts may reach them only over TLS.
///
/// # Errors
/// The setting to change.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    let admin = &config.admin;
    let has_tls = admin.tls(config)?.is_some();
    let is_sealed = |setting: &Option<Setting<SocketAddr>>, what: &str, more: &str| match setting {
        Some(Setting { value: at, origin }) if !has_tls && is_reached_from_elsewhere(*at) => {
            let location = config.location(origin);
            Err(ConfigError(format!(
                "{location}: {what} at {at} can be reached from other hosts, which needs TLS{more}: set \
                 `tls_certificate` and `tls_key` in [admin], or give 127.0.0.1:PORT or [::1]:PORT"
            )))
        }
        _ => Ok(()),
    };
    is_sealed(&admin.listen, "the admin page", "")?;
    is_sealed(
        &admin.metrics,
        "metrics",
        ", and a token (`trunkline token add NAME --role read`) or a client certificate (`tls_client_ca`)",
    )?;
    let lists = [
        (&admin.tls_client_operate, "tls_client_operate"),
        (&admin.tls_client_administer, "tls_client_administer"),
    ];
    match lists.into_iter().find(|(names, _)| !names.value.is_empty() && admin.tls_client_ca.is_none()) {
        Some((names, key)) => Err(ConfigError(format!(
            "{}: `{key}` in [admin]: no client certificate is accepted; set `tls_client_ca` too",
            config.location(&names.origin)
        ))),
        None => Ok(()),
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
    fn metrics_are_for_this_host_alone_without_tls() {
        let of = |text: &str| {
            let config = read::parse("t", text, Path::new("/none")).map_err(|e| e.0)?;
            super::check(&config).map(|()| config.admin.metrics.map(|metrics| metrics.value)).map_err(|e| e.0)
        };
        assert_eq!((of(""), of("[admin]\n")), (Ok(None), Ok(None)));
        for address in ["127.0.0.1:9445", "[::1]:0", "127.8.8.8:80", "[::ffff:127.0.0.1]:1"] {
            let text = format!("[admin]\nmetrics = \"{address}\"\n");
            assert_eq!(of(&text), Ok(Some(address.parse().unwrap())));
        }
        for open in ["0.0.0.0:9445", "[::]:9445", "192.0.2.1:9445"] {
            let why = of(&format!("[admin]\nmetrics = \"{open}\"\n")).unwrap_err();
            let wanted =
                format!("line 2: metrics at {open} can be reached from other hosts, which needs TLS, ");
            assert!(why.starts_with(&wanted) && why.lines().count() == 1, "{why}");
            for setting in ["`tls_certificate` and `tls_key`", "trunkline token add", "`tls_client_ca`"] {
                assert!(why.contains(setting), "{why}");
            }
        }
        for bad in ["localhost:9445", "127.0.0.1"] {
            let why = of(&format!("[admin]\nmetrics = \"{bad}\"\n")).unwrap_err();
            assert!(why.contains("is not an address with a port"), "{why}");
        }
    }

    #[test]
    fn client_certificates_need_tls_and_their_names_an_authority() {
        let of = |text: &str| {
            let config = read::parse("t", text, Path::new("/none")).map_err(|e| e.0)?;
            super::check(&config).map_err(|e| e.0)
        };
        let why = of("[admin]\ntls_client_ca = \"ca.pem\"\n").unwrap_err();
        assert!(why.starts_with("line 2: `tls_client_ca` in [admin]: without TLS"), "{why}");
        for key in ["tls_client_operate", "tls_client_administer"] {
            let why = of(&format!("[admin]\n{key} = [\"ops.example.net\"]\n")).unwrap_err();
            assert!(why.starts_with(&format!("line 2: `{key}` in [admin]: no client")), "{why}");
            let why = of(&format!("[admin]\n{key} = [\"*.example.net\"]\n")).unwrap_err();
            assert!(why.contains("without wildcards"), "{why}");
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
