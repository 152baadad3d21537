//! Runs the examinations, one server after the other. Each ends in time and leaves nothing behind.

use std::task::Poll;
use std::time::{Duration, Instant};

use client::{Scheme, Url};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::{Args, MeasurementBudget};
use crate::compare::compare;
use crate::examination::{Examination, cut};
use crate::measurements::{Cause, TargetMeasurements};
use crate::rules::findings;
use crate::verdict::verdict;
use crate::{Error, Examined, Report, mounted};

/// The last wait for work that is stuck in a call of the host.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// Examines all targets. `ask` is called with each user whose password is unknown.
///
/// # Errors
/// If nothing can be examined, because of the command line or of this host.
pub fn run(args: &Args, ask: &dyn Fn(&str) -> Result<String, Error>) -> Result<Report, Error> {
    let passwords = args.passwords(ask)?;
    let course = args.course();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Error::host("starting a runtime", why))?;
    let begun = Instant::now();
    let examined = runtime.block_on(all(args, &course, &passwords))?;
    runtime.shutdown_timeout(LAST_WAIT);
    let comparison = match examined.as_slice() {
        [first, second] => Some(compare(&first.facts, &second.facts)),
        _ => None,
    };
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        course: course.name,
        took_s: begun.elapsed().as_secs_f64(),
        targets: examined,
        comparison,
    })
}

async fn all(args: &Args, course: &MeasurementBudget, passwords: &[String]) -> Result<Vec<Examined>, Error> {
    let mut signals = signals().map_err(|why| Error::host("listening for signals", why))?;
    let mut examined = Vec::new();
    for (target, password) in args.targets.iter().zip(passwords) {
        let measurements = one(target, args, course, password, signalled(&mut signals)).await?;
        let is_over = measurements.stopped.as_ref().is_some_and(|it| it.cause == Cause::Interrupted);
        let findings = findings(&measurements);
        let verdict = verdict(&measurements, &findings);
        examined.push(Examined { facts: measurements, findings, verdict });
        if is_over {
            break;
        }
    }
    Ok(examined)
}

/// All signals that ask a program to end. The end of the terminal is left out if the program is to
/// outlast it (nohup).
fn signals() -> std::io::Result<Vec<Signal>> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let hangup = SignalKind::hangup();
    let outlasts = ignored >> (hangup.as_raw_value() - 1) & 1 == 1;
    let all = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::quit(), hangup];
    all.into_iter().filter(|kind| *kind != hangup || !outlasts).map(signal).collect()
}

/// Waits for one of the signals.
async fn signalled(signals: &mut [Signal]) {
    let poll = |context: &mut std::task::Context<'_>| {
        let is_told = signals.iter_mut().any(|it| it.poll_recv(context).is_ready());
        if is_told { Poll::Ready(()) } else { Poll::Pending }
    };
    std::future::poll_fn(poll).await;
}

async fn one(
    target: &Url,
    args: &Args,
    course: &MeasurementBudget,
    password: &str,
    told: impl Future<Output = ()>,
) -> Result<TargetMeasurements, Error> {
    if target.scheme == Scheme::Local {
        return mounted::examine(target, args, course, told).await;
    }
    let mut exam = Examination::new(target, target.to_string(), args, course, password);
    let is_over = tokio::select! {
        () = exam.examine() => false,
        () = told => true,
    };
    if is_over {
        exam.measurements.stopped = Some(cut(&exam.measurements, Cause::Interrupted, course.limit));
    }
    exam.clear().await;
    Ok(exam.measurements)
}
