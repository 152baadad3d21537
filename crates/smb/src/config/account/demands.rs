//! The demands of an account on a session, and the reason why a session does not meet them.

use auth::crypto::Cipher;
use smb_wire::negotiate::Dialect;

use super::{LogonMechanism, LogonProperties};
use crate::config::{Encryption, Ntlm, Signing};
use crate::keys::Protection;

/// The demands of an account. `None` stands for no demand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demands {
    /// Oldest dialect.
    pub min_dialect: Option<Dialect>,
    /// Sealing.
    pub encryption: Option<Encryption>,
    /// Signing.
    pub signing: Option<Signing>,
    /// Allowed ciphers.
    pub ciphers: Option<Vec<Cipher>>,
    /// Whether users may not log on with their own passwords.
    pub refuses_passwords: bool,
    /// Whether users may not log on with the account's keys.
    pub refuses_keys: bool,
    /// The users who may have logged on with NTLM.
    pub ntlm: Ntlm,
}

impl Demands {
    /// Whether the account allows this cipher.
    #[must_use]
    pub fn takes(&self, cipher: Cipher) -> bool {
        self.ciphers.as_ref().is_none_or(|ciphers| ciphers.contains(&cipher))
    }

    /// Whether all messages must be sealed.
    #[must_use]
    pub fn seals(&self) -> bool {
        self.encryption == Some(Encryption::Required)
    }

    /// Whether all messages must be signed or sealed.
    #[must_use]
    pub fn signs(&self) -> bool {
        self.signing == Some(Signing::Required)
    }

    /// The demand that a log-on does not meet, in words that follow the account's name.
    #[must_use]
    pub fn unmet(&self, logon: LogonProperties<'_>) -> Option<String> {
        let LogonProperties { protection: Protection { dialect, cipher, .. }, signs, key_of, .. } = logon;
        match key_of {
            Some(_) if self.refuses_keys => return Some("takes no keys".to_owned()),
            None if self.refuses_passwords => {
                return Some("accepts only its keys, not a user's password".to_owned());
            }
            _ => {}
        }
        match (self.ntlm, logon.mechanism) {
            (Ntlm::Off, LogonMechanism::Ntlm | LogonMechanism::NtlmOfDomain) => {
                return Some("refuses NTLM: its users need Kerberos tickets".to_owned());
            }
            (Ntlm::Local, LogonMechanism::NtlmOfDomain) => {
                return Some("refuses NTLM of users of the domain: they need Kerberos tickets".to_owned());
            }
            _ => {}
        }
        if let Some(oldest) = self.min_dialect.filter(|oldest| dialect.get() < oldest.get()) {
            let [oldest, spoken] = [oldest, dialect].map(|it| it.name().unwrap_or("of an unknown dialect"));
            return Some(format!("demands SMB {oldest} or later, and this connection speaks SMB {spoken}"));
        }
        match cipher {
            None if self.seals() => {
                Some("demands encryption, and its client has none that both sides know".to_owned())
            }
            // A client that could seal may do so, and that is as good as signing.
            None if self.signs() && !signs => {
                Some("demands signed messages, and its client has not said that it signs".to_owned())
            }
            Some(cipher) if !self.takes(cipher) => {
                let taken: Vec<&str> = self.ciphers.iter().flatten().map(|cipher| cipher.name()).collect();
                let (taken, agreed) = (taken.join(", "), cipher.name());
                Some(format!("takes no cipher but {taken}, and this connection has agreed on {agreed}"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::crypto::SigningAlgorithm;

    fn with(dialect: Dialect, cipher: Option<Cipher>, signs: bool) -> LogonProperties<'static> {
        let protection = Protection { dialect, signing: SigningAlgorithm::AesCmac, cipher };
        LogonProperties { protection, signs, key_of: None, mechanism: LogonMechanism::Ntlm }
    }

    #[test]
    fn ntlm_is_refused_to_those_whom_the_account_says() {
        let refuses = |ntlm, mechanism, key_of| {
            let logon = LogonProperties { mechanism, key_of, ..with(Dialect::Smb311, None, false) };
            Demands { ntlm, ..Demands::default() }.unmet(logon).is_some()
        };
        use LogonMechanism::{Kerberos, Ntlm as Local, NtlmOfDomain};
        let of = |ntlm| [Local, NtlmOfDomain, Kerberos].map(|mechanism| refuses(ntlm, mechanism, None));
        assert_eq!(of(Ntlm::On), [false, false, false]);
        assert_eq!(of(Ntlm::Local), [false, true, false]);
        assert_eq!(of(Ntlm::Off), [true, true, false]);
        assert!(refuses(Ntlm::Off, Local, Some("lab")), "keys are passwords of NTLM");
    }

    #[test]
    fn each_demand_is_named_when_it_is_not_met() {
        let demands = Demands {
            min_dialect: Some(Dialect::Smb300),
            encryption: None,
            signing: Some(Signing::Required),
            ciphers: Some(vec![Cipher::Aes256Gcm, Cipher::Aes128Ccm]),
            ..Demands::default()
        };
        let why = |dialect, cipher, signs| demands.unmet(with(dialect, cipher, signs)).unwrap_or_default();
        assert!(
            why(Dialect::Smb210, None, true).contains("SMB 3.0 or later, and this connection speaks SMB 2.1")
        );
        assert!(why(Dialect::Smb300, None, false).contains("demands signed messages"));
        assert_eq!(why(Dialect::Smb300, None, true), "");
        assert_eq!(why(Dialect::Smb300, Some(Cipher::Aes128Ccm), false), "", "it may seal");
        let wanted =
            "takes no cipher but AES-256-GCM, AES-128-CCM, and this connection has agreed on AES-128-GCM";
        assert_eq!(why(Dialect::Smb311, Some(Cipher::Aes128Gcm), true), wanted);
        let sealed = Demands { encryption: Some(Encryption::Required), ..Demands::default() };
        assert!(sealed.unmet(with(Dialect::Smb311, None, true)).unwrap().contains("demands encryption"));
        assert_eq!(sealed.unmet(with(Dialect::Smb300, Some(Cipher::Aes128Ccm), false)), None);
        assert_eq!(Demands::default().unmet(with(Dialect::Smb202, None, false)), None);
    }
}
