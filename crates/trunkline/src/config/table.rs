//! The macro behind the table of settings: [`settings!`] turns each table into a struct with the code to read
//! it, to show it and to describe it.
//!
//! A line of [`super::tables`] is a doc comment, which is the key's help, and
//!
//! ```text
//! key: Type { Format, live, or DEFAULT }
//! ```
//!
//! A `live` key applies after a reload, a `start` key after the next start. The last part of the line says
//! which value applies if the key is not set:
//!
//! | | a field of | value without a setting |
//! |---|---|---|
//! | `required` | `Setting<Type>` | none: the key must be set |
//! | `or VALUE` | `Setting<Type>` | the value, which may depend on keys above it; `=> "words"` describes how
//! |
//! | `from server`, `from account or server`, `from account or VALUE` | `Setting<Type>` | the value of the
//! same key in the table above |
//! | `unset "words"`, or with an example | `Option<Setting<Type>>` | none; the words describe the effect |
//! | `entries`, `entries from account` | `Users` | each entry has its own origin |

use super::format::{Format, Shape, Users, bare, quoted};
use super::setting::{Origin, Setting};
use super::values::Choice;

/// The description of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDescription {
    /// The name.
    pub name: &'static str,
    /// The help: the key's purpose in one line.
    pub help: &'static str,
    /// The type of its values.
    pub shape: Shape,
    /// The tables from which a missing value is inherited, in this order.
    pub above: &'static [&'static str],
    /// The value that applies if the key is not set.
    pub fallback: Fallback,
    /// Whether a reload applies a change.
    pub is_live: bool,
}

/// The value that applies if a key is not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// None: the key must be set.
    Required,
    /// A constant, in TOML.
    Value(String),
    /// A computed value. The text describes how.
    Found(&'static str),
    /// The value of the table above.
    Above,
    /// None: the effect of that, and a value in TOML as an example.
    Unset(&'static str, Option<&'static str>),
}

/// A line of `config show`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownSetting {
    /// The key.
    pub key: String,
    /// The value, in TOML.
    pub value: String,
    /// The origin. None for an example of a key that is not set.
    pub origin: Option<Origin>,
    /// The description of the default, in words.
    pub words: Option<&'static str>,
}

/// A key's field of a table.
pub trait Field<T> {
    /// The lines that `config show` prints for the field.
    fn lines(&self, key: &KeyDescription, format: &dyn Format<T>) -> Vec<ShownSetting>;

    /// Whether the value differs from `before`, without regard to origins.
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

/// Turns tables of settings into structs, as the module describes.
macro_rules! settings {
    (@field $type:ty, unset $($rest:tt)*) => { Option<Setting<$type>> };
    (@field $type:ty, entries $($rest:tt)*) => { $type };
    (@field $type:ty, $($rest:tt)*) => { Setting<$type> };

    (@read $above:ident $key:ident $found:expr, unset $($rest:tt)*) => { $found };
    (@read $above:ident $key:ident $found:expr, entries) => {
        $found.map(|own| own.value).unwrap_or_default()
    };
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
        pub struct $Table:ident (
            $above:ident: $Above:ty $(, $(#[doc = $extra_help:literal])+ $extra:ident: $Extra:ty)*
        ) {
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
            /// The purpose of the table.
            pub const ABOUT: &'static str = concat!($($about),+);
            /// The names of the keys.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($key)),+];

            /// The keys in the order of the table.
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

            /// Reads the table, and fills in the values of keys that are not set.
            ///
            /// # Errors
            /// The mistake, with the line to change.
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

            /// Each value with its origin.
            pub fn lines(&self) -> Vec<ShownSetting> {
                let [$($key),+] = Self::keys();
                [$(Field::<$type>::lines(&self.$key, &$key, &$format)),+].concat()
            }

            /// The keys whose values differ from `before` and take effect only at the next start.
            pub fn needs_start(&self, before: &$Table) -> Vec<&'static str> {
                let fixed = [$((
                    stringify!($key),
                    !settings!(@is_live $when) && Field::<$type>::differs(&self.$key, &before.$key),
                )),+];
                fixed.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
            }
        }
    )+};
}

pub(super) use settings;
