//! The names of this server, to recognize log-ons that are meant for another server.

use crate::config::values::host_name;
use crate::config::{Domain, Server};
use crate::domain::keytab::Keytab;

/// The rule that checks the target name of a log-on against the server's names.
pub fn target_rule(server: &Server) -> smb::TargetRule {
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut names = Vec::new();
    for name in [server.name.value.clone(), node, host_name()] {
        let label = name.split('.').next().unwrap_or_default().to_owned();
        // The name that multicast DNS announces.
        names.push(format!("{label}.local"));
        names.extend([name, label]);
    }
    names.extend(server.spn_names.iter().flat_map(|names| names.value.iter().cloned()));
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    smb::TargetRule {
        spn: server.spn.value,
        names,
        realm_names: Vec::new(),
        is_complete: server.spn_names.is_some(),
        has_realm: false,
    }
}

/// Sets the names that the server has in its realm: those of the configuration, and the machine account of
/// the keytab, such as `FILES$`. A ticket of Active Directory for any name of the server is encrypted with
/// that account's key, and MIT's library calls the service by the first entry of the keytab with the key.
/// Clients cannot mean another server by it.
pub fn set_realm_names(rule: &mut smb::TargetRule, domain: &Domain) {
    rule.realm_names.clear();
    rule.has_realm = domain.realm.is_some();
    let Some(realm) = &domain.realm else { return };
    rule.realm_names.clone_from(&domain.names.value);
    let keytab = Keytab::read(&domain.keytab.value).unwrap_or_default().of_realm(&realm.value);
    rule.realm_names.extend(keytab.machine_account().map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    fn rule(text: &str) -> smb::TargetRule {
        let config = read::parse("t", text, Path::new("/")).unwrap();
        target_rule(&config.server)
    }

    #[test]
    fn a_server_knows_its_names_and_is_told_the_others() {
        let rule = rule("[server]\nname = \"files.example.net\"\nspn_names = [\"NAS.lan\", \"192.0.2.7\"]\n");
        for name in ["files.example.net", "files", "files.local", "nas.lan", "192.0.2.7", &host_name()] {
            assert!(rule.names.iter().any(|known| known == name), "{name} of {:?}", rule.names);
        }
        assert_eq!((rule.spn, rule.is_complete), (smb::Spn::Accepted, true));
    }

    #[test]
    fn aliases_and_the_machine_account_are_names_and_no_longer_than_they_are_there() {
        // Lengths, one component, realm, name; then name type, time, version, and no key.
        let body =
            [&[0, 1, 0, 1][..], b"R", &[0, 6], b"FILES$", &[0; 4], &[0; 4], &[2], &[0, 18, 0, 0]].concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let path = std::env::temp_dir().join(format!("trunkline-names-{}.keytab", std::process::id()));
        std::fs::write(&path, [&[5, 2][..], &length, &body].concat()).unwrap();
        let text = |realm: &str, names: &str| {
            let keytab = path.display();
            format!("[domain]\nrealm = \"{realm}\"\nkeytab = \"{keytab}\"\nnames = [{names}]\n")
        };
        let domain = |text: &str| read::parse("t", text, Path::new("/")).unwrap().domain;
        let mut known = rule("");
        let own = known.names.clone();
        set_realm_names(&mut known, &domain(&text("R", "\"nas.r.example\", \"old.r.example\"")));
        assert_eq!(known.realm_names, ["nas.r.example", "old.r.example", "FILES$"]);
        set_realm_names(&mut known, &domain(&text("R", "\"nas.r.example\"")));
        assert_eq!(known.realm_names, ["nas.r.example", "FILES$"]);
        set_realm_names(&mut known, &domain(&text("OTHER", "")));
        assert!(known.realm_names.is_empty());
        set_realm_names(&mut known, &domain("[domain]\nnames = [\"nas.r.example\"]\n"));
        assert!(known.realm_names.is_empty(), "the server is in no realm");
        assert_eq!(known.names, own);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn an_empty_list_says_that_there_are_no_more_names_and_none_that_there_may_be() {
        assert!(rule("[server]\nspn_names = []\nspn = \"required\"\n").is_complete);
        assert!(!rule("[server]\nspn = \"off\"\n").is_complete);
        for bad in ["cifs/nas", "nas:445", "", "a b"] {
            let text = format!("[server]\nspn_names = [\"{bad}\"]\n");
            let error = read::parse("t", &text, Path::new("/")).unwrap_err().to_string();
            assert!(error.contains("must be a host name or an address"), "{error}");
        }
    }
}
