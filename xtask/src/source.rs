//! Reads Rust sources for the checks: finds the files, and distinguishes code from comments and literals.
//!
//! [`Source::read`] makes two views of a file, both with every byte at its original position. `code` has no
//! comments, but literals, since the program also knows the words in its literals. `bare` has neither
//! comments nor the content of literals, so that braces can be counted in it. [`functions`] uses `bare` to
//! measure functions, and [`lines_without_tests`] uses it to measure files.

use std::path::{Path, PathBuf};

/// One source file and its views.
pub struct Source {
    /// The path from the root of the workspace, with `/`.
    pub path: String,
    /// The original text.
    pub text: String,
    /// The text with comments blanked.
    pub code: String,
    /// The text with comments and the insides of literals blanked.
    pub bare: String,
}

impl Source {
    /// Reads `file` under `root`.
    pub fn read(root: &Path, file: &Path) -> Result<Source, String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let path = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        Ok(Source::new(path, text))
    }

    /// The views of `text`, as the content of `path`.
    pub fn new(path: String, text: String) -> Source {
        let (code, bare) = mask(&text);
        Source { path, text, code, bare }
    }
}

/// All `.rs` files below `dir`, sorted; build output and hidden directories are left out.
pub fn rust_files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(format!("{}: {e}", dir.display())),
        };
        for entry in entries {
            let entry = entry.map_err(|e| format!("{}: {e}", dir.display()))?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let path = entry.path();
            let kind = entry.file_type().map_err(|e| format!("{}: {e}", path.display()))?;
            if kind.is_dir() && !name.starts_with('.') && name != "target" {
                todo.push(path);
            } else if kind.is_file() && name.ends_with(".rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A function and its position.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// The name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// The number of lines from its `fn` to its closing brace.
    pub lines: usize,
}

/// Every function with a body in `bare` text, in order.
pub fn functions(bare: &str) -> Vec<Function> {
    let bytes = bare.as_bytes();
    let mut found = Vec::new();
    for (at, word) in words(bare) {
        if word != "fn" {
            continue;
        }
        let name_at = skip_space(bytes, at + 2);
        let name: String = bare[name_at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if name.is_empty() {
            continue;
        }
        let Some(end) = body_end(bytes, name_at + name.len()) else {
            continue;
        };
        let line = line_of(bare, at);
        found.push(Function { name, line, lines: line_of(bare, end) - line + 1 });
    }
    found
}

/// The attribute of a test module.
const FOR_TESTS: &str = "#[cfg(test)]";

/// The number of lines of `bare` text outside of test modules.
pub fn lines_without_tests(bare: &str) -> usize {
    let mut lines = bare.lines().count();
    let mut from = 0;
    while let Some(at) = bare[from..].find(FOR_TESTS).map(|at| from + at) {
        from = at + FOR_TESTS.len();
        let head = bare[from..].split(['{', ';']).next().unwrap_or_default();
        let is_module = words(head).any(|(_, word)| word == "mod");
        if let Some(end) = body_end(bare.as_bytes(), from).filter(|_| is_module) {
            lines -= line_of(bare, end) - line_of(bare, at) + 1;
            from = end;
        }
    }
    lines
}

/// The end of the body that begins after `from`. `None` if the function has none.
fn body_end(bytes: &[u8], from: usize) -> Option<usize> {
    let (mut nested, mut braces) = (0usize, 0usize);
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => nested += 1,
            b')' | b']' => nested = nested.saturating_sub(1),
            b';' if nested == 0 && braces == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// The line of byte `at`, from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

/// All sequences of letters, digits and `_`, with their positions.
pub fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text;
    let mut base = 0;
    std::iter::from_fn(move || {
        let start = rest.find(is_word)?;
        let tail = &rest[start..];
        let len = tail.find(|c| !is_word(c)).unwrap_or(tail.len());
        let at = base + start;
        rest = &tail[len..];
        base = at + len;
        Some((at, &tail[..len]))
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The kind of a part of the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SourceSpan {
    Code,
    Comment,
    Literal,
}

/// The view without comments, and the view without comments and literals.
fn mask(text: &str) -> (String, String) {
    let mut code = String::with_capacity(text.len());
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_word = false;
    while !rest.is_empty() {
        let (kind, len) = stretch(rest, after_word);
        let piece = &rest[..len];
        match kind {
            SourceSpan::Code => {
                code.push_str(piece);
                bare.push_str(piece);
            }
            SourceSpan::Comment => {
                blank(piece, &mut code);
                blank(piece, &mut bare);
            }
            SourceSpan::Literal => {
                code.push_str(piece);
                blank(piece, &mut bare);
            }
        }
        after_word = kind == SourceSpan::Code && piece.chars().next_back().is_some_and(is_word);
        rest = &rest[len..];
    }
    (code, bare)
}

/// Appends a space for every byte of `piece`, and keeps its line ends.
fn blank(piece: &str, out: &mut String) {
    out.extend(piece.bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }));
}

/// The kind and the length of the first part of `rest`, which has at least one character.
fn stretch(rest: &str, after_word: bool) -> (SourceSpan, usize) {
    if rest.starts_with("//") {
        return (SourceSpan::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (SourceSpan::Comment, block_comment(rest));
    }
    if !after_word {
        if let Some(len) = raw_string(rest) {
            return (SourceSpan::Literal, len);
        }
        for prefix in ["b\"", "c\""] {
            if rest.starts_with(prefix) {
                return (SourceSpan::Literal, 1 + quoted(&rest[1..], '"'));
            }
        }
        if rest.starts_with("b'") {
            return (SourceSpan::Literal, 1 + quoted(&rest[1..], '\''));
        }
    }
    if rest.starts_with('"') {
        return (SourceSpan::Literal, quoted(rest, '"'));
    }
    if rest.starts_with('\'') && is_char_literal(rest) {
        return (SourceSpan::Literal, quoted(rest, '\''));
    }
    (SourceSpan::Code, rest.chars().next().map_or(1, char::len_utf8))
}

/// The length of the block comment at the beginning of `rest`. Block comments nest.
fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (0, 0usize);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of the raw string at the beginning of `rest`, if there is one.
fn raw_string(rest: &str) -> Option<usize> {
    let tail =
        rest.strip_prefix("br").or_else(|| rest.strip_prefix("cr")).or_else(|| rest.strip_prefix('r'))?;
    let prefix = rest.len() - tail.len();
    let hashes = tail.bytes().take_while(|b| *b == b'#').count();
    let body = tail[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close).map_or(body.len(), |at| at + close.len());
    Some(prefix + hashes + 1 + end)
}

/// The length of the literal at the beginning of `rest`, with its escapes.
fn quoted(rest: &str, close: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == close {
            return at + c.len_utf8();
        }
    }
    rest.len()
}

/// Whether the `'` at the beginning of `rest` opens a character and not a lifetime.
fn is_char_literal(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => true,
        (Some(_), Some(second)) => second == '\'',
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("sample.rs".to_owned(), text.to_owned())
    }

    #[test]
    fn comments_and_literals_are_told_from_code() {
        let s = source("let a = \"x // y {\"; // z {\nlet b = r#\"q\"{\"#; /* /* } */ } */ let c = '{';\n");
        assert_eq!(s.code.len(), s.text.len());
        assert!(s.code.contains("x // y {") && !s.code.contains("z {"));
        assert!(!s.bare.contains('{') && !s.bare.contains('}'));
        assert_eq!(s.bare.matches("let").count(), 3);
    }

    #[test]
    fn lifetimes_and_escapes_do_not_confuse_it() {
        let s = source("fn f<'a>(x: &'a str) -> char { '\\'' }\nfn g() { b\"\\\"{\"; r#type(); }\n");
        let found = functions(&s.bare);
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].name.as_str(), found[1].line, found[1].lines), ("g", 2, 1));
    }

    #[test]
    fn modules_of_tests_are_no_lines() {
        let s = source(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { \"}\" }\n}\n#[cfg(test)]\nmod apart;\n\
             #[cfg(test)]\nfn c() {\n}\n",
        );
        assert_eq!(s.bare.lines().count(), 10);
        assert_eq!(lines_without_tests(&s.bare), 6);
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let s = source(
            "trait T {\n fn no_body(a: [u8; 4]);\n fn two(\n  a: u8,\n ) where Self: Sized {\n  {}\n }\n}\n",
        );
        assert_eq!(functions(&s.bare), [Function { name: "two".to_owned(), line: 3, lines: 5 }]);
    }
}
