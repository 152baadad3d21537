//! Prints the result of a command. A reader that closes the pipe, as `head` does, wants no more of it. That
//! is no fault of the command.

use std::fmt::Display;
use std::io::Write;

/// Prints a text.
pub fn text(text: impl Display) {
    let mut out = std::io::stdout().lock();
    // Nobody reads a closed pipe.
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a line.
pub fn line(line: impl Display) {
    text(format_args!("{line}\n"));
}
