//! Failures of the library: the major and minor status with their texts, and the cause with what mends it.

use std::fmt;

use crate::encryption_type::EncryptionType;

/// The cause of a failure, as far as the status says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The clocks of the two hosts are too far apart.
    Skew,
    /// The ticket has expired.
    Expired,
    /// The ticket is not valid yet.
    NotYetValid,
    /// The same token came before.
    Replay,
    /// The keytab has no key for the service that the ticket is for.
    NoSuchService,
    /// The keytab has keys of the service, but none of the version or type of the ticket's.
    NoSuchKey,
    /// The keytab's key does not decrypt the ticket, or the token was changed.
    WrongKey,
    /// The encryption type is not allowed.
    ForbiddenType,
    /// The keytab is missing or cannot be read.
    NoKeytab,
    /// There are no tickets, or no credentials for new ones.
    NoCredentials,
    /// The directory does not know the service.
    UnknownService,
    /// The directory does not know the client.
    UnknownClient,
    /// The directory refuses the client's key.
    WrongPassword,
    /// No server of the realm answers.
    Unreachable,
    /// The token cannot be parsed.
    BadToken,
    /// A text cannot be a name for the library.
    BadName,
    /// The context has no session key.
    NoSessionKey,
    /// The message was not encrypted, although it had to be.
    NotSealed,
    /// A message came twice or out of order.
    OutOfOrder,
    /// Another cause, which only the texts describe.
    Other,
}

/// A failed call of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GssError {
    call: &'static str,
    major: u32,
    minor: u32,
    cause: Cause,
    texts: Vec<String>,
    /// A finding of this crate.
    note: Option<String>,
}

/// The first code of MIT's table `krb5`.
const KRB5: i32 = -1_765_328_384;

impl GssError {
    pub(crate) fn new(call: &'static str, major: u32, minor: u32, texts: &[String]) -> GssError {
        GssError { call, major, minor, cause: cause_of(major, minor), texts: texts.to_vec(), note: None }
    }

    /// A failure that this crate has found itself.
    pub(crate) fn local(call: &'static str, cause: Cause) -> GssError {
        GssError { call, major: 0, minor: 0, cause, texts: Vec::new(), note: None }
    }

    /// A ticket or a key has an encryption type that is not allowed.
    pub(crate) fn forbidden(kind: EncryptionType) -> GssError {
        let texts = vec![kind.to_string()];
        GssError { texts, ..GssError::local("gss_accept_sec_context", Cause::ForbiddenType) }
    }

    /// The same failure with a further sentence.
    pub(crate) fn with_note(self, note: Option<String>) -> GssError {
        GssError { note, ..self }
    }

    /// The cause.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// The major status (RFC 2744 section 3.9.1). It is 0 for a failure that the library did not report.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.major
    }

    /// The minor status, which is MIT's own code.
    #[must_use]
    pub fn minor(&self) -> u32 {
        self.minor
    }
}

/// The cause for a status. Codes are those of MIT's table `krb5`, which RFC 4120 section 7.5.9 begins.
fn cause_of(major: u32, minor: u32) -> Cause {
    match (minor as i32).wrapping_sub(KRB5) {
        37 => Cause::Skew,
        32 => Cause::Expired,
        33 => Cause::NotYetValid,
        34 => Cause::Replay,
        // KRB5KRB_AP_ERR_NOT_US, KRB5KRB_AP_WRONG_PRINC
        35 | 144 => Cause::NoSuchService,
        // KRB5KRB_AP_ERR_BADKEYVER, KRB5KRB_AP_ERR_NOKEY, KRB5_KT_KVNONOTFOUND
        44 | 45 | 230 => Cause::NoSuchKey,
        // KRB5KRB_AP_ERR_BAD_INTEGRITY, KRB5KRB_AP_ERR_MODIFIED
        31 | 41 => Cause::WrongKey,
        // KRB5KDC_ERR_ETYPE_NOSUPP, KRB5_NOPERM_ETYPE
        14 | 236 => Cause::ForbiddenType,
        // KRB5_KT_NOTFOUND, KRB5_KT_IOERR
        181 | 184 => Cause::NoKeytab,
        // KRB5_CC_NOTFOUND, KRB5_FCC_NOFILE
        141 | 195 => Cause::NoCredentials,
        6 => Cause::UnknownClient,
        // KRB5KDC_ERR_PREAUTH_FAILED
        24 => Cause::WrongPassword,
        7 => Cause::UnknownService,
        // KRB5_REALM_UNKNOWN, KRB5_KDC_UNREACH, KRB5_REALM_CANT_RESOLVE
        154 | 156 | 220 => Cause::Unreachable,
        _ => match major >> 16 & 0xff {
            // GSS_S_DEFECTIVE_TOKEN, GSS_S_BAD_MECH
            9 | 1 => Cause::BadToken,
            // GSS_S_NO_CRED
            7 => Cause::NoCredentials,
            // GSS_S_CREDENTIALS_EXPIRED, GSS_S_CONTEXT_EXPIRED
            11 | 12 => Cause::Expired,
            // GSS_S_BAD_MIC
            6 => Cause::WrongKey,
            _ => Cause::Other,
        },
    }
}

impl Cause {
    /// The cause in words, with what mends it.
    fn advice(self) -> &'static str {
        match self {
            Cause::Skew => {
                "the clocks of client and server are too far apart: set both with `timedatectl set-ntp true`"
            }
            Cause::Expired => "the ticket has expired: get a new one with `kinit`",
            Cause::NotYetValid => {
                "the ticket is not valid yet, since this host's clock is behind the KDC's: set it with \
                 `timedatectl set-ntp true`"
            }
            Cause::Replay => "the same ticket request came before: somebody may have recorded it",
            Cause::NoSuchService => {
                "the keytab has no key for the service of the ticket: list its names with `klist -k`, and \
                 add this one to the keytab or correct the name that the client uses"
            }
            Cause::NoSuchKey => {
                "the keytab lacks the key version or type of the ticket: get the new keys into the keytab \
                 (`klist -kte` lists them), or get a new ticket with `kinit`"
            }
            Cause::WrongKey => {
                "the keytab's key does not open the ticket: the keytab is older than the password of the \
                 service, or the ticket was changed; get the keys anew (`klist -kte` lists them) and a new \
                 ticket with `kinit`"
            }
            Cause::ForbiddenType => {
                "the ticket's encryption type is not allowed: give the service's account AES keys, or allow \
                 the type by name in `encryption_types` of `[domain]`"
            }
            Cause::NoKeytab => "the keytab is missing or cannot be read: check it with `klist -k`",
            Cause::NoCredentials => "there is no valid ticket: get one with `kinit`",
            Cause::UnknownService => {
                "the realm does not know the service: check its name, and add the service principal to the \
                 realm"
            }
            Cause::UnknownClient => "the realm does not know the user: check its name and its realm",
            Cause::WrongPassword => "the realm refuses the password or the key of the user: get it anew",
            Cause::Unreachable => {
                "no KDC of the realm answers: check the network, and `kdc` in /etc/krb5.conf or the DNS"
            }
            Cause::BadToken => "the token cannot be parsed",
            Cause::BadName => "a name or a path is no text that the library takes",
            Cause::NoSessionKey => "the context has no session key",
            Cause::NotSealed => "the message could not be encrypted",
            Cause::OutOfOrder => "a message came twice or out of order",
            Cause::Other => "Kerberos failed",
        }
    }
}

impl GssError {
    /// The call that failed, and what the library says.
    #[must_use]
    pub fn details(&self) -> String {
        // The first text is the major status, which says the least.
        let told = if self.texts.len() > 1 { &self.texts[1..] } else { &self.texts[..] };
        match told {
            [] => self.call.to_owned(),
            told => format!("{}: {}", self.call, told.join("; ")),
        }
    }
}

impl fmt::Display for GssError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cause.advice())?;
        if let Some(note) = &self.note {
            write!(f, "; {note}")?;
        }
        match self.texts.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.details()),
        }
    }
}

impl std::error::Error for GssError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_mit_have_their_causes() {
        // The numbers are those of MIT's header.
        for (code, cause) in [
            (-1_765_328_347, Cause::Skew),
            (-1_765_328_352, Cause::Expired),
            (-1_765_328_351, Cause::NotYetValid),
            (-1_765_328_350, Cause::Replay),
            (-1_765_328_349, Cause::NoSuchService),
            (-1_765_328_240, Cause::NoSuchService),
            (-1_765_328_340, Cause::NoSuchKey),
            (-1_765_328_339, Cause::NoSuchKey),
            (-1_765_328_154, Cause::NoSuchKey),
            (-1_765_328_353, Cause::WrongKey),
            (-1_765_328_343, Cause::WrongKey),
            (-1_765_328_370, Cause::ForbiddenType),
            (-1_765_328_148, Cause::ForbiddenType),
            (-1_765_328_203, Cause::NoKeytab),
            (-1_765_328_200, Cause::NoKeytab),
            (-1_765_328_243, Cause::NoCredentials),
            (-1_765_328_189, Cause::NoCredentials),
            (-1_765_328_377, Cause::UnknownService),
            (-1_765_328_378, Cause::UnknownClient),
            (-1_765_328_360, Cause::WrongPassword),
            (-1_765_328_230, Cause::Unreachable),
            (-1_765_328_228, Cause::Unreachable),
            (-1_765_328_164, Cause::Unreachable),
            (5, Cause::Other),
        ] {
            assert_eq!(cause_of(0, code as u32), cause, "{code}");
        }
        assert_eq!(cause_of(9 << 16, 0), Cause::BadToken);
    }

    #[test]
    fn a_failure_says_its_cause_the_call_and_the_librarys_detail() {
        let texts = ["Unspecified GSS failure".to_owned(), "Clock skew too great".to_owned()];
        let error = GssError::new("gss_accept_sec_context", 13 << 16, -1_765_328_347_i32 as u32, &texts);
        let said = error.to_string();
        assert!(
            said.contains("timedatectl") && said.contains("(gss_accept_sec_context: Clock skew"),
            "{said}"
        );
        assert!(!said.contains("Unspecified"));
    }
}
