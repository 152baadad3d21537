//! The names of this server, to recognize log-ons that are meant for another server.

use crate::config::Server;
use crate::config::values::host_name;

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
    smb::TargetRule { spn: server.spn.value, names, is_complete: server.spn_names.is_some() }
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
