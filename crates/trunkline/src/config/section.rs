//! Typed reading of one table of the configuration file, with the line of every key.
//!
//! A [`Section`] refuses keys it does not know when it is made, so that a slip in a name can never be
//! passed over, and each reader refuses a value of another kind with the line to change.

use std::borrow::Cow;
use std::net::IpAddr;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::nearest::hint;
use super::{ConfigError, Origin, Setting};

/// The text of a configuration file and its name for messages.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// Name as the user gave it.
    pub name: &'a str,
    /// Content.
    pub text: &'a str,
}

impl Document<'_> {
    /// The line of byte `at`, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1
    }

    /// An error at byte `at`.
    pub fn error(&self, at: usize, message: impl std::fmt::Display) -> ConfigError {
        ConfigError(format!("{}:{}: {message}", self.name, self.line(at)))
    }
}

/// One table, whose keys have all been found to be known.
#[derive(Debug, Clone)]
pub struct Section<'a> {
    document: Document<'a>,
    /// As it is written: `[share.docs]`.
    title: String,
    at: usize,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    /// The whole of `table`, when it holds only keys of `known`.
    pub fn new(
        document: Document<'a>,
        title: String,
        at: usize,
        table: &'a DeTable<'a>,
        known: &[&str],
    ) -> Result<Self, ConfigError> {
        let section = Section { document, title, at, table };
        for key in table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let text = format!("unknown key `{name}` in {}{}", section.title, hint(name, known));
                return Err(document.error(key.span().start, text));
            }
        }
        Ok(section)
    }

    /// An error about the section as a whole.
    pub fn error(&self, message: impl std::fmt::Display) -> ConfigError {
        self.document.error(self.at, message)
    }

    /// The section's name as it is written.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Where the section begins.
    pub fn origin(&self) -> Origin {
        Origin::File { line: self.document.line(self.at) }
    }

    fn found(&self, key: &str) -> Option<(&'a Spanned<DeValue<'a>>, Origin)> {
        let value = self.table.get(key)?;
        Some((value, Origin::File { line: self.document.line(value.span().start) }))
    }

    fn wrong(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) -> ConfigError {
        let kind = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.document
            .error(value.span().start, format!("`{key}` in {} must be {wanted}, not {kind}", self.title))
    }

    fn bad(&self, key: &str, value: &Spanned<DeValue<'_>>, why: impl std::fmt::Display) -> ConfigError {
        self.document.error(value.span().start, format!("`{key}` in {}: {why}", self.title))
    }

    /// A value that stands as a string and that `parse` understands; its error says what is wrong.
    pub fn parsed<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Setting<T>>, ConfigError> {
        let Some((value, origin)) = self.found(key) else {
            return Ok(None);
        };
        let DeValue::String(text) = value.get_ref() else {
            return Err(self.wrong(key, value, "a string"));
        };
        let value = parse(text).map_err(|why| self.bad(key, value, why))?;
        Ok(Some(Setting { value, origin }))
    }

    /// A string, which must not be empty.
    pub fn string(&self, key: &str) -> Result<Option<Setting<String>>, ConfigError> {
        self.parsed(
            key,
            |text| {
                if text.is_empty() { Err("must not be empty".into()) } else { Ok(text.into()) }
            },
        )
    }

    /// A path; a relative one counts from `base`.
    pub fn path(&self, key: &str, base: &std::path::Path) -> Result<Option<Setting<PathBuf>>, ConfigError> {
        Ok(self.string(key)?.map(|found| found.map(|text| base.join(text))))
    }

    /// One of the names in `choices`.
    pub fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<Setting<T>>, ConfigError> {
        self.parsed(key, |text| choose(text, choices))
    }

    /// `true` or `false`.
    pub fn boolean(&self, key: &str) -> Result<Option<Setting<bool>>, ConfigError> {
        let Some((value, origin)) = self.found(key) else {
            return Ok(None);
        };
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(Some(Setting { value: *flag, origin })),
            _ => Err(self.wrong(key, value, "true or false")),
        }
    }

    /// A whole number from `min` to `max`.
    pub fn number(&self, key: &str, min: u64, max: u64) -> Result<Option<Setting<u64>>, ConfigError> {
        let Some((value, origin)) = self.found(key) else {
            return Ok(None);
        };
        let number = whole_number(value.get_ref()).ok_or_else(|| self.wrong(key, value, "a whole number"))?;
        match number {
            Some(number) if (min..=max).contains(&number) => Ok(Some(Setting { value: number, origin })),
            _ => Err(self.bad(key, value, format!("must be from {min} to {max}"))),
        }
    }

    /// A list of which each item is a string that `parse` understands; one item may stand without a list.
    pub fn list<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Setting<Vec<T>>>, ConfigError> {
        let Some((value, origin)) = self.found(key) else {
            return Ok(None);
        };
        let items: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            DeValue::String(_) => vec![value],
            _ => return Err(self.wrong(key, value, "a list of strings")),
        };
        let mut out = Vec::new();
        for item in items {
            let DeValue::String(text) = item.get_ref() else {
                return Err(self.wrong(key, item, "a list of strings"));
            };
            out.push(parse(text).map_err(|why| self.bad(key, item, why))?);
        }
        Ok(Some(Setting { value: out, origin }))
    }

    /// A list of whole numbers of 32 bits.
    pub fn numbers(&self, key: &str) -> Result<Option<Setting<Vec<u32>>>, ConfigError> {
        let Some((value, origin)) = self.found(key) else {
            return Ok(None);
        };
        let DeValue::Array(items) = value.get_ref() else {
            return Err(self.wrong(key, value, "a list of whole numbers"));
        };
        let mut out = Vec::new();
        for item in items {
            let number = whole_number(item.get_ref()).flatten().and_then(|number| u32::try_from(number).ok());
            out.push(
                number.ok_or_else(|| self.bad(key, item, "must hold whole numbers from 0 to 4294967295"))?,
            );
        }
        Ok(Some(Setting { value: out, origin }))
    }

    /// A table of names, each with one of `choices`.
    pub fn map<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<Vec<(String, Setting<T>)>, ConfigError> {
        let Some((value, _)) = self.found(key) else {
            return Ok(Vec::new());
        };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong(key, value, "a table such as { ann = \"write\" }"));
        };
        let mut out = Vec::new();
        for (name, value) in table {
            let DeValue::String(text) = value.get_ref() else {
                return Err(self.wrong(key, value, "a table of strings"));
            };
            let chosen = choose(text, choices).map_err(|why| self.bad(key, value, why))?;
            let origin = Origin::File { line: self.document.line(name.span().start) };
            let name: &Cow<'_, str> = name.get_ref();
            out.push((name.to_string(), Setting { value: chosen, origin }));
        }
        Ok(out)
    }

    /// A table inside this one.
    pub fn section(&self, key: &str, known: &[&str]) -> Result<Option<Section<'a>>, ConfigError> {
        let Some((value, _)) = self.found(key) else {
            return Ok(None);
        };
        let title = match self.title.strip_prefix('[') {
            Some(above) => format!("[{}.{key}]", above.trim_end_matches(']')),
            None => format!("[{key}]"),
        };
        match value.get_ref() {
            DeValue::Table(table) => {
                Section::new(self.document, title, value.span().start, table, known).map(Some)
            }
            _ => Err(self.wrong(key, value, "a table")),
        }
    }

    /// The sections of `[key.NAME]`, with their names and where each name stands.
    pub fn named(&self, key: &str, known: &[&str]) -> Result<Vec<(String, Section<'a>)>, ConfigError> {
        let Some((value, _)) = self.found(key) else {
            return Ok(Vec::new());
        };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong(key, value, &format!("a table for each name: [{key}.NAME]")));
        };
        let mut out = Vec::new();
        for (name, value) in table {
            let title = format!("[{key}.{}]", name.get_ref());
            let at = name.span().start;
            let DeValue::Table(table) = value.get_ref() else {
                let known = hint(name.get_ref(), known);
                let text = format!("`{}` must be a table: write {title} first{known}", name.get_ref());
                return Err(self.document.error(at, text));
            };
            let section = Section::new(self.document, title, at, table, known)?;
            out.push((name.get_ref().to_string(), section));
        }
        out.sort_by_key(|(_, section)| section.at);
        Ok(out)
    }

    /// The sections of `[[key]]`.
    pub fn each(&self, key: &str, known: &[&str]) -> Result<Vec<Section<'a>>, ConfigError> {
        let Some((value, _)) = self.found(key) else {
            return Ok(Vec::new());
        };
        let wrong = || self.wrong(key, value, &format!("written as [[{key}]]"));
        let DeValue::Array(items) = value.get_ref() else {
            return Err(wrong());
        };
        let mut out = Vec::new();
        for item in items {
            let DeValue::Table(table) = item.get_ref() else {
                return Err(wrong());
            };
            let title = format!("[[{key}]]");
            out.push(Section::new(self.document, title, item.span().start, table, known)?);
        }
        Ok(out)
    }
}

/// None when it is no whole number, `Some(None)` when it does not fit.
fn whole_number(value: &DeValue<'_>) -> Option<Option<u64>> {
    let DeValue::Integer(number) = value else {
        return None;
    };
    Some(u64::from_str_radix(number.as_str(), number.radix()).ok())
}

/// The value of `choices` that is named `text`.
pub fn choose<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        format!("`{text}` is not one of {}", names.join(", "))
    })
}

/// An address, not a name: listening must not depend on a resolver.
pub fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an IPv4 or IPv6 address"))
}
