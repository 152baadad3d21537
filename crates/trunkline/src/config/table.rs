//! What a line of the table of settings means: [`settings!`] makes of each table a struct, its reading, what
//! is shown of it and its description.
//!
//! A line of [`super::tables`] is a comment, which is the key's help, and
//!
//! ```text
//! key: Type { Format, live, or DEFAULT }
//! ```
//!
//! `live` counts from a reload on, `start` from the next start. What stands last says what counts where
//! nothing is set:
//!
//! | | a field of | what counts |
//! |---|---|---|
//! | `required` | `Setting<Type>` | nothing can |
//! | `or VALUE` | `Setting<Type>` | the value, which may come from keys above it; `=> "words"` tells how |
//! | `from server`, `from account or server`, `from account or VALUE` | `Setting<Type>` | what the table above says of the same key |
//! | `unset "words"`, or with an example | `Option<Setting<Type>>` | nothing; the words say what becomes of it |
//! | `entries`, `entries from account` | `Users` | each entry has an origin of its own |

use super::format::{Format, Shape, Users, bare, quoted};
use super::setting::{Origin, Setting};
use super::values::Choice;

/// A key as it is described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDescription {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// What its values look like.
    pub shape: Shape,
    /// From which tables it is taken over, the first before the others.
    pub above: &'static [&'static str],
    /// What counts where nothing is set.
    pub fallback: Fallback,
    /// Whether a reload takes it into force.
    pub is_live: bool,
}

/// What counts where nothing is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// Nothing can.
    Required,
    /// This value, in TOML.
    Value(String),
    /// A value that is found in this way.
    Found(&'static str),
    /// What the table above says.
    Above,
    /// Nothing: what becomes of it, and a value in TOML as an example.
    Unset(&'static str, Option<&'static str>),
}

/// A line of what is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownSetting {
    /// The key.
    pub key: String,
    /// The value, in TOML.
    pub value: String,
    /// Where it came from; none: it is an example of one that is not set.
    pub origin: Option<Origin>,
    /// What counts where nothing is set, in words.
    pub words: Option<&'static str>,
}

/// A key's field of a table.
pub trait Field<T> {
    /// The lines that show it.
    fn lines(&self, key: &KeyDescription, format: &dyn Format<T>) -> Vec<ShownSetting>;

    /// Whether it has another value than `before`, wherever that came from.
    fn differs(&self, before: &Self) -> bool;
}

impl<T: PartialEq> Field<T> for Setting<T> {
    fn lines(&self, key: &KeyDescription, format: &dyn Format<T>) -> Vec<ShownSetting> {
        let words = match key.fallback {
            Fallback::Found(words) => Some(words),
            _ => None,
        };
        let (origin, value) = (Some(self.origin.clone()), format.write(&self.value));
        vec![ShownSetting { key: key.name.to_owned(), value, origin, words }]
    }

    fn differs(&self, before: &Self) -> bool {
        self.value != before.value
    }
}

impl<T: PartialEq> Field<T> for Option<Setting<T>> {
    fn lines(&self, key: &KeyDescription, format: &dyn Format<T>) -> Vec<ShownSetting> {
        match (self, &key.fallback) {
            (Some(setting), _) => setting.lines(key, format),
            (None, Fallback::Unset(words, Some(example))) => {
                let (key, value) = (key.name.to_owned(), (*example).to_owned());
                vec![ShownSetting { key, value, origin: None, words: Some(words) }]
            }
            (None, _) => Vec::new(),
        }
    }

    fn differs(&self, before: &Self) -> bool {
        self.as_ref().map(|own| &own.value) != before.as_ref().map(|own| &own.value)
    }
}

impl Field<Users> for Users {
    fn lines(&self, key: &KeyDescription, _: &dyn Format<Users>) -> Vec<ShownSetting> {
        let line = |(user, access): (&String, &Setting<_>)| ShownSetting {
            key: format!("{}.{}", key.name, bare(user)),
            value: quoted(Choice::name(access.value)),
            origin: Some(access.origin.clone()),
            words: None,
        };
        self.iter().map(line).collect()
    }

    fn differs(&self, before: &Self) -> bool {
        self != before
    }
}

/// Makes structs of tables of settings; see the module.
macro_rules! settings {
    (@field $type:ty, unset $($rest:tt)*) => { Option<Setting<$type>> };
    (@field $type:ty, entries $($rest:tt)*) => { $type };
    (@field $type:ty, $($rest:tt)*) => { Setting<$type> };

    (@read $above:ident $key:ident $found:expr, unset $($rest:tt)*) => { $found };
    (@read $above:ident $key:ident $found:expr, entries) => { $found.map(|own| own.value).unwrap_or_default() };
    (@read $above:ident $key:ident $found:expr, entries from account) => {{
        let mut all = $above.entries(|account| &account.$key);
        all.extend(settings!(@read $above $key $found, entries));
        all
    }};
    (@read $above:ident $key:ident $found:expr, $($rest:tt)*) => {
        match $found {
            Some(own) => own,
            None => settings!(@else $above $key, $($rest)*),
        }
    };

    (@else $above:ident $key:ident, required) => { Setting::default() };
    (@else $above:ident $key:ident, or $value:expr $(=> $words:literal)?) => { Setting::from($value) };
    (@else $above:ident $key:ident, from server) => { $above.server.$key.inherited("[server]") };
    (@else $above:ident $key:ident, from account or server) => {
        match $above.own(|account| account.$key.as_ref()) {
            Some(own) => own,
            None => settings!(@else $above $key, from server),
        }
    };
    (@else $above:ident $key:ident, from account or $value:expr) => {
        $above.own(|account| account.$key.as_ref()).unwrap_or_else(|| Setting::from($value))
    };

    (@fallback $type:ty, $format:expr, required) => { Fallback::Required };
    (@fallback $type:ty, $format:expr, or $value:expr => $words:literal) => { Fallback::Found($words) };
    (@fallback $type:ty, $format:expr, or $value:expr) => {
        Fallback::Value(Format::<$type>::write(&$format, &Setting::<$type>::from($value).value))
    };
    (@fallback $type:ty, $format:expr, from server) => { Fallback::Above };
    (@fallback $type:ty, $format:expr, from account or server) => { Fallback::Above };
    (@fallback $type:ty, $format:expr, from account or $value:expr) => {
        settings!(@fallback $type, $format, or $value)
    };
    (@fallback $type:ty, $format:expr, unset $words:literal) => { Fallback::Unset($words, None) };
    (@fallback $type:ty, $format:expr, unset $words:literal, $example:literal) => {
        Fallback::Unset($words, Some($example))
    };
    (@fallback $type:ty, $format:expr, entries $($rest:tt)*) => { Fallback::Unset("nobody", None) };

    (@above from server) => { &["server"] };
    (@above from account or server) => { &["account", "server"] };
    (@above from account $($rest:tt)*) => { &["account"] };
    (@above entries from account) => { &["account"] };
    (@above $($rest:tt)*) => { &[] };

    (@is_live live) => { true };
    (@is_live start) => { false };

    ($(
        $(#[doc = $about:literal])+
        pub struct $Table:ident ($above:ident: $Above:ty $(, $(#[doc = $extra_help:literal])+ $extra:ident: $Extra:ty)*) {
            $($(#[doc = $help:literal])+ $key:ident: $type:ty { $format:expr, $when:ident, $($rest:tt)+ })+
        }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $Table {
            $($(#[doc = $extra_help])+ pub $extra: $Extra,)*
            $($(#[doc = $help])+ pub $key: settings!(@field $type, $($rest)+),)+
        }

        impl $Table {
            /// What the table is.
            pub const ABOUT: &'static str = concat!($($about),+);
            /// The names of its keys.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($key)),+];

            /// Its keys in their order.
            pub fn keys() -> [KeyDescription; Self::NAMES.len()] {
                [$(KeyDescription {
                    name: stringify!($key),
                    help: concat!($($help),+).trim_ascii(),
                    shape: Format::<$type>::shape(&$format),
                    above: settings!(@above $($rest)+),
                    fallback: settings!(@fallback $type, $format, $($rest)+),
                    is_live: settings!(@is_live $when),
                }),+]
            }

            /// Reads it, and fills in what counts where nothing is set.
            ///
            /// # Errors
            /// With the line to change.
            pub fn read(
                table: &Section<'_>,
                $above: $Above,
                $($extra: $Extra,)*
            ) -> Result<$Table, ConfigError> {
                let _ = &$above;
                $(let $key: settings!(@field $type, $($rest)+) = settings!(
                    @read $above $key table.get::<$type>(stringify!($key), &$format)?, $($rest)+
                );)+
                Ok($Table { $($extra,)* $($key),+ })
            }

            /// Each value and where it came from.
            pub fn lines(&self) -> Vec<ShownSetting> {
                let [$($key),+] = Self::keys();
                [$(Field::<$type>::lines(&self.$key, &$key, &$format)),+].concat()
            }

            /// The keys with other values than `before` that a running server cannot change.
            pub fn needs_start(&self, before: &$Table) -> Vec<&'static str> {
                let fixed = [$((stringify!($key), !settings!(@is_live $when) && Field::<$type>::differs(&self.$key, &before.$key))),+];
                fixed.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
            }
        }
    )+};
}

pub(super) use settings;
