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
use crate::config::setting::{ConfigError, Origin, Setting};

/// In what was changed by command: the table is taken out.
pub const REMOVED: &str = "removed";
/// In what was changed by command: nothing else counts that is said of the table.
pub const WHOLE: &str = "whole";

/// The text of a configuration file and its name for messages.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// Name as the user gave it.
    pub name: &'a str,
    /// Content.
    pub text: &'a str,
    /// Whether it holds what was changed by command, which goes before the configuration file.
    pub is_change: bool,
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

    fn origin(&self, at: usize) -> Origin {
        let line = self.line(at);
        if self.is_change { Origin::Change { line } } else { Origin::File { line } }
    }
}

/// What a document says of one table.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// The document.
    pub document: Document<'a>,
    /// Where the table begins.
    pub at: usize,
    /// Its keys.
    pub table: &'a DeTable<'a>,
}

/// A value and the document that it stands in.
#[derive(Clone, Copy)]
struct Found<'a> {
    document: Document<'a>,
    value: &'a Spanned<DeValue<'a>>,
}

impl Found<'_> {
    fn origin(&self) -> Origin {
        self.document.origin(self.value.span().start)
    }
}

/// One table, whose keys have all been found to be known.
#[derive(Debug, Clone)]
pub struct Section<'a> {
    /// As it is written: `[share.docs]`.
    title: String,
    /// What goes before the others comes first; there is at least one.
    layers: Vec<Layer<'a>>,
}

impl<'a> Section<'a> {
    /// The whole of what all `layers` say, the first before the others, when it holds only keys of `known`.
    pub fn new(title: String, layers: Vec<Layer<'a>>, known: &[&str]) -> Result<Self, ConfigError> {
        for layer in &layers {
            let of_changes: &[&str] = if layer.document.is_change { &[REMOVED, WHOLE] } else { &[] };
            for key in layer.table.keys() {
                let name: &str = key.get_ref();
                if !known.contains(&name) && !of_changes.contains(&name) {
                    let text = format!("unknown key `{name}` in {title}{}", hint(name, known));
                    return Err(layer.document.error(key.span().start, text));
                }
            }
        }
        Ok(Section { title, layers })
    }

    /// An error about the section as a whole.
    pub fn error(&self, message: impl std::fmt::Display) -> ConfigError {
        match self.layers.first() {
            Some(first) => first.document.error(first.at, message),
            None => ConfigError(message.to_string()),
        }
    }

    /// The section's name as it is written.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Where the section begins: in the configuration file, where that has it.
    pub fn origin(&self) -> Origin {
        self.layers.last().map_or(Origin::Default, |last| last.document.origin(last.at))
    }

    fn found(&self, key: &str) -> Option<Found<'a>> {
        let found =
            |layer: &Layer<'a>| Some(Found { document: layer.document, value: layer.table.get(key)? });
        self.layers.iter().find_map(found)
    }

    fn wrong(&self, key: &str, found: Found<'_>, wanted: &str) -> ConfigError {
        let kind = match found.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let text = format!("`{key}` in {} must be {wanted}, not {kind}", self.title);
        found.document.error(found.value.span().start, text)
    }

    fn bad(&self, key: &str, found: Found<'_>, why: impl std::fmt::Display) -> ConfigError {
        found.document.error(found.value.span().start, format!("`{key}` in {}: {why}", self.title))
    }

    /// A value that stands as a string and that `parse` understands; its error says what is wrong.
    pub fn parsed<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Setting<T>>, ConfigError> {
        let Some(found) = self.found(key) else {
            return Ok(None);
        };
        let DeValue::String(text) = found.value.get_ref() else {
            return Err(self.wrong(key, found, "a string"));
        };
        let value = parse(text).map_err(|why| self.bad(key, found, why))?;
        Ok(Some(Setting { value, origin: found.origin() }))
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
        let Some(found) = self.found(key) else {
            return Ok(None);
        };
        match found.value.get_ref() {
            DeValue::Boolean(flag) => Ok(Some(Setting { value: *flag, origin: found.origin() })),
            _ => Err(self.wrong(key, found, "true or false")),
        }
    }

    /// The same, or a string that stands for one of these.
    pub fn boolean_or<T: Copy>(
        &self,
        key: &str,
        yes: T,
        no: T,
        choices: &[(&str, T)],
    ) -> Result<Option<Setting<T>>, ConfigError> {
        let Some(found) = self.found(key) else {
            return Ok(None);
        };
        let value = match found.value.get_ref() {
            DeValue::Boolean(flag) => {
                if *flag {
                    yes
                } else {
                    no
                }
            }
            DeValue::String(text) => choose(text, choices).map_err(|why| self.bad(key, found, why))?,
            _ => {
                let words = choices.iter().filter(|(name, _)| !["true", "false"].contains(name));
                let words: Vec<String> = words.map(|(name, _)| format!("\"{name}\"")).collect();
                return Err(self.wrong(key, found, &format!("true, false or {}", words.join(", "))));
            }
        };
        Ok(Some(Setting { value, origin: found.origin() }))
    }

    /// A whole number from `min` to `max`.
    pub fn number(&self, key: &str, min: u64, max: u64) -> Result<Option<Setting<u64>>, ConfigError> {
        let Some(found) = self.found(key) else {
            return Ok(None);
        };
        let number =
            whole_number(found.value.get_ref()).ok_or_else(|| self.wrong(key, found, "a whole number"))?;
        match number {
            Some(value) if (min..=max).contains(&value) => {
                Ok(Some(Setting { value, origin: found.origin() }))
            }
            _ => Err(self.bad(key, found, format!("must be from {min} to {max}"))),
        }
    }

    /// A list of which each item is a string that `parse` understands; one item may stand without a list.
    pub fn list<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Setting<Vec<T>>>, ConfigError> {
        let Some(found) = self.found(key) else {
            return Ok(None);
        };
        let items: Vec<&Spanned<DeValue<'_>>> = match found.value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            DeValue::String(_) => vec![found.value],
            _ => return Err(self.wrong(key, found, "a list of strings")),
        };
        let mut out = Vec::new();
        for value in items {
            let item = Found { value, ..found };
            let DeValue::String(text) = value.get_ref() else {
                return Err(self.wrong(key, item, "a list of strings"));
            };
            out.push(parse(text).map_err(|why| self.bad(key, item, why))?);
        }
        Ok(Some(Setting { value: out, origin: found.origin() }))
    }

    /// A list of which each item is one of the names in `choices`.
    pub fn choices<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<Setting<Vec<T>>>, ConfigError> {
        self.list(key, |text| choose(text, choices))
    }

    /// A list of whole numbers of 32 bits.
    pub fn numbers(&self, key: &str) -> Result<Option<Setting<Vec<u32>>>, ConfigError> {
        let Some(found) = self.found(key) else {
            return Ok(None);
        };
        let DeValue::Array(items) = found.value.get_ref() else {
            return Err(self.wrong(key, found, "a list of whole numbers"));
        };
        let mut out = Vec::new();
        for value in items {
            let number =
                whole_number(value.get_ref()).flatten().and_then(|number| u32::try_from(number).ok());
            let bad =
                || self.bad(key, Found { value, ..found }, "must hold whole numbers from 0 to 4294967295");
            out.push(number.ok_or_else(bad)?);
        }
        Ok(Some(Setting { value: out, origin: found.origin() }))
    }

    /// A table of names, each with one of `choices`.
    pub fn map<T: Copy>(
        &self,
        key: &str,
        choices: &[(&str, T)],
    ) -> Result<Vec<(String, Setting<T>)>, ConfigError> {
        let Some(found) = self.found(key) else {
            return Ok(Vec::new());
        };
        let DeValue::Table(table) = found.value.get_ref() else {
            return Err(self.wrong(key, found, "a table such as { ann = \"write\" }"));
        };
        let mut out = Vec::new();
        for (name, value) in table {
            let item = Found { value, ..found };
            let DeValue::String(text) = value.get_ref() else {
                return Err(self.wrong(key, item, "a table of strings"));
            };
            let chosen = choose(text, choices).map_err(|why| self.bad(key, item, why))?;
            let origin = found.document.origin(name.span().start);
            let name: &Cow<'_, str> = name.get_ref();
            out.push((name.to_string(), Setting { value: chosen, origin }));
        }
        Ok(out)
    }

    /// A table inside this one.
    pub fn section(&self, key: &str, known: &[&str]) -> Result<Option<Section<'a>>, ConfigError> {
        let Some(found) = self.found(key) else {
            return Ok(None);
        };
        let title = match self.title.strip_prefix('[') {
            Some(above) => format!("[{}.{key}]", above.trim_end_matches(']')),
            None => format!("[{key}]"),
        };
        let DeValue::Table(table) = found.value.get_ref() else {
            return Err(self.wrong(key, found, "a table"));
        };
        let layer = Layer { document: found.document, at: found.value.span().start, table };
        Section::new(title, vec![layer], known).map(Some)
    }

    /// The sections of `[key.NAME]`, with their names and where each name stands.
    ///
    /// What was changed by command is laid over what the configuration file says of the same name, takes its place
    /// (`whole`), or takes it out (`removed`). What changes something that is not there any more says nothing.
    pub fn named(&self, key: &str, known: &[&str]) -> Result<Vec<(String, Section<'a>)>, ConfigError> {
        let mut found: Vec<(String, Vec<Layer<'a>>)> = Vec::new();
        for layer in self.layers.iter().rev() {
            for (name, inner) in self.tables(layer, key, known)? {
                if !layer.document.is_change {
                    found.push((name, vec![inner]));
                    continue;
                }
                let says = |what: &str| {
                    inner.table.get(what).is_some_and(|flag| matches!(flag.get_ref(), DeValue::Boolean(true)))
                };
                let below = found.iter().position(|(other, _)| other.to_lowercase() == name.to_lowercase());
                match below {
                    Some(at) if says(REMOVED) => {
                        found.remove(at);
                    }
                    Some(at) if says(WHOLE) => found[at] = (name, vec![inner]),
                    Some(at) => found[at].1.insert(0, inner),
                    None if says(WHOLE) => found.push((name, vec![inner])),
                    None => {}
                }
            }
        }
        let section = |(name, layers): (String, Vec<Layer<'a>>)| {
            let section = Section::new(format!("[{key}.{name}]"), layers, known)?;
            Ok((name, section))
        };
        found.into_iter().map(section).collect()
    }

    /// What one document says below `[key.NAME]`, in its order.
    fn tables(
        &self,
        layer: &Layer<'a>,
        key: &str,
        known: &[&str],
    ) -> Result<Vec<(String, Layer<'a>)>, ConfigError> {
        let document = layer.document;
        let Some(value) = layer.table.get(key) else {
            return Ok(Vec::new());
        };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong(
                key,
                Found { document, value },
                &format!("a table for each name: [{key}.NAME]"),
            ));
        };
        let mut out = Vec::new();
        for (name, value) in table {
            let at = name.span().start;
            let DeValue::Table(table) = value.get_ref() else {
                let known = hint(name.get_ref(), known);
                let title = format!("[{key}.{}]", name.get_ref());
                let text = format!("`{}` must be a table: write {title} first{known}", name.get_ref());
                return Err(document.error(at, text));
            };
            out.push((name.get_ref().to_string(), Layer { document, at, table }));
        }
        out.sort_by_key(|(_, layer)| layer.at);
        Ok(out)
    }

    /// The sections of `[[key]]`.
    pub fn each(&self, key: &str, known: &[&str]) -> Result<Vec<Section<'a>>, ConfigError> {
        let Some(found) = self.found(key) else {
            return Ok(Vec::new());
        };
        let wrong = || self.wrong(key, found, &format!("written as [[{key}]]"));
        let DeValue::Array(items) = found.value.get_ref() else {
            return Err(wrong());
        };
        let mut out = Vec::new();
        for item in items {
            let DeValue::Table(table) = item.get_ref() else {
                return Err(wrong());
            };
            let layer = Layer { document: found.document, at: item.span().start, table };
            out.push(Section::new(format!("[[{key}]]"), vec![layer], known)?);
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
