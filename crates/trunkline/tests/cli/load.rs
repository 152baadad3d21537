//! `trunkline load` on files of this host, and what is wrong with its command line or with what it loads.

use crate::common::Place;

/// What it says on standard error when it ends with `status`.
#[track_caller]
fn says(place: &Place, line: &str, status: i32) -> String {
    let done = place.run(line).code(status);
    let errors = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(done.get_output().stdout.is_empty(), "{line}");
    errors
}

#[test]
fn a_line_of_diskspd_is_measured_told_and_drawn() {
    let place = Place::new();
    let line = "load -c64K -b4K -t1 -o2 -r -w50 -L -d1 -W0 --json --html page.html a.dat b.dat";
    let done = place.run(line).code(0);
    let json: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
    assert_eq!(json["jobs"][0]["job options"]["filename"], "a.dat:b.dat");
    assert!(json["jobs"][0]["read"]["total_ios"].as_u64().unwrap() > 0);
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("-c64K -b4K"));
    assert!(!place.path().join("page.html.part").exists());
}

#[test]
fn what_is_wrong_with_the_command_line_changes_nothing() {
    let place = Place::new();
    place.write("pw", "secret\n");
    for (line, wanted) in [
        ("load -d1 -q a", "-q: this flag is not understood; of diskspd's there are -b -t -o"),
        ("load --bs 4k --bogus a", "unexpected argument '--bogus'"),
        ("load //server/share", "write smb://"),
        ("load smb://ann:secret@h/x", "a password must not stand on the command line"),
        ("load smb://ann@h/x --password-file none", "--password-file none: No such file"),
        ("load . --number-ios 1 --html none/page", "--html none/page: the page cannot be written"),
        ("load . --agents h", "agents need a shared secret"),
        ("load . --agents h --secret-file pw", "16 characters or more"),
        ("load", "TARGET"),
    ] {
        let before = place.files();
        let said = says(&place, line, 2);
        assert!(said.contains(wanted), "{line}: {said}");
        assert!(place.files() == before, "{line} has changed something");
    }
}

#[test]
fn what_cannot_be_loaded_is_said_in_one_line() {
    let place = Place::new();
    place.write("pw", "secret\n");
    for (line, wanted) in [
        ("load -d1 none/a", "opening none/a, which must be there unless -cSIZE or --filesize makes it"),
        (
            "load smb://ann@127.0.0.1:1/x --password-file pw",
            "connecting to 127.0.0.1 port 1: the connection failed",
        ),
        ("load nfs://127.0.0.1:1/x", "see whether host and port are right and a server listens there"),
    ] {
        let said = says(&place, line, 1);
        assert!(said.contains(wanted) && said.lines().count() == 1, "{line}: {said}");
        assert_eq!(said.matches("refused").count(), usize::from(line.contains("127")), "{said}");
    }
}
