//! Runs the host's own programs for Kerberos, with a bound.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The reason why a program gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is not installed.
    #[error("`{0}` is not installed; install the package {1}")]
    NotInstalled(&'static str, &'static str),
    /// The host's error.
    #[error("{}: {}", .0, crate::config::os_error(.1))]
    Host(&'static str, std::io::Error),
    /// It did not end in time.
    #[error("{} did not end within {} s", .0, .1.as_secs())]
    Late(&'static str, Duration),
}

/// A program of the host.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Its file name.
    pub name: &'static str,
    /// The package that contains it, on Debian and on Red Hat's systems.
    pub package: &'static str,
}

/// Joins machines to Active Directory.
pub const ADCLI: Program = Program { name: "adcli", package: "adcli" };
/// Gets a first ticket.
pub const KINIT: Program = Program { name: "kinit", package: "krb5-user (Debian) or krb5-workstation" };
/// Gets a ticket for a service and decrypts it.
pub const KVNO: Program = Program { name: "kvno", package: "krb5-user (Debian) or krb5-workstation" };

/// The end of a program.
#[derive(Debug, Clone)]
pub struct ProgramEnd {
    /// Whether its status was 0.
    pub is_success: bool,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub errors: String,
}

impl ProgramEnd {
    /// The last line of what it said.
    pub fn last_words(&self) -> &str {
        let said = if self.errors.trim().is_empty() { &self.output } else { &self.errors };
        said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing")
    }
}

impl Program {
    /// Runs it with these words and variables, and gives it `input`.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub fn run(
        self,
        words: &[OsString],
        variables: &[(&str, OsString)],
        input: &str,
        limit: Duration,
    ) -> Result<ProgramEnd, ProgramError> {
        let mut command = Command::new(self.name);
        // Messages are read below, in English.
        command.args(words).env("LC_ALL", "C").envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => ProgramError::NotInstalled(self.name, self.package),
            _ => ProgramError::Host(self.name, error),
        };
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // It may end without reading, which its status says.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = reader(child.stdout.take());
        let errors = reader(child.stderr.take());
        let is_success = self.wait(&mut child, limit)?;
        let text = |reader: std::thread::JoinHandle<String>| reader.join().unwrap_or_default();
        Ok(ProgramEnd { is_success, output: text(output), errors: text(errors) })
    }

    fn wait(self, child: &mut Child, limit: Duration) -> Result<bool, ProgramError> {
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status.success()),
                Ok(None) if begun.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(ProgramError::Late(self.name, limit));
                }
                Err(error) => return Err(ProgramError::Host(self.name, error)),
            }
        }
    }
}

fn reader(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            let _ = from.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SH: Program = Program { name: "sh", package: "dash" };

    fn run(text: &str, limit: Duration) -> Result<ProgramEnd, ProgramError> {
        SH.run(&["-c".into(), text.into()], &[("X", "y".into())], "in", limit)
    }

    #[test]
    fn a_program_gets_its_input_and_says_its_last_words() {
        let end = run("cat; echo $X; echo a >&2; echo; exit 3", Duration::from_secs(20)).unwrap();
        assert_eq!((end.is_success, end.output.as_str(), end.last_words()), (false, "iny\n\n", "a"));
    }

    #[test]
    fn one_that_does_not_end_is_ended_and_one_that_is_missing_is_named() {
        let why = run("exec sleep 60", Duration::from_millis(30)).unwrap_err().to_string();
        assert!(why.starts_with("sh did not end within"), "{why}");
        let none = Program { name: "no-such-program-here", package: "some-package" };
        let why = none.run(&[], &[], "", Duration::from_secs(1)).unwrap_err().to_string();
        assert_eq!(why, "`no-such-program-here` is not installed; install the package some-package");
    }
}
