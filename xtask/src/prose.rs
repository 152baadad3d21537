//! The language of docs: sentences that begin with their subject, no empty docs, no lines that are too wide.
//!
//! CONTRIBUTING.md gives the reasons and examples. Start with [`check`]. [`print()`] shows the counts.

use std::path::Path;

use crate::source::{Source, rust_files};

/// The maximum number of columns of a line of Rust.
const COLUMNS: usize = 110;
/// The words that open a clause at the beginning of a sentence.
const OPENERS: &[&str] = &[
    "Who", "Whoever", "Whom", "Whose", "What", "Whatever", "Where", "Wherever", "Of what", "To whom",
    "Of whom",
];
/// A doc with at most this many words, one of them a pronoun, only repeats the name below it.
const EMPTY_WORDS: usize = 3;
/// The words that only refer to something else.
const POINTERS: &[&str] = &["it", "that", "this", "them", "these", "those", "one", "so"];

/// The findings in some files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Prose {
    /// The number of doc lines with a word.
    lines: usize,
    /// Findings, each as `path:line: finding`.
    openings: Vec<String>,
    empty: Vec<String>,
    wide: Vec<String>,
}

/// All findings about the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let counted = count(root)?;
    let mut found = counted.openings;
    found.extend(counted.empty);
    found.extend(counted.wide);
    Ok(found)
}

/// Prints the counts.
pub fn print(root: &Path) -> Result<(), String> {
    let counted = count(root)?;
    let (opening, lines) = (counted.openings.len(), counted.lines);
    println!("doc lines: {lines}");
    #[expect(clippy::cast_precision_loss, reason = "counts of lines are far below 2^52")]
    let share = opening as f64 * 100.0 / lines.max(1) as f64;
    println!("with a sentence that opens with who, what or where: {opening} ({share:.1} %)");
    println!("docs that say nothing: {}", counted.empty.len());
    println!("lines of Rust over {COLUMNS} columns: {}", counted.wide.len());
    Ok(())
}

fn count(root: &Path) -> Result<Prose, String> {
    let mut counted = Prose::default();
    for top in ["crates", "proving", "xtask", "fuzz"] {
        for file in rust_files(&root.join(top))? {
            counted.add(&Source::read(root, &file)?);
        }
    }
    Ok(counted)
}

impl Prose {
    fn add(&mut self, source: &Source) {
        let path = &source.path;
        let mut doc = String::new();
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let at = format!("{path}:{}", number + 1);
            if line.chars().count() > COLUMNS {
                self.wide.push(format!("{at}: {} columns, at most {COLUMNS}", line.chars().count()));
            }
            let Some(text) = doc_text(line) else { continue };
            if text.chars().any(char::is_alphabetic) {
                self.lines += 1;
            }
            if let Some(word) = opener(text, doc.is_empty() || doc.ends_with(['.', ':', '?', '!', '\n'])) {
                self.openings.push(format!("{at}: a sentence opens with `{word}`; begin with its subject"));
            }
            doc.push_str(text);
            doc.push(if text.is_empty() { '\n' } else { ' ' });
            let is_last = lines.get(number + 1).and_then(|next| doc_text(next)).is_none();
            if is_last {
                if is_empty(doc.trim()) {
                    self.empty.push(format!("{at}: `{}` says no more than the name", doc.trim()));
                }
                doc.clear();
            } else if !text.is_empty() {
                doc.pop();
            }
        }
    }
}

/// The text of a line of a doc comment.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    (!text.starts_with('/')).then(|| text.trim())
}

/// The word that opens a clause at the beginning of a sentence in `text`. `begins` says that a sentence
/// starts with the line.
fn opener(text: &str, begins: bool) -> Option<&'static str> {
    let text = text.trim_start_matches(['-', '*', ' ']);
    let is_opened = |rest: &str, word: &str| {
        rest.strip_prefix(word)
            .is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    let mut starts = if begins { vec![text] } else { Vec::new() };
    for (at, _) in text.match_indices([' ']) {
        if text[..at].ends_with(['.', ':', '?', '!', ';']) {
            starts.push(&text[at + 1..]);
        }
    }
    OPENERS.iter().find(|word| starts.iter().any(|rest| is_opened(rest, word))).copied()
}

fn is_empty(doc: &str) -> bool {
    let words: Vec<&str> = doc.split(' ').map(|word| word.trim_end_matches(['.', ','])).collect();
    !doc.contains('`')
        && words.len() <= EMPTY_WORDS
        && words.iter().skip(1).any(|word| POINTERS.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Prose {
        let mut counted = Prose::default();
        counted.add(&Source::new("crates/x/src/y.rs".to_owned(), text.to_owned()));
        counted
    }

    #[test]
    fn a_sentence_that_opens_a_clause_is_found_wherever_it_begins() {
        for text in [
            "/// What a client holds.\n",
            "/// The client. Where it is, is its own affair.\n",
            "/// The client.\n/// Whoever it is.\n",
            "//! - What it holds.\n",
        ] {
            assert_eq!(counted(text).openings.len(), 1, "{text:?}");
        }
        for text in [
            "/// Tells\n/// What it is.\n",
            "// What a comment says.\n",
            "/// Whatnot.\n",
            "/// The rights that a client holds, and where.\n",
        ] {
            assert!(counted(text).openings.is_empty(), "{text:?}");
        }
    }

    #[test]
    fn a_doc_that_only_points_is_found() {
        for text in ["/// Does it.\nfn f() {}\n", "/// Makes one.\n"] {
            assert_eq!(counted(text).empty.len(), 1, "{text:?}");
        }
        for text in ["/// Sends `it`.\n", "/// Ends the session.\n", "/// Does it.\n///\n/// Errors: none.\n"]
        {
            assert!(counted(text).empty.is_empty(), "{text:?}");
        }
    }

    #[test]
    fn a_wide_line_is_found() {
        assert_eq!(counted(&format!("// {}\n", "x".repeat(108))).wide.len(), 1);
        assert!(counted(&format!("// {}\n", "x".repeat(107))).wide.is_empty());
    }
}
