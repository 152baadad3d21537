//! The text of a configuration, a value in it, and the errors about that value.

use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

use super::setting::{ConfigError, Origin};

/// The source of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind<'a> {
    /// The configuration file.
    File,
    /// The environment: the variable of each line.
    Environment(&'a [String]),
    /// The file of changes by command, which overrides the others.
    Changes,
}

/// The text of a configuration file and its name for messages.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// Name of the file, as the user wrote it.
    pub name: &'a str,
    /// Content.
    pub text: &'a str,
    /// The directory to which relative paths refer.
    pub base: &'a Path,
    /// Its source, which decides what overrides what.
    pub kind: DocumentKind<'a>,
}

impl Document<'_> {
    /// Whether this is the file of changes by command.
    pub fn is_change(&self) -> bool {
        self.kind == DocumentKind::Changes
    }

    /// The line of byte `at`, from 1.
    pub fn line(&self, at: usize) -> usize {
        memchr::memchr_iter(b'\n', &self.text.as_bytes()[..at.min(self.text.len())]).count() + 1
    }

    /// An error at byte `at`.
    pub fn error(&self, at: usize, message: impl std::fmt::Display) -> ConfigError {
        match self.variable(at) {
            Some(variable) => ConfigError(format!("${variable}: {message}")),
            None => ConfigError(format!("{}:{}: {message}", self.name, self.line(at))),
        }
    }

    /// The line of byte `at`, or its variable, as the origin of a value.
    pub fn origin(&self, at: usize) -> Origin {
        let line = self.line(at);
        match (self.kind, self.variable(at)) {
            (_, Some(variable)) => Origin::Environment(variable.to_owned()),
            (DocumentKind::Changes, None) => Origin::Change { line },
            (_, None) => Origin::File { line },
        }
    }

    /// The variable from which the line of byte `at` comes.
    fn variable(&self, at: usize) -> Option<&str> {
        let DocumentKind::Environment(variables) = self.kind else { return None };
        variables.get(self.line(at) - 1).map(String::as_str)
    }
}

/// A value and the document that contains it.
#[derive(Debug, Clone, Copy)]
pub struct DocumentValue<'a> {
    /// The document.
    pub document: Document<'a>,
    /// The value.
    pub value: &'a Spanned<DeValue<'a>>,
}

/// An error about a value. Its text is the end of a sentence that begins with the key and the table.
#[derive(Debug)]
pub struct ValueError {
    /// The byte offset. None for an error about the table as a whole.
    pub at: Option<usize>,
    /// ` must be …` or `: …`
    pub why: String,
}

impl<'a> DocumentValue<'a> {
    /// Another value of the same document.
    pub fn item(&self, value: &'a Spanned<DeValue<'a>>) -> DocumentValue<'a> {
        DocumentValue { value, ..*self }
    }

    /// The position of the value.
    pub fn origin(&self) -> Origin {
        self.document.origin(self.value.span().start)
    }

    /// The error for a value of another type than `wanted`.
    pub fn must_be(&self, wanted: &str) -> ValueError {
        let kind = match self.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        ValueError { at: Some(self.value.span().start), why: format!(" must be {wanted}, not {kind}") }
    }

    /// The error for a value of the right type that is invalid.
    pub fn bad(&self, why: impl std::fmt::Display) -> ValueError {
        ValueError { at: Some(self.value.span().start), why: format!(": {why}") }
    }

    /// The text of a string.
    pub fn string(&self) -> Result<&'a str, ValueError> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.must_be("a string")),
        }
    }
}
