//! Helpers for the tests of several files.

/// The options in the words of a command line.
pub(crate) fn asked<A: clap::Args>(line: &str) -> A {
    let command = A::augment_args(clap::Command::new("test").no_binary_name(true));
    let words = command.get_matches_from(line.split_whitespace());
    A::from_arg_matches(&words).expect("the command has these options")
}
