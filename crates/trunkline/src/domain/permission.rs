//! Whether a join may use an account and names of the domain, by what the directory says before anything is
//! changed there.
//!
//! `adcli` gives the account a new password without asking whose it is. So an account of a domain controller,
//! or of another host, would be lost to its owner.

use identity::ldap::message::LdapEntry;

use super::program::ProgramEnd;

/// Bits of `userAccountControl` (MS-SAMR 2.2.1.12).
const WORKSTATION_TRUST: u32 = 0x1000;
/// The account of a domain controller, and that of one that only reads.
const CONTROLLER: u32 = 0x2000 | 0x0400_0000;
/// The groups of the domain's controllers (MS-DTYP 2.4.2.4): those that write, and those that only read.
const CONTROLLER_GROUPS: [u32; 2] = [516, 521];

/// The verdict of a KDC on the key of a machine account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyVerdict {
    /// The account has this key.
    Valid,
    /// There is no such account.
    NoAccount,
    /// It refuses the key, in the words of `kinit`. Another host may have joined with the account since.
    Refused(String),
}

impl KeyVerdict {
    /// The verdict in the words of `kinit`.
    pub fn of(end: &ProgramEnd) -> KeyVerdict {
        let said = end.last_words();
        match end.is_success {
            true => KeyVerdict::Valid,
            false if said.contains("not found in Kerberos database") => KeyVerdict::NoAccount,
            false => KeyVerdict::Refused(said.strip_prefix("kinit: ").unwrap_or(said).to_owned()),
        }
    }
}

/// The earlier membership of this state directory in the domain.
#[derive(Debug, Clone, Default)]
pub struct EarlierJoin {
    /// The machine account of the keytab that an earlier join made.
    pub account: Option<String>,
    /// The names of the server that an earlier join set, in lower case.
    pub names: Vec<String>,
}

impl EarlierJoin {
    /// Checks that the account is the one that this state directory has joined with. Another host may have
    /// taken it over since, so the key has to prove it. If the keytab is lost, the host name of the account
    /// tells.
    fn check(&self, entry: &LdapEntry, key: impl FnOnce(&str) -> KeyVerdict) -> Result<(), String> {
        let name = entry.text("sAMAccountName").unwrap_or_default();
        let host = entry.text("dNSHostName").unwrap_or_default().to_lowercase();
        let said = match &self.account {
            Some(account) if account.eq_ignore_ascii_case(name) => match key(account) {
                KeyVerdict::Valid => return Ok(()),
                KeyVerdict::NoAccount => "the KDC does not know it".to_owned(),
                KeyVerdict::Refused(said) => said,
            },
            None if self.names.contains(&host) => return Ok(()),
            _ => {
                return Err("this server did not join with it; give the server another name by \
                            --computer-name; if the account is this server's or nobody's, --take-over \
                            replaces its password"
                    .to_owned());
            }
        };
        Err(format!(
            "the KDC refuses the key that this server has of it ({said}), so another host may have taken it \
             over; if the account is this server's, --take-over replaces its password; if not, `trunkline \
             domain leave --keep-account`, and join by another --computer-name"
        ))
    }
}

/// Checks that a join may replace the password of an account of the directory. `key` asks the KDC whether an
/// account has the key of the earlier join.
///
/// # Errors
/// Whose account it is, and what to do.
pub fn check_account(
    entry: &LdapEntry,
    earlier: &EarlierJoin,
    may_take_over: bool,
    key: impl FnOnce(&str) -> KeyVerdict,
) -> Result<(), String> {
    let name = entry.text("sAMAccountName").unwrap_or_default();
    let bits = entry.number("userAccountControl").unwrap_or(0);
    let group = entry.number("primaryGroupID").unwrap_or(0);
    if bits & CONTROLLER != 0 || CONTROLLER_GROUPS.contains(&group) {
        return Err(format!(
            "{name} is the account of a domain controller ({}), which a join would cut off; give the server \
             another name by --computer-name",
            entry.name
        ));
    }
    if bits & WORKSTATION_TRUST == 0 {
        return Err(format!(
            "{name} is no account of a machine ({}); give the server another name by --computer-name",
            entry.name
        ));
    }
    if may_take_over {
        return Ok(());
    }
    let host = entry.text("dNSHostName").map_or_else(String::new, |host| format!(" for the host {host}"));
    let of =
        |why: String| format!("the domain has the account {name} already{host} ({}), and {why}", entry.name);
    earlier.check(entry, key).map_err(of)
}

/// The principals by which a name belongs to an account. Each machine has `host/NAME`, which stands for the
/// other services.
pub fn principals(names: &[String], services: &[&str]) -> Vec<String> {
    let of = |name: &String| {
        let all = services.iter().chain(&["host"]);
        all.map(|service| format!("{service}/{name}")).collect::<Vec<_>>()
    };
    names.iter().flat_map(of).collect()
}

/// Checks that nobody but `account` has one of these principals.
///
/// # Errors
/// The owner, and what to do.
pub fn check_principals(owners: &[LdapEntry], account: &str, principals: &[String]) -> Result<(), String> {
    let is_other = |entry: &&LdapEntry| {
        !entry.text("sAMAccountName").is_some_and(|name| name.eq_ignore_ascii_case(account))
    };
    let Some(owner) = owners.iter().find(is_other) else { return Ok(()) };
    let has = |wanted: &&String| {
        let mut values = owner.values("servicePrincipalName").iter();
        values.any(|value| value.eq_ignore_ascii_case(wanted.as_bytes()))
    };
    let principal = principals.iter().find(has).map_or("a service principal", String::as_str);
    let name = owner.text("sAMAccountName").unwrap_or(&owner.name);
    let alias = principal.split_once('/').map_or(principal, |(_, alias)| alias);
    Err(format!(
        "{principal} belongs to the account {name} ({}), so clients would get tickets for that one; leave \
         the name {alias} out, or free it first: on a controller `setspn -D {principal} {}`",
        owner.name,
        name.trim_end_matches('$'),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(attributes: &[(&str, &str)]) -> LdapEntry {
        let one = |(name, value): &(&str, &str)| ((*name).to_owned(), vec![value.as_bytes().to_vec()]);
        LdapEntry { name: "CN=X,DC=r".to_owned(), attributes: attributes.iter().map(one).collect() }
    }

    fn valid(_: &str) -> KeyVerdict {
        KeyVerdict::Valid
    }

    fn machine(bits: u32, group: u32) -> LdapEntry {
        let (bits, group) = (bits.to_string(), group.to_string());
        entry(&[
            ("sAMAccountName", "FILES$"),
            ("userAccountControl", &bits),
            ("primaryGroupID", &group),
            ("dNSHostName", "Files.r.example"),
        ])
    }

    #[test]
    fn only_a_ticket_proves_a_key() {
        let end = |is_success, errors: &str| {
            KeyVerdict::of(&ProgramEnd { is_success, output: String::new(), errors: errors.to_owned() })
        };
        assert_eq!(end(true, ""), KeyVerdict::Valid);
        let gone =
            "kinit: Client 'FILES$@R' not found in Kerberos database while getting initial credentials";
        assert_eq!(end(false, gone), KeyVerdict::NoAccount);
        for words in ["Preauthentication failed", "Client's credentials have been revoked"] {
            let refused = end(false, &format!("kinit: {words}\n"));
            assert_eq!(refused, KeyVerdict::Refused(words.to_owned()));
        }
    }

    #[test]
    fn the_account_of_a_controller_is_never_taken() {
        let own = EarlierJoin { account: Some("FILES$".to_owned()), names: Vec::new() };
        // A controller, one that only reads, and each by its group alone.
        for (bits, group) in [(0x82000, 516), (0x0401_1000, 521), (0x1000, 516), (0x1000, 521)] {
            let why = check_account(&machine(bits, group), &own, true, valid).unwrap_err();
            assert!(why.contains("is the account of a domain controller (CN=X,DC=r)"), "{bits:x}: {why}");
        }
        for bits in [0x200, 0x820] {
            let why = check_account(&machine(bits, 513), &own, true, valid).unwrap_err();
            assert!(why.contains("is no account of a machine"), "{bits:x}: {why}");
        }
    }

    #[test]
    fn the_account_of_another_host_is_taken_only_on_demand() {
        let of = |account: Option<&str>, names: &[&str]| EarlierJoin {
            account: account.map(str::to_owned),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let there = machine(0x1000, 515);
        for stranger in [of(None, &[]), of(None, &["nas.r.example"]), of(Some("NAS$"), &["files.r.example"])]
        {
            let why = check_account(&there, &stranger, false, valid).unwrap_err();
            assert!(why.contains("for the host Files.r.example") && why.contains("--take-over"), "{why}");
            assert_eq!(check_account(&there, &stranger, true, valid), Ok(()));
        }
        for own in [of(Some("files$"), &[]), of(None, &["files.r.example"])] {
            assert_eq!(check_account(&there, &own, false, valid), Ok(()), "{own:?}");
        }
    }

    #[test]
    fn an_account_whose_key_the_kdc_refuses_is_no_longer_the_servers_own() {
        let names = vec!["files.r.example".to_owned()];
        let own = EarlierJoin { account: Some("FILES$".to_owned()), names: names.clone() };
        let there = machine(0x1000, 515);
        let refused = |_: &str| KeyVerdict::Refused("Preauthentication failed".to_owned());
        let why = check_account(&there, &own, false, refused).unwrap_err();
        for words in ["(Preauthentication failed)", "--take-over", "`trunkline domain leave --keep-account`"]
        {
            assert!(why.contains(words), "{why}");
        }
        assert!(check_account(&there, &own, false, |_| KeyVerdict::NoAccount).is_err());
        assert_eq!(check_account(&there, &own, true, refused), Ok(()));
        // There is no key to prove anything by.
        let lost = EarlierJoin { account: None, names };
        assert_eq!(check_account(&there, &lost, false, refused), Ok(()));
    }

    #[test]
    fn a_name_of_another_account_is_refused_with_its_owner() {
        let wanted = principals(&["nas.r.example".to_owned()], &["cifs", "nfs"]);
        assert_eq!(wanted, ["cifs/nas.r.example", "nfs/nas.r.example", "host/nas.r.example"]);
        let nas = entry(&[("sAMAccountName", "NAS$"), ("servicePrincipalName", "HOST/NAS.r.example")]);
        let own = entry(&[("sAMAccountName", "files$"), ("servicePrincipalName", "cifs/nas.r.example")]);
        assert_eq!(check_principals(std::slice::from_ref(&own), "FILES$", &wanted), Ok(()));
        let why = check_principals(&[own, nas], "FILES$", &wanted).unwrap_err();
        let expected = "host/nas.r.example belongs to the account NAS$ (CN=X,DC=r)";
        assert!(why.starts_with(expected) && why.contains("`setspn -D host/nas.r.example NAS`"), "{why}");
    }
}
