//! Writes the man pages of the program and of its configuration, and the completions for shells, below the
//! folder of its only argument: `man1`, `man5`, `bash`, `zsh` and `fish`. `packaging/package.py` calls it.
//!
//! Start with [`pages`] for the commands and with [`settings`] for `trunkline.toml(5)`.

mod settings;

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use admin::KeyName;
use clap::{Command, CommandFactory};
use clap_complete::aot::{Shell, generate_to};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use trunkline_parsers::cli::Cli;

/// The program and its version, in the foot of each page.
const SOURCE: &str = concat!("Trunkline ", env!("CARGO_PKG_VERSION"));
/// The title above each page.
const MANUAL: &str = "Trunkline Manual";

fn main() -> ExitCode {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("manual: name the folder to write to");
        return ExitCode::from(2);
    };
    match write(Path::new(&dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("manual: {}: {error}", Path::new(&dir).display());
            ExitCode::FAILURE
        }
    }
}

fn write(dir: &Path) -> io::Result<()> {
    let section = |name: &str| {
        let path = dir.join(name);
        fs::create_dir_all(&path).map(|()| path)
    };
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    pages(&command, &section("man1")?)?;
    fs::write(section("man5")?.join("trunkline.toml.5"), settings::page().to_roff())?;
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let path = generate_to(shell, &mut visible(&Cli::command()), "trunkline", section(name)?)?;
        if shell == Shell::Fish {
            fs::OpenOptions::new().append(true).open(path)?.write_all(keys_for_fish().as_bytes())?;
        }
    }
    Ok(())
}

/// The completion of `account keys renew NAME`. clap's writer for fish knows no values but those of options.
fn keys_for_fish() -> String {
    let keys = KeyName::ALL.map(KeyName::word).join(" ");
    let renew = "__fish_trunkline_using_subcommand account; and __fish_seen_subcommand_from renew";
    format!("complete -c trunkline -n \"{renew}\" -f -a \"{keys}\" -d 'Key to replace'\n")
}

/// A command without hidden commands and options. The writers of completions would offer them.
fn visible(command: &Command) -> Command {
    // Names must live as long as the program, which ends soon.
    let name: &'static str = command.get_name().to_owned().leak();
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let mut shown = Command::new(name).args(arguments);
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if command.get_version().is_some() {
        shown = shown.version(env!("CARGO_PKG_VERSION"));
    }
    let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    shown.subcommands(inner.map(visible))
}

/// Writes the page of a command and those of its subcommands.
fn pages(command: &Command, dir: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        pages(inner, dir)?;
    }
    let man = Man::new(command.clone()).source(SOURCE).manual(MANUAL);
    let mut text = Vec::new();
    man.render(&mut text)?;
    if command.get_name() == "trunkline" {
        text.extend(whole_program().to_roff().into_bytes());
    }
    fs::write(dir.join(man.get_filename()), text)
}

/// The sections that only the page of the program has.
fn whole_program() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    let meanings = [
        ("0", "The command succeeded, or the server was stopped and has answered all requests."),
        ("1", "A server or a load ran and failed, or an examination ended early."),
        ("2", "A mistake in the command, in a setting or on the host. Nothing was changed."),
    ];
    definitions(&mut roff, &meanings);
    roff.text([bold("trunkline copy"), roman(" has the exit statuses of robocopy instead.")]);
    roff.control("SH", ["FILES"]);
    let files = [
        ("/etc/trunkline/trunkline.toml", "The configuration of the service, see trunkline.toml(5)."),
        ("/var/lib/trunkline", "The state directory of root: users, identity, changes of shares."),
        ("/usr/share/doc/trunkline", "One page for each subject."),
    ];
    definitions(&mut roff, &files);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("trunkline.toml"), roman("(5), "), bold("mount.cifs"), roman("(8), ")]);
    roff.text([bold("nfs"), roman("(5), "), bold("smbclient"), roman("(1)")]);
    roff
}

fn definitions(roff: &mut Roff, entries: &[(&str, &str)]) {
    for (term, meaning) in entries {
        definition(roff, [bold(*term)], [roman(*meaning)]);
    }
}

/// A term and its meaning, one below the other.
fn definition(roff: &mut Roff, term: impl Into<Vec<Inline>>, meaning: impl Into<Vec<Inline>>) {
    roff.control("TP", []);
    roff.text(term);
    roff.text(meaning);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_complete_the_words_that_a_value_may_be_and_no_hidden_command() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        for shell in ["bash/trunkline.bash", "zsh/_trunkline", "fish/trunkline.fish"] {
            let text = fs::read_to_string(dir.path().join(shell)).unwrap();
            assert!(text.contains("administer") && text.contains("key1 key2"), "{shell}");
            assert!(!text.contains("null-server") && !text.contains("null-loop"), "{shell}");
            for shown in ["domain", "renew", "older-than-days", "mirror", "version"] {
                assert!(text.contains(shown), "{shell}: {shown}");
            }
        }
    }
}
