//! Passwords: read without echo, or generated. They are never taken from the command line, where every user
//! of the host could read them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::config::check::read_password;
use crate::state::store::{StoreError, random};

/// Longest password, in UTF-16 units (what clients can send).
const MAX_LENGTH: usize = 256;

/// Characters of a generated password. None is mistaken for another, and none has a meaning for a shell.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Gets the password for a user from `file`, else from the terminal, else from the first line of stdin.
pub fn obtain(user: &str, file: Option<&Path>) -> anyhow::Result<String> {
    if let Some(file) = file {
        return checked(from_file(file, "--password-file")?);
    }
    match File::options().read(true).write(true).open("/dev/tty") {
        Ok(tty) if rustix::termios::isatty(io::stdin()) => {
            let password = ask(&tty, &format!("Password for {user}: "))?;
            let again = ask(&tty, "Once more: ")?;
            ensure!(password == again, "the two passwords are not the same");
            checked(password)
        }
        _ => checked(first_line(io::stdin().lock())?),
    }
}

/// The first line of the file that `option` names; `-` is standard input.
pub fn from_file(file: &Path, option: &str) -> anyhow::Result<String> {
    if file == Path::new("-") {
        return first_line(io::stdin().lock());
    }
    if let Some(why) = client::written::exposure(file) {
        eprintln!("trunkline: warning: {option} {}: {why}", file.display());
    }
    read_password(file).map_err(|why| anyhow::anyhow!("{option} {}: {why}", file.display()))
}

/// Passwords that attackers try first. [`weakness`] also finds those made of the user's name, of one
/// character and of a row of the keyboard.
const COMMON: &[&str] = &[
    "password",
    "passwort",
    "passw0rd",
    "letmein",
    "welcome",
    "iloveyou",
    "monkey",
    "dragon",
    "football",
    "baseball",
    "princess",
    "sunshine",
    "master",
    "shadow",
    "superman",
    "batman",
    "trustno1",
    "changeme",
    "secret",
    "s3cret",
    "administrator",
    "admin",
    "root",
    "guest",
    "default",
    "server",
    "samba",
    "trunkline",
];
/// Rows of neighbouring keys and the alphabet.
const ROWS: &[&str] = &[
    "01234567890",
    "qwertyuiopasdfghjklzxcvbnm",
    "qwertzuiop",
    "azertyuiop",
    "abcdefghijklmnopqrstuvwxyz",
    "1q2w3e4r5t6z7u",
    "1q2w3e4r5t6y7u",
];
/// The shortest password that is not weak, in characters.
const LEAST_LENGTH: usize = 8;
/// The shortest password of digits alone that is not weak, in characters.
const LEAST_DIGITS: usize = 12;

/// The reason why a password is easy to guess, if it is. The server slows down attempts over the network.
/// But an attacker who has recorded a log-on can try any number of passwords offline.
pub fn weakness(user: &str, password: &str) -> Option<&'static str> {
    let lower = password.to_lowercase();
    // People often add digits and signs to the end of a word that was too weak.
    let word = lower.trim_end_matches(|letter: char| !letter.is_alphabetic());
    let backwards: String = lower.chars().rev().collect();
    let length = password.chars().count();
    let is_row = |row: &&str| row.contains(&lower[..]) || row.contains(&backwards[..]);
    if length < LEAST_LENGTH {
        return Some("it has fewer than 8 characters");
    }
    if !user.is_empty() && (word == user.to_lowercase() || lower == user.to_lowercase()) {
        return Some("it is the user's name");
    }
    if COMMON.iter().any(|common| lower == *common || word == *common) {
        return Some("it is among those that attackers try first");
    }
    let first = lower.chars().next();
    if lower.chars().all(|letter| Some(letter) == first) || ROWS.iter().any(is_row) {
        return Some("it is a row of neighbouring or of equal characters");
    }
    (length < LEAST_DIGITS && lower.chars().all(|letter| letter.is_ascii_digit()))
        .then_some("it has only digits")
}

/// Prints a warning on standard error if a password is easy to guess.
pub fn warn_of_weakness(user: &str, password: &str) {
    if let Some(why) = weakness(user, password) {
        eprintln!("trunkline: warning: the password of {user} is easy to guess: {why}");
    }
}

/// Gets the password of a user of another server from the terminal, else from the first line of stdin.
pub fn ask_once(user: &str) -> anyhow::Result<String> {
    match File::options().read(true).write(true).open("/dev/tty") {
        Ok(tty) if rustix::termios::isatty(io::stdin()) => ask(&tty, &format!("Password for {user}: ")),
        _ => first_line(io::stdin().lock()),
    }
}

fn checked(password: String) -> anyhow::Result<String> {
    ensure!(!password.is_empty(), "the password is empty; give it with --password-file or on standard input");
    check(&password)?;
    Ok(password)
}

/// Whether clients can send this as a password. No reason that is given holds it.
///
/// # Errors
/// The reason why they cannot.
pub fn check(password: &str) -> anyhow::Result<()> {
    ensure!(!password.is_empty(), "the password is empty");
    let length = password.encode_utf16().count();
    ensure!(length <= MAX_LENGTH, "the password has {length} characters, at most {MAX_LENGTH} can be used");
    if password.contains(char::is_control) {
        bail!("the password holds a control character, which no client can send");
    }
    Ok(())
}

fn first_line(from: impl Read) -> anyhow::Result<String> {
    let mut line = String::new();
    BufReader::new(from.take(4096)).read_line(&mut line).context("reading the password")?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// Restores the terminal's settings when dropped.
struct Echo<'t> {
    tty: &'t File,
    before: Termios,
}

impl Drop for Echo<'_> {
    fn drop(&mut self) {
        // If the terminal is gone, nothing is left to do.
        let _ = tcsetattr(self.tty.as_fd(), OptionalActions::Flush, &self.before);
    }
}

fn ask(mut tty: &File, question: &str) -> anyhow::Result<String> {
    tty.write_all(question.as_bytes())?;
    let line = {
        let before = tcgetattr(tty.as_fd())?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO;
        let _echo = Echo { tty, before };
        tcsetattr(tty.as_fd(), OptionalActions::Flush, &quiet)?;
        first_line(tty)?
    };
    tty.write_all(b"\n")?;
    Ok(line)
}

/// Generates a password of 80 random bits, in groups that are easy to read aloud.
///
/// # Errors
/// The host has no random bytes.
pub fn make() -> Result<String, StoreError> {
    let bytes: [u8; 16] = random()?;
    let letters = bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)]));
    let mut password = String::new();
    for (at, letter) in letters.enumerate() {
        if at > 0 && at % 4 == 0 {
            password.push('-');
        }
        password.push(letter);
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_passwords_differ_and_can_be_typed() {
        let (a, b) = (make().unwrap(), make().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.len(), 19);
        assert!(a.split('-').all(|group| group.len() == 4 && group.bytes().all(|c| ALPHABET.contains(&c))));
    }

    #[test]
    fn passwords_that_are_soon_guessed_are_told_from_others() {
        for (password, why) in [
            ("s3cret", "fewer than 8"),
            ("Password1!", "try first"),
            ("changeme2026", "try first"),
            ("Johanna1984", "the user's name"),
            ("aaaaaaaaaaaa", "neighbouring"),
            ("qwertzuiop", "neighbouring"),
            ("987654321", "neighbouring"),
            ("19841224", "only digits"),
        ] {
            let found = weakness("johanna", password);
            assert!(found.is_some_and(|found| found.contains(why)), "{password}: {found:?}");
        }
        for password in
            ["th9t-jsvt-kfc5-dqwq", "correct horse battery staple", "passwords are fun", "314159265358979"]
        {
            assert_eq!(weakness("johanna", password), None, "{password}");
        }
        assert!((0..100).all(|_| weakness("ann", &make().unwrap()).is_none()));
    }

    #[test]
    fn empty_long_and_unsendable_passwords_are_refused() {
        assert!(checked("pw".to_owned()).is_ok());
        assert!(checked(String::new()).is_err());
        assert!(checked("x".repeat(MAX_LENGTH + 1)).is_err());
        assert!(checked("a\tb".to_owned()).is_err());
        assert_eq!(first_line(&b"pw with blanks \r\nmore"[..]).unwrap(), "pw with blanks ");
    }
}
