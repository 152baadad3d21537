//! Typed reading of one table of the configuration, with the line of every key.
//!
//! A [`Section`] refuses unknown keys when it is created, so that a misspelt name is never ignored.
//! [`Section::get`] refuses a value that does not have its format, with the line to change.

use toml::de::{DeTable, DeValue};

use super::document::{Document, DocumentKind, DocumentValue, ValueError};
use super::format::Format;
use super::nearest::hint_for_key;
use super::setting::{ConfigError, Origin, Setting};

/// Key in the file of changes: the table is removed.
pub const REMOVED: &str = "removed";
/// Key in the file of changes: the table replaces that of the configuration file completely.
pub const WHOLE: &str = "whole";

/// One table in one document.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// The document.
    pub document: Document<'a>,
    /// The byte offset of the table.
    pub at: usize,
    /// The keys of the table.
    pub table: &'a DeTable<'a>,
}

/// One table, all of whose keys are known.
#[derive(Debug, Clone)]
pub struct Section<'a> {
    /// The title in the file: `[share.docs]`.
    title: String,
    /// The tables of the documents. The first one overrides the others. Empty if no document has the table.
    layers: Vec<Layer<'a>>,
}

impl<'a> Section<'a> {
    /// Combines all `layers`, of which the first overrides the others. Refuses keys that are not in `known`.
    pub fn new(title: String, layers: Vec<Layer<'a>>, known: &[&str]) -> Result<Self, ConfigError> {
        for layer in &layers {
            let of_changes: &[&str] = if layer.document.is_change() { &[REMOVED, WHOLE] } else { &[] };
            for key in layer.table.keys() {
                let name: &str = key.get_ref();
                if !known.contains(&name) && !of_changes.contains(&name) {
                    let text = format!("unknown key `{name}` in {title}{}", hint_for_key(name, known));
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

    /// The section's title in the file.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// This table with another one below it, which it overrides key by key.
    pub fn over(mut self, below: Section<'a>) -> Section<'a> {
        self.layers.extend(below.layers);
        Section { title: below.title, ..self }
    }

    /// The position of the section: in the configuration file if it is there.
    pub fn origin(&self) -> Origin {
        self.layers.last().map_or(Origin::Default, |last| last.document.origin(last.at))
    }

    fn found(&self, key: &str) -> Option<DocumentValue<'a>> {
        let found = |layer: &Layer<'a>| {
            Some(DocumentValue { document: layer.document, value: layer.table.get(key)? })
        };
        self.layers.iter().find_map(found)
    }

    fn wrong(&self, key: &str, found: DocumentValue<'_>, wrong: ValueError) -> ConfigError {
        let text = format!("`{key}` in {}{}", self.title, wrong.why);
        match wrong.at {
            Some(at) => found.document.error(at, text),
            None => self.error(text),
        }
    }

    /// The value of a key, if it is set.
    pub fn get<T>(&self, key: &str, format: &dyn Format<T>) -> Result<Option<Setting<T>>, ConfigError> {
        let Some(found) = self.found(key) else {
            return Ok(None);
        };
        let value = format.read(found).map_err(|wrong| self.wrong(key, found, wrong))?;
        Ok(Some(Setting { value, origin: found.origin() }))
    }

    /// A table inside this one. A missing table is empty.
    pub fn section(&self, key: &str, known: &[&str]) -> Result<Section<'a>, ConfigError> {
        let title = match self.title.strip_prefix('[') {
            Some(above) => format!("[{}.{key}]", above.trim_end_matches(']')),
            None => format!("[{key}]"),
        };
        let mut layers = Vec::new();
        for Layer { document, table, .. } in &self.layers {
            let Some(value) = table.get(key) else { continue };
            let found = DocumentValue { document: *document, value };
            let DeValue::Table(table) = value.get_ref() else {
                return Err(self.wrong(key, found, found.must_be("a table")));
            };
            layers.push(Layer { document: *document, at: value.span().start, table });
        }
        Section::new(title, layers, known)
    }

    /// The sections of `[key.NAME]`, with their names.
    ///
    /// A table in the environment overrides single keys of the same table in the configuration file. A table
    /// in the file of changes overrides single keys of the same table in the configuration file,
    /// replaces that table (`whole`), or removes it (`removed`). A change of a table that no longer exists is
    /// ignored.
    pub fn named(&self, key: &str, known: &[&str]) -> Result<Vec<(String, Section<'a>)>, ConfigError> {
        let mut found: Vec<(String, Vec<Layer<'a>>)> = Vec::new();
        for layer in self.layers.iter().rev() {
            for (name, inner) in self.tables(layer, key, known)? {
                let says = |what: &str| {
                    inner.table.get(what).is_some_and(|flag| matches!(flag.get_ref(), DeValue::Boolean(true)))
                };
                let below = found.iter().position(|(other, _)| other.to_lowercase() == name.to_lowercase());
                match below {
                    // A second table of that name in one file is a mistake, which the caller reports.
                    _ if layer.document.kind == DocumentKind::File => found.push((name, vec![inner])),
                    Some(at) if says(REMOVED) => {
                        found.remove(at);
                    }
                    Some(at) if says(WHOLE) => found[at] = (name, vec![inner]),
                    Some(at) => found[at].1.insert(0, inner),
                    None if says(WHOLE) || !layer.document.is_change() => found.push((name, vec![inner])),
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

    /// The tables `[key.NAME]` of one document, in its order.
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
            let found = DocumentValue { document, value };
            let wanted = format!("a table for each name: [{key}.NAME]");
            return Err(self.wrong(key, found, found.must_be(&wanted)));
        };
        let mut out = Vec::new();
        for (name, value) in table {
            let at = name.span().start;
            let DeValue::Table(table) = value.get_ref() else {
                let known = hint_for_key(name.get_ref(), known);
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
        let wrong = || self.wrong(key, found, found.must_be(&format!("written as [[{key}]]")));
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
