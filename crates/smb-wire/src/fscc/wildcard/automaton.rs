//! All positions of a pattern at once, as bits. Bit 0 is before the first token, bit `n` after the `n`th.

use super::{DOT, Token};

/// A row of bits, with the lowest bit first.
type PositionBits = Vec<u64>;

/// A pattern that is matched with names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Automaton {
    /// The number of words in a row.
    words: usize,
    /// The position after the last token.
    end: usize,
    /// The fewest characters of a matching name.
    least: usize,
    /// The positions before each kind of token.
    stars: PositionBits,
    dos_stars: PositionBits,
    dos_questions: PositionBits,
    dos_dots: PositionBits,
    questions: PositionBits,
    /// The literal characters in rising order, with the positions before them.
    units: Vec<(u16, PositionBits)>,
    /// The positions that take no character: before a dot, before another character, and at the end of the
    /// name.
    passed: [PositionBits; 3],
}

/// The kind of the next character.
#[derive(Clone, Copy)]
enum NextCharacter {
    Dot = 0,
    Other = 1,
    End = 2,
}

impl Automaton {
    pub fn new(tokens: &[Token]) -> Automaton {
        let words = tokens.len() / 64 + 1;
        let row = |is_in: &dyn Fn(&Token) -> bool| {
            let mut row = vec![0; words];
            for (position, _) in tokens.iter().enumerate().filter(|(_, token)| is_in(token)) {
                row[position / 64] |= 1 << (position % 64);
            }
            row
        };
        let mut units: Vec<u16> = tokens
            .iter()
            .filter_map(|token| if let Token::Unit(unit) = token { Some(*unit) } else { None })
            .collect();
        let least = tokens.iter().filter(|token| matches!(token, Token::Unit(_) | Token::Question)).count();
        units.sort_unstable();
        units.dedup();
        let is_star = |token: &Token| matches!(token, Token::Star | Token::DosStar);
        Automaton {
            words,
            end: tokens.len(),
            least,
            stars: row(&|token| *token == Token::Star),
            dos_stars: row(&|token| *token == Token::DosStar),
            dos_questions: row(&|token| *token == Token::DosQuestion),
            dos_dots: row(&|token| *token == Token::DosDot),
            questions: row(&|token| *token == Token::Question),
            units: units.into_iter().map(|unit| (unit, row(&|token| *token == Token::Unit(unit)))).collect(),
            passed: [
                row(&|token| is_star(token) || *token == Token::DosQuestion),
                row(&is_star),
                row(&|token| is_star(token) || matches!(token, Token::DosQuestion | Token::DosDot)),
            ],
        }
    }

    /// Whether the pattern matches the name.
    pub fn matches(&self, name: &[u16]) -> bool {
        if name.len() < self.least {
            return false;
        }
        let mut room = [0_u64; super::MAX_PATTERN / 64 + 1];
        let now = &mut room[..self.words];
        now[0] = 1;
        let last_dot = name.iter().rposition(|&unit| unit == DOT);
        for (at, &unit) in name.iter().enumerate() {
            self.pass(now, if unit == DOT { NextCharacter::Dot } else { NextCharacter::Other });
            if !self.step(now, unit, last_dot == Some(at)) {
                return false;
            }
        }
        self.pass(now, NextCharacter::End);
        now[self.end / 64] >> (self.end % 64) & 1 == 1
    }

    /// Adds the positions that are reachable without a character. In each run of such positions, the
    /// addition of the lowest reached one carries through to the end of the run.
    fn pass(&self, now: &mut [u64], at: NextCharacter) {
        let passed = &self.passed[at as usize];
        let mut carry = false;
        for (word, &passed) in now.iter_mut().zip(passed) {
            let (sum, over) = (*word & passed).overflowing_add(passed);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            carry = over || over_again;
            *word |= sum ^ passed;
        }
    }

    /// Takes one character. Returns false if no position is left.
    fn step(&self, now: &mut [u64], unit: u16, is_last_dot: bool) -> bool {
        let own = self.units.binary_search_by_key(&unit, |(unit, _)| *unit).ok().map(|at| &self.units[at].1);
        let (mut carry, mut any) = (0, 0);
        for (at, word) in now.iter_mut().enumerate() {
            let mut takes = self.questions[at] | own.map_or(0, |own| own[at]);
            takes |= if unit == DOT { self.dos_dots[at] } else { self.dos_questions[at] };
            let mut stays = self.stars[at];
            if is_last_dot {
                takes |= self.dos_stars[at];
            } else {
                stays |= self.dos_stars[at];
            }
            let moved = *word & takes;
            *word = (*word & stays) | moved << 1 | carry;
            carry = moved >> 63;
            any |= *word;
        }
        any != 0
    }
}
