//! A domain that the server's domain trusts: a value of `trusted` in `[domain]`.

use std::fmt;

use identity::mapping::IdRange;
use volume::security::Sid;

use super::values;

/// A trusted domain of Active Directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedDomain {
    /// Its realm.
    pub realm: String,
    /// Its NetBIOS name.
    pub netbios: String,
    /// Its SID.
    pub sid: Sid,
    /// The uids and gids of its users and groups.
    pub range: IdRange,
}

impl TrustedDomain {
    /// Whether this is the domain's NetBIOS or DNS name.
    pub fn is_named(&self, name: &str) -> bool {
        [&self.realm, &self.netbios].iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for TrustedDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TrustedDomain { realm, netbios, sid, range } = self;
        write!(f, "{realm} {netbios} {sid} {range}")
    }
}

/// Parses `REALM NETBIOS SID LOW-HIGH`.
///
/// # Errors
/// The mistake in the text.
pub fn trusted_domain(text: &str) -> Result<TrustedDomain, String> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [realm, netbios, sid, range] = parts[..] else {
        return Err(format!(
            "`{text}` must be a realm, a NetBIOS name, a SID and a range of ids, such as \
             `LAB.EXAMPLE LAB S-1-5-21-4-5-6 200000-299999`"
        ));
    };
    Ok(TrustedDomain {
        realm: values::realm(realm)?,
        netbios: values::netbios(netbios)?,
        sid: values::domain_sid(sid)?.parse().map_err(|why| format!("`{sid}`: {why}"))?,
        range: values::id_range(range)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trusted_domain_is_written_as_it_is_read() {
        let text = "LAB.EXAMPLE LAB S-1-5-21-4-5-6 200000-299999";
        let lab = trusted_domain(text).unwrap();
        assert_eq!(lab.to_string(), text);
        assert!(lab.is_named("lab.example") && lab.is_named("Lab") && !lab.is_named("example"));
        for bad in ["", "LAB.EXAMPLE LAB S-1-5-21-4-5-6", "LAB.EXAMPLE LAB S-1-5-18 200000-299999"] {
            assert!(trusted_domain(bad).is_err(), "{bad}");
        }
    }
}
