//! Settings from environment variables, for servers in containers.
//!
//! Every key of the configuration is a variable in capitals, after `TRUNKLINE_`, its table and the name of
//! that table:
//!
//! | variable | key |
//! |---|---|
//! | `TRUNKLINE_SERVER_SMB_PORT` | `smb_port` in `[server]` |
//! | `TRUNKLINE_SHARE_DOCS_READ_ONLY` | `read_only` in `[share.docs]` |
//! | `TRUNKLINE_USER_ANN_PASSWORD_FILE` | `password_file` in the `[[user]]` with the name `ann` |
//! | `TRUNKLINE_USER_ANN_PASSWORD` | none: the file has no passwords |
//!
//! [`Environment::settings`] turns the variables into a document with one line for each, which the reader of
//! the configuration puts before the file. A variable that nothing reads is refused. An empty variable counts
//! as not set, because compose files cannot leave one out.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;

use super::format::bare;
use super::nearest::nearest;
use super::setting::ConfigError;
use super::table::KeyDescription;
use super::tables::{Account, Admin, Audit, Domain, Node, Server, Share, Testing, User};
use super::words;

/// The beginning of all variables.
const PREFIX: &str = "TRUNKLINE_";
/// Variables without a key in the configuration, by what follows the prefix.
const OTHERS: &[&str] = &[
    "CONFIG",
    "STATE_DIR",
    "LOG",
    "PASSWORD",
    "DST_PASSWORD",
    "SECRET",
    "LINK_HOST",
    "LINK_PORT",
    // Tests and measurements of this project.
    "FULL",
    "PAIRS",
];
/// The key of a user that only the environment has.
const PASSWORD: &str = "password";

/// The variables of a process that begin with `TRUNKLINE_`. Some hold passwords, so it is never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, OsString>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A password of the environment. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    /// The variable.
    pub variable: String,
    /// Its value.
    pub text: String,
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Password(${})", self.variable)
    }
}

/// The variables as a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentSettings {
    /// TOML with one key on each line. Users are tables by name.
    pub text: String,
    /// The variable of each line.
    pub variables: Vec<String>,
    /// The passwords by the names of the users in lower case.
    pub passwords: BTreeMap<String, Password>,
}

/// A table of the configuration.
struct VariableTable {
    /// Its variables, after the prefix.
    variables: &'static str,
    /// Its keys, after a dot.
    path: &'static str,
    keys: Vec<KeyDescription>,
    /// Whether there is one for each name.
    is_named: bool,
}

impl VariableTable {
    /// The tables. The first one that fits a variable is its table.
    fn all() -> Vec<VariableTable> {
        let table = |variables, path, keys, is_named| VariableTable { variables, path, keys, is_named };
        vec![
            table("SERVER_TESTING_", "server.testing", Testing::keys().to_vec(), false),
            table("SERVER_", "server", Server::keys().to_vec(), false),
            table("ADMIN_", "admin", Admin::keys().to_vec(), false),
            table("AUDIT_", "audit", Audit::keys().to_vec(), false),
            table("DOMAIN_", "domain", Domain::keys().to_vec(), false),
            table("NODE_", "node", Node::keys().to_vec(), false),
            table("USER_", "user", User::keys().to_vec(), true),
            table("ACCOUNT_", "account", Account::keys().to_vec(), true),
            table("SHARE_", "share", Share::keys().to_vec(), true),
        ]
    }

    /// The keys that variables have.
    fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let password = (self.path == "user").then_some(PASSWORD);
        self.keys.iter().map(|key| key.name).chain(password)
    }
}

/// A variable that sets a key.
struct Variable<'a> {
    table: &'a VariableTable,
    /// The name of the table, in lower case if the variable is in capitals.
    name: Option<String>,
    key: &'static str,
}

impl<'a> Variable<'a> {
    /// The key that a variable sets. `after` is what follows the prefix.
    fn of(after: &str, tables: &'a [VariableTable]) -> Option<Variable<'a>> {
        tables.iter().find_map(|table| {
            let rest = after.strip_prefix(table.variables)?;
            if !table.is_named {
                let key = table.names().find(|key| key.to_uppercase() == rest)?;
                return Some(Variable { table, name: None, key });
            }
            let fits = |key: &&str| Self::name_before(rest, key).is_some();
            let key = table.names().filter(fits).max_by_key(|key| key.len())?;
            let name = Self::name_before(rest, key)?;
            let is_written = name.chars().any(char::is_lowercase);
            let name = if is_written { name.to_owned() } else { name.to_lowercase() };
            Some(Variable { table, name: Some(name), key })
        })
    }

    /// The name in `NAME_KEY`.
    fn name_before<'n>(rest: &'n str, key: &str) -> Option<&'n str> {
        let name = rest.strip_suffix(&key.to_uppercase())?.strip_suffix('_')?;
        (!name.is_empty()).then_some(name)
    }

    /// The key's full name in the document.
    fn path(&self, key: &str) -> String {
        match &self.name {
            Some(name) => format!("{}.{}.{key}", self.table.path, bare(name)),
            None => format!("{}.{key}", self.table.path),
        }
    }
}

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Environment {
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        Environment::of(std::env::vars_os().filter_map(named))
    }

    /// These variables, without those that have nothing to do with the program.
    pub fn of(variables: impl IntoIterator<Item = (String, OsString)>) -> Environment {
        let is_own = |(name, value): &(String, OsString)| {
            name.starts_with(PREFIX) && !is_link(&name[PREFIX.len()..], &value.to_string_lossy())
        };
        Environment(variables.into_iter().filter(is_own).collect())
    }

    /// The variables as a document.
    ///
    /// # Errors
    /// The first variable that nothing reads or that has no valid value.
    pub fn settings(&self) -> Result<EnvironmentSettings, ConfigError> {
        let tables = VariableTable::all();
        let mut settings = EnvironmentSettings::default();
        let mut users = BTreeMap::new();
        let mut named = BTreeSet::new();
        for (variable, value) in &self.0 {
            let after = &variable[PREFIX.len()..];
            if OTHERS.contains(&after) {
                continue;
            }
            let refused = |why: String| ConfigError(format!("${variable}: {why}"));
            let Some(found) = Variable::of(after, &tables) else {
                return Err(refused(format!("nothing reads this variable{}", hint(after, &tables))));
            };
            let text = value.to_str().ok_or_else(|| refused("it is not text".to_owned()))?;
            let owner = found.name.as_ref().filter(|_| found.table.path == "user");
            if found.key == PASSWORD {
                if text.is_empty() {
                    return Err(refused("the password is empty".to_owned()));
                }
                users.insert(owner.cloned().unwrap_or_default(), (variable, text));
            } else if text.is_empty() {
                continue;
            }
            if let Some(name) = owner.filter(|name| named.insert((*name).clone())) {
                let is_given = self.0.contains_key(&format!("{PREFIX}USER_{}_NAME", name.to_uppercase()));
                if !is_given {
                    settings.line(variable, &found.path("name"), &serde_json::Value::from(name.as_str()));
                }
            }
            let key = found.table.keys.iter().find(|key| key.name == found.key);
            if let Some(key) = key {
                let value = words::value(&key.shape, key.name, text).map_err(refused)?;
                settings.line(variable, &found.path(key.name), &value);
            }
        }
        settings.passwords = self.passwords(users)?;
        Ok(settings)
    }

    /// The passwords by the names of their users, from those by the names in their variables.
    fn passwords(
        &self,
        found: BTreeMap<String, (&String, &str)>,
    ) -> Result<BTreeMap<String, Password>, ConfigError> {
        let of = |user: &str, key: &str| {
            self.0.get(&format!("{PREFIX}USER_{}_{key}", user.to_uppercase())).and_then(|set| set.to_str())
        };
        let mut passwords = BTreeMap::new();
        for (user, (variable, text)) in found {
            if of(&user, "PASSWORD_FILE").is_some_and(|file| !file.is_empty()) {
                let why = "the same variable with _FILE is set too; give a user one password";
                return Err(ConfigError(format!("${variable}: {why}")));
            }
            let name = of(&user, "NAME").unwrap_or(&user).to_lowercase();
            passwords.insert(name, Password { variable: variable.clone(), text: text.to_owned() });
        }
        Ok(passwords)
    }
}

impl EnvironmentSettings {
    fn line(&mut self, variable: &str, path: &str, value: &serde_json::Value) {
        self.text.push_str(&format!("{path} = {}\n", words::toml(value)));
        self.variables.push(variable.to_owned());
    }
}

/// Whether a variable comes from Kubernetes or Docker, which describe a service named `trunkline…` to every
/// other container by such variables.
fn is_link(after: &str, value: &str) -> bool {
    let ends = ["SERVICE_HOST", "SERVICE_PORT"].iter().any(|end| after.ends_with(end));
    let mut parts = after.split('_').skip_while(|part| *part != "PORT").skip(1);
    let is_numbered = parts.next().is_some_and(|port| port.parse::<u16>().is_ok())
        && parts.next().is_some_and(|protocol| ["TCP", "UDP", "SCTP"].contains(&protocol));
    // Only these have addresses. A setting may have one too, such as the target of the audit.
    let is_port = after == "PORT" || after.ends_with("_PORT");
    let is_address =
        is_port && ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let is_linked = ["ENV_", "NAME"].iter().any(|begin| after.starts_with(begin));
    ends || after.contains("SERVICE_PORT_") || is_address || is_numbered || is_linked
}

/// The variable that a mistyped one most likely stands for.
fn hint(after: &str, tables: &[VariableTable]) -> String {
    let parts: Vec<&str> = after.split('_').collect();
    let mut known: Vec<String> = OTHERS.iter().map(|name| (*name).to_owned()).collect();
    for table in tables {
        for key in table.names().map(str::to_uppercase) {
            if table.is_named {
                // The name is somewhere between the table and the key.
                let names = (2..parts.len()).map(|end| parts[1..end].join("_"));
                known.extend(names.map(|name| format!("{}{name}_{key}", table.variables)));
            } else {
                known.push(format!("{}{key}", table.variables));
            }
        }
    }
    let of_server = known.iter().find(|name| name.strip_prefix("SERVER_") == Some(after));
    let near = of_server.map(String::as_str).or_else(|| nearest(after, known.iter().map(String::as_str)));
    match near {
        Some(name) => format!("; did you mean {PREFIX}{}?", name.to_uppercase()),
        None => {
            let of = |table: &VariableTable| {
                format!("{PREFIX}{}{}KEY", table.variables, if table.is_named { "NAME_" } else { "" })
            };
            let for_people = tables.iter().filter(|table| table.path != "server.testing");
            let forms: Vec<String> = for_people.map(of).collect();
            format!("; variables are {}, with the keys of docs/configuration.md", forms.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<EnvironmentSettings, String> {
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(*value)));
        Environment::of(owned).settings().map_err(|error| error.0)
    }

    #[test]
    fn each_variable_is_a_line_and_names_may_hold_underscores() {
        let all = settings(&[
            ("TRUNKLINE_SERVER_SMB_PORT", "4450"),
            ("TRUNKLINE_SERVER_TESTING_MAX_CREDITS", "3"),
            ("TRUNKLINE_SERVER_DISCOVERY", "off"),
            ("TRUNKLINE_SERVER_NAME", ""),
            ("TRUNKLINE_ADMIN_LISTEN", "127.0.0.1:9446"),
            ("TRUNKLINE_SHARE_MY_DOCS_PATH", "/data/a \"b\"\nc"),
            ("TRUNKLINE_SHARE_MY_DOCS_PROTOCOLS", "smb,nfs"),
            ("TRUNKLINE_SHARE_MY_DOCS_USERS", "ann = write , *= read"),
            ("TRUNKLINE_SHARE_Big-One_NFS_PORT", "3000"),
            ("TRUNKLINE_USER_ANN_GROUPS", "7,8"),
            ("TRUNKLINE_STATE_DIR", "/s"),
            ("PATH", "/bin"),
        ]);
        let all = all.unwrap();
        let wanted = "admin.listen = \"127.0.0.1:9446\"\nserver.discovery = false\nserver.smb_port = \
                      4450\nserver.testing.max_credits = 3\nshare.Big-One.nfs_port = 3000\n\
                      share.my_docs.path = \"/data/a \\\"b\\\"\\nc\"\nshare.my_docs.protocols = [\"smb\", \
                      \"nfs\"]\nshare.my_docs.users = { \"*\" = \"read\", \"ann\" = \"write\" }\n\
                      user.ann.name = \"ann\"\nuser.ann.groups = [7, 8]\n";
        assert_eq!(all.text, wanted);
        assert_eq!(all.variables[0], "TRUNKLINE_ADMIN_LISTEN");
        assert_eq!(all.variables.len(), wanted.lines().count());
        assert_eq!(all.variables[9], "TRUNKLINE_USER_ANN_GROUPS");
    }

    #[test]
    fn a_password_is_found_by_its_user_and_stands_in_no_text() {
        let all = settings(&[
            ("TRUNKLINE_USER_ANN_PASSWORD", "hunter2-ann"),
            ("TRUNKLINE_USER_1_PASSWORD", "hunter2-bob"),
            ("TRUNKLINE_USER_1_NAME", "Bob.Smith"),
        ])
        .unwrap();
        assert_eq!(all.text, "user.1.name = \"Bob.Smith\"\nuser.ann.name = \"ann\"\n");
        assert_eq!(all.passwords["bob.smith"].text, "hunter2-bob");
        assert_eq!(all.passwords["ann"].variable, "TRUNKLINE_USER_ANN_PASSWORD");
        assert!(!format!("{all:?}").contains("hunter2"));
        let environment = Environment::of([("TRUNKLINE_PASSWORD".to_owned(), "hunter2".into())]);
        assert_eq!(format!("{environment:?}"), "{\"TRUNKLINE_PASSWORD\"}");
    }

    #[test]
    fn what_nothing_reads_is_refused_with_the_nearest_variable() {
        for (name, value, wanted) in [
            (
                "SHARE_DOCS_READONLY",
                "true",
                "nothing reads this variable; did you mean TRUNKLINE_SHARE_DOCS_READ_ONLY?",
            ),
            ("SHARE_MY_DOCS_PTH", "/x", "did you mean TRUNKLINE_SHARE_MY_DOCS_PATH?"),
            ("SHARES_DOCS_PATH", "/x", "did you mean TRUNKLINE_SHARE_DOCS_PATH?"),
            ("USER_ANN_PASWORD", "x", "did you mean TRUNKLINE_USER_ANN_PASSWORD?"),
            ("SMB_PORT", "4450", "did you mean TRUNKLINE_SERVER_SMB_PORT?"),
            ("SERVER_SMBPORT", "4450", "did you mean TRUNKLINE_SERVER_SMB_PORT?"),
            ("STATEDIR", "/s", "did you mean TRUNKLINE_STATE_DIR?"),
            ("XYZZY", "1", "variables are TRUNKLINE_SERVER_KEY, TRUNKLINE_ADMIN_KEY, "),
            ("XYZZY", "1", ", TRUNKLINE_NODE_KEY, TRUNKLINE_USER_NAME_KEY, "),
            ("SHARE_DOCS_USERS", "ann", "`ann` in `users` is not NAME=ACCESS"),
            ("SHARE_DOCS_USERS", "ann = ", "`ann =` in `users` is not NAME=ACCESS"),
            (
                "SERVER_SMB_PORT",
                "many",
                "$TRUNKLINE_SERVER_SMB_PORT: `smb_port` must be a whole number, not `many`",
            ),
            ("USER_ANN_PASSWORD", "", "$TRUNKLINE_USER_ANN_PASSWORD: "),
        ] {
            let why = settings(&[(&format!("TRUNKLINE_{name}"), value)]).unwrap_err();
            assert!(why.contains(wanted) && why.starts_with("$TRUNKLINE_"), "{name}: {why}");
        }
        let both = [("TRUNKLINE_USER_A_PASSWORD", "hunter2"), ("TRUNKLINE_USER_A_PASSWORD_FILE", "/f")];
        let why = settings(&both).unwrap_err();
        assert!(why.contains("with _FILE is set too") && !why.contains("hunter2"), "{why}");
    }

    #[test]
    fn what_kubernetes_and_docker_say_of_a_service_is_ignored() {
        let links = [
            ("TRUNKLINE_SERVICE_HOST", "10.0.0.1"),
            ("TRUNKLINE_SERVICE_PORT", "445"),
            ("TRUNKLINE_SERVICE_PORT_SMB", "445"),
            ("TRUNKLINE_PORT", "tcp://10.0.0.1:445"),
            ("TRUNKLINE_PORT_445_TCP_PROTO", "tcp"),
            ("TRUNKLINE_SERVER_SMB_PORT", "tcp://10.0.0.1:445"),
            ("TRUNKLINE_SERVER_SMB_SERVICE_HOST", "10.0.0.1"),
        ];
        assert_eq!(settings(&links), Ok(EnvironmentSettings::default()));
    }
}
