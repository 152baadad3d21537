//! DOS wildcards: matches the names of a directory with a search pattern.
//!
//! Users write `*` and `?`. Clients convert DOS patterns to three more: `<` (DOS_STAR), `>` (DOS_QM) and `"`
//! (DOS_DOT). Their meaning depends on the dots of the name.
//!
//! The match runs over the name once, with the set of all pattern positions that are possible so far. The
//! set is a row of bits that moves as a whole ([`Automaton`]). So a character of the name costs a few
//! operations for each 64 characters of the pattern, and no pattern takes exponential time.

use super::names::fold_units;
use crate::Utf16;

mod automaton;

use automaton::Automaton;

/// The most units of a pattern, after each run of `*` has become one.
pub const MAX_PATTERN: usize = 511;

/// One element of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// `*`: any characters, including none.
    Star,
    /// `<`: like `*`, but it may cross the name's last dot only by ending at it.
    DosStar,
    /// `>`: one character other than a dot. It matches nothing before a dot or at the end.
    DosQuestion,
    /// `"`: a dot. It matches nothing at the end.
    DosDot,
    /// `?`: one character.
    Question,
    /// The unit itself.
    Unit(u16),
}

const DOT: u16 = b'.' as u16;

/// A search pattern in a form for many names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    tokens: Vec<Token>,
    kind: PatternKind,
    folded: bool,
    /// For [`PatternKind::Other`].
    automaton: Option<Automaton>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatternKind {
    /// `*` and `*.*`. Both match names without a dot too.
    All,
    /// No wildcards.
    Exact,
    /// `*` followed by no wildcards.
    EndsWith,
    Other,
}

/// The pattern is empty or longer than [`MAX_PATTERN`]. A server answers STATUS_OBJECT_NAME_INVALID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the search pattern is empty or too long")]
pub struct BadPattern;

impl Pattern {
    /// The pattern `text`. With `ignore_case` it is folded, and the names must be folded too.
    ///
    /// # Errors
    /// [`BadPattern`].
    pub fn new(text: Utf16<'_>, ignore_case: bool) -> Result<Pattern, BadPattern> {
        // A long pattern is refused before a closer look. Stars beyond the limit have no use.
        if text.is_empty() || text.len() > 2 * MAX_PATTERN {
            return Err(BadPattern);
        }
        let mut units: Vec<u16> = text.units().collect();
        if ignore_case {
            fold_units(&mut units);
        }
        let mut tokens: Vec<Token> = units.into_iter().map(token).collect();
        tokens.dedup_by(|a, b| a == b && *a == Token::Star);
        if tokens.len() > MAX_PATTERN {
            return Err(BadPattern);
        }
        let kind = kind(&tokens);
        let automaton = (kind == PatternKind::Other).then(|| Automaton::new(&tokens));
        Ok(Pattern { tokens, kind, folded: ignore_case, automaton })
    }

    /// Whether the pattern matches every name.
    #[must_use]
    pub fn selects_all(&self) -> bool {
        self.kind == PatternKind::All
    }

    /// Whether it has a wildcard. Without one it matches a single name (up to case), and a lookup replaces
    /// the scan.
    #[must_use]
    pub fn has_wildcards(&self) -> bool {
        self.kind != PatternKind::Exact
    }

    /// Whether names must be folded for [`Pattern::matches`].
    #[must_use]
    pub fn is_folded(&self) -> bool {
        self.folded
    }

    /// MS-FSA 2.1.4.4: whether the pattern matches `name`.
    #[must_use]
    pub fn matches(&self, name: &[u16]) -> bool {
        if name.is_empty() {
            return false;
        }
        match self.kind {
            PatternKind::All => true,
            PatternKind::Exact => same(&self.tokens, name),
            PatternKind::EndsWith => {
                let tail = &self.tokens[1..];
                name.len() >= tail.len() && same(tail, &name[name.len() - tail.len()..])
            }
            PatternKind::Other => self.automaton.as_ref().is_some_and(|automaton| automaton.matches(name)),
        }
    }
}

fn token(unit: u16) -> Token {
    match u8::try_from(unit) {
        Ok(b'*') => Token::Star,
        Ok(b'<') => Token::DosStar,
        Ok(b'>') => Token::DosQuestion,
        Ok(b'"') => Token::DosDot,
        Ok(b'?') => Token::Question,
        _ => Token::Unit(unit),
    }
}

fn kind(tokens: &[Token]) -> PatternKind {
    let is_plain = |token: &Token| matches!(token, Token::Unit(_));
    match tokens {
        [Token::Star] | [Token::Star, Token::Unit(DOT), Token::Star] => PatternKind::All,
        tokens if tokens.iter().all(is_plain) => PatternKind::Exact,
        [Token::Star, tail @ ..] if tail.iter().all(is_plain) => PatternKind::EndsWith,
        _ => PatternKind::Other,
    }
}

fn same(tokens: &[Token], name: &[u16]) -> bool {
    tokens.len() == name.len() && tokens.iter().zip(name).all(|(token, unit)| *token == Token::Unit(*unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utf16::encode as bytes_of;
    use proptest::prelude::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::new(Utf16::new(&bytes_of(text)).unwrap(), true).unwrap()
    }

    fn matches(text: &str, name: &str) -> bool {
        let mut units: Vec<u16> = name.encode_utf16().collect();
        fold_units(&mut units);
        pattern(text).matches(&units)
    }

    #[test]
    fn plain_wildcards() {
        for (text, name, wanted) in [
            ("*", "a", true),
            ("*.*", "no dot", true),
            ("*.txt", "A.TXT", true),
            ("*.txt", "a.txt.bak", false),
            ("a*c", "abbbc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a?", "a", false),
            ("??", "ab", true),
            ("*a*b*c*", "xaxbxcx", true),
            ("*a*b*c*", "xaxcxbx", false),
            ("file", "FILE", true),
            ("file", "file.", false),
            ("*.", "a.", true),
            ("*.", "a", false),
            ("**", "a", true),
            ("a*", "b", false),
        ] {
            assert_eq!(matches(text, name), wanted, "{text} {name}");
        }
    }

    /// The cases were derived by hand from the rules. The comments give the user's input for each pattern.
    #[test]
    fn dos_wildcards_depend_on_dots() {
        for (text, name, wanted) in [
            // `dir *.` arrives as `<`: the part up to the last dot, so names without one.
            ("<", "abc", true),
            ("<.txt", "a.b.txt", true),
            ("<.b", "a.b", true),
            ("<b", "a.b", true),
            ("<b", "a.x.b", true),
            ("<c", "a.b.xc", false),
            // `dir *.*` arrives as `<"*`.
            ("<\"*", "abc", true),
            ("<\"*", "a.b.c", true),
            // `dir ????.???` arrives as `>>>>">>>`.
            (">>>>\">>>", "ab", true),
            (">>>>\">>>", "abcd.efg", true),
            (">>>>\">>>", "abcde.efg", false),
            (">>>>\">>>", "abcd.efgh", false),
            (">>>>\">>>", "ab.c", true),
            (">", "a", true),
            (">", ".", false),
            (">.", ".", true),
            ("a>", "a", true),
            ("a>>", "a", true),
            ("a>>b", "ab", false),
            ("a>>.b", "a.b", true),
            ("\"", ".", true),
            ("a\"", "a", true),
            ("a\"", "a.", true),
            ("a\"", "ab", false),
            ("a\"b", "a.b", true),
            ("a\"b", "ab", false),
            ("a\"\"", "a", true),
            ("<", "a.b.c", false),
            ("<x", "a.b", false),
        ] {
            assert_eq!(matches(text, name), wanted, "{text} {name}");
        }
    }

    #[test]
    fn a_wildcard_free_pattern_is_told_apart() {
        assert!(!pattern("a.b").has_wildcards());
        assert!(pattern("a.b*").has_wildcards());
        assert!(pattern("*.*").selects_all() && pattern("*").selects_all() && !pattern("*.").selects_all());
    }

    #[test]
    fn case_matters_when_it_should() {
        let exact = Pattern::new(Utf16::new(&bytes_of("A*")).unwrap(), false).unwrap();
        assert!(exact.matches(&[0x41]) && !exact.matches(&[0x61]));
        assert!(matches("é*", "É"));
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        assert_eq!(Pattern::new(Utf16::default(), true), Err(BadPattern));
        let long = bytes_of(&"?".repeat(MAX_PATTERN + 1));
        assert_eq!(Pattern::new(Utf16::new(&long).unwrap(), true), Err(BadPattern));
        let full = bytes_of(&"?".repeat(MAX_PATTERN));
        assert!(Pattern::new(Utf16::new(&full).unwrap(), true).unwrap().matches(&[0x61; MAX_PATTERN]));
    }

    #[test]
    fn a_pattern_made_to_explode_does_not() {
        let text = "*a".repeat(255);
        assert!(!matches(&text, &("a".repeat(254) + "b")));
        assert!(!matches(&"<?".repeat(250), &"a.".repeat(120)));
        assert!(!matches(&">".repeat(500), &".".repeat(255)));
    }

    /// The rules in the words of MS-FSA 2.1.4.4, by trying all possibilities.
    fn by_trying(pattern: &[u16], name: &[u16], at: usize) -> bool {
        let Some((&first, rest)) = pattern.split_first() else {
            return at == name.len();
        };
        let here = name.get(at).copied();
        let last_dot = name.iter().rposition(|&unit| unit == DOT);
        match token(first) {
            Token::Star => (at..=name.len()).any(|next| by_trying(rest, name, next)),
            Token::DosStar => {
                let end = last_dot.filter(|&dot| dot >= at).map_or(name.len(), |dot| dot + 1);
                (at..=end).any(|next| by_trying(rest, name, next))
            }
            Token::DosQuestion => match here {
                None | Some(DOT) => by_trying(rest, name, at),
                Some(_) => by_trying(rest, name, at + 1),
            },
            Token::DosDot => match here {
                None => by_trying(rest, name, at),
                Some(unit) => unit == DOT && by_trying(rest, name, at + 1),
            },
            Token::Question => here.is_some() && by_trying(rest, name, at + 1),
            Token::Unit(unit) => here == Some(unit) && by_trying(rest, name, at + 1),
        }
    }

    /// The rules position by position, for patterns with too many possibilities.
    fn place_by_place(pattern: &[u16], name: &[u16]) -> bool {
        let last_dot = name.iter().rposition(|&unit| unit == DOT);
        let tokens: Vec<Token> = pattern.iter().map(|&unit| token(unit)).collect();
        let mut now = vec![false; tokens.len() + 1];
        now[0] = true;
        for at in 0..=name.len() {
            let here = name.get(at).copied();
            let mut next = vec![false; tokens.len() + 1];
            for (position, token) in tokens.iter().enumerate() {
                if !now[position] {
                    continue;
                }
                let (skips, takes, stays) = match token {
                    Token::Star => (true, false, here.is_some()),
                    Token::DosStar => {
                        (true, here.is_some() && last_dot == Some(at), here.is_some() && last_dot != Some(at))
                    }
                    Token::DosQuestion => match here {
                        None | Some(DOT) => (true, false, false),
                        Some(_) => (false, true, false),
                    },
                    Token::DosDot => (here.is_none(), here == Some(DOT), false),
                    Token::Question => (false, here.is_some(), false),
                    Token::Unit(unit) => (false, here == Some(*unit), false),
                };
                now[position + 1] |= skips;
                next[position + 1] |= takes;
                next[position] |= stays;
            }
            if here.is_none() {
                return now[tokens.len()];
            }
            now = next;
        }
        false
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn long_patterns_agree_with_the_rules(
            text in "([ab.*?<>\"]{0,3}(<|>|\\*|>>>>|ab){0,9}){1,30}", name in "[ab.]{1,120}",
        ) {
            let units: Vec<u16> = text.encode_utf16().collect();
            prop_assume!(!units.is_empty() && units.len() <= MAX_PATTERN);
            let name: Vec<u16> = name.encode_utf16().collect();
            let exact = Pattern::new(Utf16::new(&bytes_of(&text)).unwrap(), false).unwrap();
            prop_assert_eq!(exact.matches(&name), exact.selects_all() || place_by_place(&units, &name));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn running_agrees_with_trying(text in "[ab.*?<>\"]{1,7}", name in "[ab.]{1,7}") {
            let units: Vec<u16> = text.encode_utf16().collect();
            let name_units: Vec<u16> = name.encode_utf16().collect();
            let exact = Pattern::new(Utf16::new(&bytes_of(&text)).unwrap(), false).unwrap();
            let wanted = exact.selects_all() || by_trying(&units, &name_units, 0);
            prop_assert_eq!(exact.matches(&name_units), wanted);
        }
    }
}
