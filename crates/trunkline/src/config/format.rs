//! The formats of values: how to read them from TOML, write them as TOML, and describe them.
//!
//! Each line of the table of settings (`tables.rs`) names the [`Format`] of its key.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

use toml::de::DeValue;

use super::document::{DocumentValue, ValueError};
use super::setting::Setting;
use super::values::{Access, Choice, NO_FOLDER, USER, choose, grantee_name};

/// The type of a value, for its readers and for its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// `true` or `false`
    Flag,
    /// A whole number in this range, which includes both ends.
    Number(u64, u64),
    /// A string.
    Text,
    /// A string that is a path.
    Path,
    /// One of these strings.
    OneOf(Vec<&'static str>),
    /// One of these strings, of which `true` and `false` are flags.
    FlagOr(Vec<&'static str>),
    /// A list.
    List(Box<Shape>),
    /// A table of users, each with one of these.
    Users(Vec<&'static str>),
}

/// The format of a key's values.
pub trait Format<T> {
    /// Reads a value.
    ///
    /// # Errors
    /// The mistake in the value.
    fn read(&self, found: DocumentValue<'_>) -> Result<T, ValueError>;

    /// A value as TOML.
    fn write(&self, value: &T) -> String;

    /// The type of the values.
    fn shape(&self) -> Shape;
}

/// `true` or `false`.
pub struct Flag;

impl Format<bool> for Flag {
    fn read(&self, found: DocumentValue<'_>) -> Result<bool, ValueError> {
        match found.value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(found.must_be("true or false")),
        }
    }

    fn write(&self, value: &bool) -> String {
        value.to_string()
    }

    fn shape(&self) -> Shape {
        Shape::Flag
    }
}

/// A whole number in this range, which includes both ends.
pub struct Number(pub u64, pub u64);

impl<T: TryFrom<u64> + Display> Format<T> for Number {
    fn read(&self, found: DocumentValue<'_>) -> Result<T, ValueError> {
        let Number(min, max) = self;
        let DeValue::Integer(number) = found.value.get_ref() else {
            return Err(found.must_be("a whole number"));
        };
        let number = u64::from_str_radix(number.as_str(), number.radix()).ok();
        let fits = number.filter(|number| (min..=max).contains(&number));
        let fits = fits.and_then(|number| T::try_from(number).ok());
        fits.ok_or_else(|| found.bad(format!("must be from {min} to {max}")))
    }

    fn write(&self, value: &T) -> String {
        value.to_string()
    }

    fn shape(&self) -> Shape {
        Shape::Number(self.0, self.1)
    }
}

/// A string that a function parses. The function's error is the message.
pub struct Text<T>(pub fn(&str) -> Result<T, String>);

impl<T: Display> Format<T> for Text<T> {
    fn read(&self, found: DocumentValue<'_>) -> Result<T, ValueError> {
        (self.0)(found.string()?).map_err(|why| found.bad(why))
    }

    fn write(&self, value: &T) -> String {
        quoted(&value.to_string())
    }

    fn shape(&self) -> Shape {
        Shape::Text
    }
}

/// A path. A relative path refers to the document's directory.
pub struct File;

impl Format<PathBuf> for File {
    fn read(&self, found: DocumentValue<'_>) -> Result<PathBuf, ValueError> {
        match found.string()? {
            "" => Err(found.bad("must not be empty")),
            USER => Err(found.bad(NO_FOLDER)),
            path => Ok(found.document.base.join(path)),
        }
    }

    fn write(&self, value: &PathBuf) -> String {
        quoted(&value.display().to_string())
    }

    fn shape(&self) -> Shape {
        Shape::Path
    }
}

/// The name of a choice.
pub struct OneOf;

impl<T: Choice> Format<T> for OneOf {
    fn read(&self, found: DocumentValue<'_>) -> Result<T, ValueError> {
        choose(found.string()?).map_err(|why| found.bad(why))
    }

    fn write(&self, value: &T) -> String {
        quoted(value.name())
    }

    fn shape(&self) -> Shape {
        Shape::OneOf(T::names())
    }
}

/// The name of a choice. The choices `true` and `false` are booleans.
pub struct FlagOr;

impl<T: Choice> Format<T> for FlagOr {
    fn read(&self, found: DocumentValue<'_>) -> Result<T, ValueError> {
        let text = match found.value.get_ref() {
            DeValue::Boolean(true) => "true",
            DeValue::Boolean(false) => "false",
            DeValue::String(text) => text,
            _ => {
                let words = T::names().into_iter().filter(|name| !["true", "false"].contains(name));
                let words: Vec<String> = words.map(quoted).collect();
                return Err(found.must_be(&format!("true, false or {}", words.join(", "))));
            }
        };
        choose(text).map_err(|why| found.bad(why))
    }

    fn write(&self, value: &T) -> String {
        match value.name() {
            flag @ ("true" | "false") => flag.to_owned(),
            name => quoted(name),
        }
    }

    fn shape(&self) -> Shape {
        Shape::FlagOr(T::names())
    }
}

/// A list. A list of one string may be written as the string.
pub struct ListFormat<F> {
    item: F,
    may_be_empty: bool,
}

impl<F> ListFormat<F> {
    /// A list that may be empty.
    pub const fn any(item: F) -> ListFormat<F> {
        ListFormat { item, may_be_empty: true }
    }

    /// A list with at least one item.
    pub const fn some(item: F) -> ListFormat<F> {
        ListFormat { item, may_be_empty: false }
    }
}

impl<T, F: Format<T>> Format<Vec<T>> for ListFormat<F> {
    fn read(&self, found: DocumentValue<'_>) -> Result<Vec<T>, ValueError> {
        let numbers = match self.item.shape() {
            Shape::Number(min, max) => Some((min, max)),
            _ => None,
        };
        let wanted = if numbers.is_some() { "a list of whole numbers" } else { "a list of strings" };
        let items: Vec<DocumentValue<'_>> = match found.value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| found.item(item)).collect(),
            DeValue::String(_) if numbers.is_none() => vec![found],
            _ => return Err(found.must_be(wanted)),
        };
        let read = |item: DocumentValue<'_>| match (numbers, item.value.get_ref()) {
            (Some((min, max)), _) => {
                let bad = |_| item.bad(format!("must hold whole numbers from {min} to {max}"));
                self.item.read(item).map_err(bad)
            }
            (None, DeValue::String(_)) => self.item.read(item),
            (None, _) => Err(item.must_be(wanted)),
        };
        let list = items.into_iter().map(read).collect::<Result<Vec<T>, ValueError>>()?;
        if list.is_empty() && !self.may_be_empty {
            return Err(ValueError {
                at: None,
                why: " must have at least one item, or be left out".to_owned(),
            });
        }
        Ok(list)
    }

    fn write(&self, value: &Vec<T>) -> String {
        let items: Vec<String> = value.iter().map(|item| self.item.write(item)).collect();
        format!("[{}]", items.join(", "))
    }

    fn shape(&self) -> Shape {
        Shape::List(Box::new(self.item.shape()))
    }
}

/// The access of each user and group, by name in lower case. `*` stands for all users who can log on.
pub type Users = BTreeMap<String, Setting<Access>>;

/// A table of users with their access.
pub struct AccessList;

impl Format<Users> for AccessList {
    fn read(&self, found: DocumentValue<'_>) -> Result<Users, ValueError> {
        let DeValue::Table(table) = found.value.get_ref() else {
            return Err(found.must_be("a table such as { ann = \"write\" }"));
        };
        let mut chosen = Vec::new();
        for (name, value) in table {
            let item = found.item(value);
            let DeValue::String(text) = value.get_ref() else {
                return Err(item.must_be("a table of strings"));
            };
            let value = choose(text).map_err(|why| item.bad(why))?;
            chosen.push((name, Setting { value, origin: found.document.origin(name.span().start) }));
        }
        let wrong = |why: String| ValueError { at: None, why: format!(": {why}") };
        let mut users = Users::new();
        for (name, access) in chosen {
            let name: &str = name.get_ref();
            if name != "*" {
                grantee_name(name).map_err(wrong)?;
            }
            if users.insert(name.to_lowercase(), access).is_some() {
                return Err(wrong(format!("`{name}` occurs twice")));
            }
        }
        Ok(users)
    }

    fn write(&self, value: &Users) -> String {
        let one = |(user, access): (&String, &Setting<Access>)| {
            format!("{} = {}", bare(user), quoted(access.value.name()))
        };
        format!("{{ {} }}", value.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    fn shape(&self) -> Shape {
        Shape::Users(Access::names())
    }
}

/// A TOML string.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A TOML key, with quotes if necessary.
pub fn bare(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if bare { name.to_owned() } else { quoted(name) }
}
