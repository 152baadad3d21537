//! A value of the configuration and where it came from, and what is said of one that is wrong.

/// What is wrong with the configuration, and the setting to change: one line for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A line of the configuration file, from 1.
    File {
        /// The line.
        line: usize,
    },
    /// A line of what was changed by command, from 1.
    Change {
        /// The line.
        line: usize,
    },
    /// This option of the command line.
    CommandLine(&'static str),
    /// This environment variable.
    Environment(&'static str),
    /// Taken over from this table, which stands above (an account, the server).
    Inherited(String),
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
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
    /// A value that nobody set.
    pub fn default_of(value: T) -> Self {
        Setting { value, origin: Origin::Default }
    }
}

impl<T: Clone> Setting<T> {
    /// The same value, said to come from `table` above.
    pub fn inherited(&self, table: &str) -> Self {
        match self.origin {
            Origin::Default => self.clone(),
            _ => Setting { value: self.value.clone(), origin: Origin::Inherited(table.to_owned()) },
        }
    }
}

/// An error of the host in its own words, without the number.
pub fn os_error(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
