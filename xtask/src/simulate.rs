//! `cargo xtask simulate`: the simulation of `crates/smb/tests/simulation` as a program.
//!
//! The simulation runs the server in its own process, so it is a test. This program builds it and runs all
//! its parts with the given seeds.

use std::path::Path;
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask simulate [--seed FIRST] [--count N] [--log]";

/// The arguments of the simulation.
#[derive(Debug, PartialEq, Eq)]
struct SimulateArgs {
    seed: u64,
    count: u64,
    has_log: bool,
}

impl SimulateArgs {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<SimulateArgs, String> {
        let mut args = SimulateArgs { seed: 0, count: 1, has_log: false };
        while let Some(word) = words.next() {
            let mut number = || {
                let number = words.next().and_then(|number| number.parse().ok());
                number.ok_or_else(|| format!("{word} takes a number\n{USAGE}"))
            };
            match word.as_str() {
                "--seed" => args.seed = number()?,
                "--count" => args.count = number()?,
                "--log" => args.has_log = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(args)
    }

    fn command(&self, root: &Path) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .current_dir(root)
            .args(["test", "-q", "--workspace", "--test", "simulation"])
            .args(["--", "--exact", "one_seed_of_all_parts", "--nocapture"])
            .env("SIMULATED_SEEDS", format!("{}+{}", self.seed, self.count));
        match self.has_log {
            true => command.env("SIMULATED_LOG", "1"),
            false => command.env_remove("SIMULATED_LOG"),
        };
        command
    }
}

/// Runs the simulation with the words of the command line.
pub fn run(root: &Path, words: impl Iterator<Item = String>) -> ExitCode {
    let args = match SimulateArgs::parse(words) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    match args.command(root).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("cargo cannot be run: {why}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<SimulateArgs, String> {
        SimulateArgs::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_command_line_names_seeds_and_asks_for_the_log() {
        assert_eq!(parse(""), Ok(SimulateArgs { seed: 0, count: 1, has_log: false }));
        let all = SimulateArgs { seed: 7, count: 20, has_log: true };
        assert_eq!(parse("--seed 7 --log --count 20"), Ok(all));
        for wrong in ["--seed", "--seed x", "--count -1", "7"] {
            assert!(parse(wrong).is_err_and(|why| why.contains(USAGE)), "{wrong}");
        }
    }

    #[test]
    fn the_simulation_gets_the_seeds_and_is_told_of_the_log() {
        let args = SimulateArgs { seed: 7, count: 20, has_log: true };
        let command = args.command(Path::new("/"));
        let set: Vec<_> = command.get_envs().map(|(name, value)| (name.to_owned(), value)).collect();
        assert!(set.contains(&("SIMULATED_SEEDS".into(), Some("7+20".as_ref()))));
        assert!(set.contains(&("SIMULATED_LOG".into(), Some("1".as_ref()))));
    }
}
