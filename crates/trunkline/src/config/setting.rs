//! A value of the configuration with its origin, and the error about an invalid one.

/// A mistake in the configuration and the setting to change, as one line for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default: the value is not set.
    Default,
    /// A line of the configuration file, from 1.
    File {
        /// The line.
        line: usize,
    },
    /// A line of the file of changes by command, from 1.
    Change {
        /// The line.
        line: usize,
    },
    /// An option of the command line.
    CommandLine(&'static str),
    /// An environment variable.
    Environment(String),
    /// A table from which the value is inherited (that of the account or of the server).
    Inherited(String),
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// The origin.
    pub origin: Origin,
}

impl<T> From<T> for Setting<T> {
    fn from(value: T) -> Self {
        Setting::default_of(value)
    }
}

impl<T: Default> Default for Setting<T> {
    fn default() -> Self {
        Setting::default_of(T::default())
    }
}

impl<T> Setting<T> {
    /// A value that is not set.
    pub fn default_of(value: T) -> Self {
        Setting { value, origin: Origin::Default }
    }
}

impl<T: Clone> Setting<T> {
    /// The same value, with `table` as its origin.
    pub fn inherited(&self, table: &str) -> Self {
        match self.origin {
            Origin::Default => self.clone(),
            _ => Setting { value: self.value.clone(), origin: Origin::Inherited(table.to_owned()) },
        }
    }
}

/// [`os_error`] of a file that the server itself needs. It also says to whom permission is denied. A command
/// may run as another user than the server.
pub fn own_error(error: &std::io::Error) -> String {
    let text = os_error(error);
    if error.kind() != std::io::ErrorKind::PermissionDenied {
        return text;
    }
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    format!(
        "{text} to uid {uid} and gid {gid}; if the server runs as another user, run this as that user or \
         with sudo, else `chown -R {uid}:{gid}` gives access"
    )
}

/// The message of an error of the host, without the number.
pub fn os_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
