//! Reads the values of an account's and a share's keys from a command line, by the shape of each key.

use serde_json::{Map, Value};

use crate::config::format::Shape;
use crate::config::{Account, Share, words};

/// The shape of a key. An unknown key has the shape of text, so that the reader of the configuration reports
/// it together with the known keys.
fn shape(key: &str) -> Shape {
    let mut known = Account::keys().into_iter().chain(Share::keys());
    known.find(|known| known.name == key).map_or(Shape::Text, |known| known.shape)
}

/// Reads `KEY=VALUE` items: lists as `a,b`, users as `ann=write,*=read`, and switches also as `on` and `off`.
///
/// # Errors
/// The mistake in one of them.
pub fn settings(items: &[String]) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    for item in items {
        let (key, text) = item
            .split_once('=')
            .map(|(key, text)| (key.trim(), text))
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| {
                format!("`{item}` is not KEY=VALUE, such as comment=Plans; put quotes around blanks")
            })?;
        if all.insert(key.to_owned(), words::value(&shape(key), key, text)?).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{read, show};
    use crate::reference;
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn values_are_read_by_what_their_keys_are() {
        let items = [
            "path=/srv/a=b",
            "provisioned_gib=100",
            "read_only=on",
            "protocols=smb, nfs",
            "comment=42",
            "users = ann = write, * =read",
            "nfs_clients=",
            "send_file=auto",
            "colour=blue",
        ];
        let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
        let wanted = json!({"path": "/srv/a=b", "provisioned_gib": 100, "read_only": true,
            "protocols": ["smb", "nfs"], "comment": "42", "users": {"ann": "write", "*": "read"},
            "nfs_clients": [], "send_file": "auto", "colour": "blue"});
        assert_eq!(Value::Object(settings(&items).unwrap()), wanted);
        for (bad, why) in [
            ("path", "`path` is not KEY=VALUE"),
            ("=", "`=` is not KEY=VALUE, such as comment=Plans; put quotes around blanks"),
            ("users==write", "`=write` in `users` is not NAME=ACCESS"),
            ("users=ann=", "`ann=` in `users` is not NAME=ACCESS"),
            ("provisioned_gib=1.5", "must be a whole number, not `1.5`"),
            ("provisioned_gib=-1", "must be a whole number, not `-1`"),
            ("multichannel=maybe", "must be on or off, not `maybe`"),
            ("users=ann", "`ann` in `users` is not NAME=ACCESS"),
        ] {
            assert!(settings(&[bad.to_owned()]).unwrap_err().contains(why), "{bad}");
        }
        let twice = ["a=1".to_owned(), "a=2".to_owned()];
        assert_eq!(settings(&twice).unwrap_err(), "`a` is given twice");
    }

    #[test]
    fn every_key_is_in_what_describes_the_api() {
        let described = admin::api::openapi::document(reference::settings);
        for (schema, known) in [("AccountSettings", Account::NAMES), ("ShareSettings", Share::NAMES)] {
            let keys = &described["components"]["schemas"][schema]["properties"];
            let mut keys: Vec<&str> = keys.as_object().unwrap().keys().map(String::as_str).collect();
            let mut known = known.to_vec();
            keys.sort_unstable();
            known.sort_unstable();
            assert_eq!(keys, known, "{schema}");
        }
    }

    #[test]
    fn every_key_has_the_shape_that_the_configuration_wants() {
        let text = "[account.a]\nkind = \"premium\"\nformula = \"v2\"\nusers = { ann = \"read\" }\n\
                    encryption = \"off\"\nsigning = \"auto\"\nmin_dialect = \"3.0\"\nciphers = \
                    \"AES-128-GCM\"\n\
                    authentication = \"key\"\n\
                    metadata_caching = false\nsmb_listen = \"::1\"\nnfs_listen = \"::1\"\nnfs_port = 1\n\
                    nfs_max_connections = 1\naudit = [\"open\"]\n\
                    [share.s]\npath = \"/s\"\naccount = \"a\"\nprovisioned_gib = 100\nprovisioned_iops = \
                    4000\n\
                    provisioned_mib_s = 200\nusers = { ann = \"read\" }\nprotocols = [\"nfs\"]\nnfs_listen = \
                    \"::1\"\n\
                    nfs_port = 1\nnfs_max_connections = 1\nsmb_listen = \"::1\"\nrecycle_max_file_mib = 1\n";
        let config = read::parse("t", text, Path::new("/")).unwrap();
        let account = show::account(&config, &config.accounts["a"]).values;
        let share = show::share(&config, &config.shares["s"]).values;
        for (known, shown) in [(Account::NAMES, account), (Share::NAMES, share)] {
            for key in known {
                let value = shown.get(*key).unwrap_or_else(|| panic!("`{key}` is not shown"));
                let is_wanted = match (value, shape(key)) {
                    (_, Shape::FlagOr(_)) => *key == "send_file",
                    (toml::Value::Integer(_), Shape::Number(..))
                    | (toml::Value::Boolean(_), Shape::Flag)
                    | (toml::Value::Array(_), Shape::List(_))
                    | (toml::Value::Table(_), Shape::Users(_))
                    | (toml::Value::String(_), Shape::Text | Shape::Path | Shape::OneOf(_)) => true,
                    _ => false,
                };
                assert!(is_wanted, "{key}: {value} as {:?}", shape(key));
            }
        }
    }
}
