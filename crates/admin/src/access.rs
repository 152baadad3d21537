//! The roles of administrators and programs, and their tokens.
//!
//! Each route of the API has the role that it needs ([`table`] lists all of them). A role may do whatever
//! the roles before it may do. [`crate::door`] finds out which [`Caller`] sends a request.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{api, http};

/// The name of the token in the file `admin-token`. No other token may have it.
pub const FILE_TOKEN: &str = "admin-token";

/// The most tokens. Each request is compared with all of them.
pub const MAX_TOKENS: usize = 256;

/// The settings of accounts and shares that [`Role::Operate`] may change: how much clients may use, and how
/// fast. All others say which files are served to whom, and need [`Role::Administer`]. A new setting belongs
/// to these until its name is written here.
pub const OPERATED_SETTINGS: [&str; 13] = [
    "change_notify",
    "comment",
    "formula",
    "kind",
    "max_channels",
    "metadata_caching",
    "multichannel",
    "nfs_max_connections",
    "provisioned_gib",
    "provisioned_iops",
    "provisioned_mib_s",
    "send_file",
    "streams_max_gib",
];

/// A role. The order counts: a later role includes the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees everything but secrets and tokens, and changes nothing.
    Read,
    /// Also runs the server from day to day: closes files, reloads, changes [`OPERATED_SETTINGS`].
    Operate,
    /// Everything: shares, accounts, users and tokens.
    Administer,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Read, Role::Operate, Role::Administer];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Administer => "administer",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Role::ALL.into_iter().find(|role| role.word() == text);
        found.ok_or_else(|| format!("`{text}` is not a role; the roles are read, operate and administer"))
    }
}

/// The sender of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// `token NAME`, or `certificate NAME`.
    pub name: String,
    /// The caller's role.
    pub role: Role,
}

impl Caller {
    /// Whether the caller may do something that needs `role`.
    ///
    /// # Errors
    /// The line that says which role is needed and which one the caller has.
    pub(crate) fn may(&self, what: &str, role: Role) -> Result<(), String> {
        if self.role >= role {
            return Ok(());
        }
        let Caller { name, role: own } = self;
        Err(format!("{what} needs the role {role}; the {name} has the role {own}"))
    }
}

/// The reason why a token lets nobody in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRefusal {
    /// No token is like this. It may have been revoked.
    Unknown,
    /// The token of this name has expired.
    Expired(String),
}

/// A token in a list, without its text. All times are RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenEntry {
    /// The name.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The time at which it was made.
    pub created: String,
    /// The last use; none if it was never used.
    pub last_used: Option<String>,
    /// The end of its life; none if it has none.
    pub expires: Option<String>,
}

/// A token to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// The name.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The time for which it lives, such as `90d`; none: until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// The text of a token. Nothing prints it by accident.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenText(pub String);

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// A token that was made. Its text is told this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewToken {
    /// The text to send as `Authorization: Bearer TEXT`.
    pub token: TokenText,
    /// Its entry in the list.
    pub entry: TokenEntry,
}

/// Every request that is answered, with the role that it needs; none: nobody is asked for a token.
#[must_use]
pub fn table() -> Vec<(String, Option<Role>)> {
    let open = ["/", "/openapi.json"].into_iter().chain(http::PROBES.map(|(path, _)| path));
    let open = open.map(|path| (format!("GET {path}"), None));
    let pages = http::PAGES.iter().map(|page| (format!("GET {}", page.path), Some(page.role)));
    open.chain(pages).chain(api::routes_with_roles()).collect()
}

/// [`table`] as it stands in docs/admin.md.
#[must_use]
pub fn table_in_markdown() -> String {
    let mut out = "| request | read | operate | administer |\n|---|---|---|---|\n".to_owned();
    for (request, needed) in table() {
        let marks = Role::ALL.map(|role| match needed {
            None => "without a token",
            Some(needed) if role >= needed && request.starts_with("PATCH") && role == Role::Operate => "some",
            Some(needed) if role >= needed => "yes",
            Some(_) => "",
        });
        out += &format!("| `{request}` | {} |\n", marks.join(" | "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_role_includes_the_earlier_ones() {
        let caller = |role| Caller { name: "token x".to_owned(), role };
        for (at, own) in Role::ALL.into_iter().enumerate() {
            assert_eq!(own.to_string().parse(), Ok(own));
            for (needed, role) in Role::ALL.into_iter().enumerate() {
                assert_eq!(caller(own).may("it", role).is_ok(), at >= needed, "{own} {role}");
            }
        }
        let why = caller(Role::Read).may("POST /x", Role::Administer).unwrap_err();
        assert_eq!(why, "POST /x needs the role administer; the token x has the role read");
        assert!("root".parse::<Role>().unwrap_err().contains("read, operate and administer"));
    }

    #[test]
    fn the_table_in_the_documents_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin.md");
        let document = std::fs::read_to_string(path).unwrap();
        let wanted = table_in_markdown();
        assert!(document.contains(&wanted), "docs/admin.md lacks this table:\n{wanted}");
        let settings = OPERATED_SETTINGS.map(|key| format!("`{key}`")).join(", ");
        let document = document.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(document.contains(&settings), "docs/admin.md lacks this list:\n{settings}");
    }

    #[test]
    fn a_token_is_never_shown_by_accident() {
        assert!(!format!("{:?}", TokenText("tl_secret".to_owned())).contains("secret"));
    }
}
