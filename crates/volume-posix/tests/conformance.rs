//! The suite that every kind of volume is held to, on a directory of this host: as whoever runs the
//! tests, and once more without privileges when that is root.

mod common;

mod here {
    use super::common::fresh;

    volume::conformance_tests!(fresh());
}

#[test]
fn the_suite_again_without_privileges() {
    if let Some(passed) = common::again_as_nobody("here::") {
        assert_eq!(passed, volume::conformance::CASES.len());
    }
}
