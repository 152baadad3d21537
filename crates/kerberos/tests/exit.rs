//! A process that ends while its threads are inside calls of MIT's library.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use kerberos::{InitiatorCredentials, Library, TicketSource};

/// The variable by which this test tells the process that it starts to end.
const ENDS: &str = "KERBEROS_TEST_ENDS";
const STATUS: i32 = 7;
const THREADS: usize = 4;

/// Runs only in the process of the test below: ends while threads call the library.
#[test]
fn ends_with_threads_inside_the_library() {
    if std::env::var_os(ENDS).is_none() {
        return;
    }
    let library = Library::load().unwrap();
    let calls: &'static [AtomicUsize; THREADS] = Box::leak(Box::default());
    for count in calls {
        let library = std::sync::Arc::clone(&library);
        std::thread::spawn(move || {
            loop {
                // There is no such cache, and the library says so in several calls.
                let none = TicketSource::Cache("FILE:/nonexistent/cache".to_owned());
                assert!(InitiatorCredentials::new(&library, &none).is_err());
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    while calls.iter().any(|count| count.load(Ordering::SeqCst) < 10) {
        std::thread::yield_now();
    }
    kerberos::skip_destructors_at_exit();
    std::process::exit(STATUS);
}

#[test]
fn a_process_ends_in_order_while_threads_are_inside_the_library() {
    if let Err(why) = Library::load() {
        eprintln!("not tested: {why}");
        return;
    }
    for run in 0..20 {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", "ends_with_threads_inside_the_library", "--nocapture"]).env(ENDS, "1");
        let done = command.stdout(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        // Without the call the library's assertions speak in every fifth run, and some abort.
        assert_eq!((done.status.code(), &*said), (Some(STATUS), ""), "run {run}: {}", done.status);
    }
}
