//! Makes the path, runs the command behind it, and says what the path was like.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitStatus;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::args::LinkArgs;
use super::ends::Ends;
use super::forward::forward;
use super::probe::Target;
use super::report::LinkReport;
use crate::Error;

/// Runs the command behind the path; how it ended. What the path was like goes to standard error.
///
/// # Errors
/// When this is not root, when the path cannot be made, and when there is no such command.
pub fn run(args: &LinkArgs) -> Result<ExitStatus, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Usage(
            "trunkline link makes network devices, which only root may: run it with sudo".to_owned(),
        ));
    }
    let ends = Ends::make(args.mtu, args.congestion_control.as_deref())?;
    let target = Target::listen(ends.host())?;
    let (until, over) = rustix::pipe::pipe().map_err(|why| Error::host("make a pipe", why))?;
    let (shape, seed) = (args.shape(), args.seed);
    let (outcome, there, back) = thread::scope(|scope| {
        let there = scope.spawn(|| forward(&ends.near, &ends.far, shape, seed, &until));
        let back = scope.spawn(|| forward(&ends.far, &ends.near, shape, !seed, &until));
        // What is done behind the path has a thread of its own, for a namespace is a thread's.
        let behind = scope.spawn(|| {
            ends.enter()?;
            let connects = target.connect(args.rtt)?;
            Ok((execute(&args.command, ends.host())?, connects))
        });
        let outcome = join(behind);
        drop(over);
        (outcome, join(there), join(back))
    });
    let (status, connects) = outcome?;
    let report = LinkReport { rtt: args.rtt, connects, there: there?, back: back?, missed: ends.missed() };
    eprint!("{report}");
    Ok(status)
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, Result<T, Error>>) -> Result<T, Error> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs the command to its end, whatever is sent to us meanwhile, so that what was made is cleared away. It is told to
/// end when we are, and killed when we are told once more.
fn execute(command: &[OsString], host: IpAddr) -> Result<ExitStatus, Error> {
    let words: Vec<OsString> = command.iter().map(|word| with_host(word, host)).collect();
    let [program, arguments @ ..] = words.as_slice() else {
        return Err(Error::Usage("there is no command to run".to_owned()));
    };
    let doing = || format!("run {}", program.display());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| Error::host("make a runtime", why))?;
    runtime.block_on(async {
        let failed = |why: std::io::Error| Error::host(doing(), why);
        // From here on it does not end us. The terminal sends it to the command too.
        let _interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .env("TRUNKLINE_LINK_HOST", host.to_string())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let passing_on = tokio::spawn(async move {
            for with in [Signal::TERM, Signal::KILL] {
                terminate.recv().await;
                if let Some(id) = id {
                    let _ = kill_process(id, with);
                }
            }
        });
        let ended = child.wait().await.map_err(failed);
        passing_on.abort();
        ended
    })
}

/// A word of the command with the address in the place of `{host}`.
fn with_host(word: &OsStr, host: IpAddr) -> OsString {
    const PLACE: &[u8] = b"{host}";
    let (mut rest, mut put) = (word.as_bytes(), Vec::new());
    while let Some(at) = rest.windows(PLACE.len()).position(|part| part == PLACE) {
        put.extend_from_slice(&rest[..at]);
        put.extend_from_slice(host.to_string().as_bytes());
        rest = &rest[at + PLACE.len()..];
    }
    put.extend_from_slice(rest);
    OsString::from_vec(put)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_put_wherever_it_is_named() {
        let put = |word: &str| with_host(OsStr::new(word), IpAddr::from([198, 18, 0, 1]));
        assert_eq!(put("smb://me@{host}/share"), "smb://me@198.18.0.1/share");
        assert_eq!(put("{host}{host}"), "198.18.0.1198.18.0.1");
        assert_eq!(put("{hos}t {"), "{hos}t {");
    }
}
