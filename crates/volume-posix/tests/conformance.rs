//! The conformance suite of volumes, on a directory of this host. It runs as the present user, and once
//! more without privileges if that is root.

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
