//! The behaviour that every kind of volume must show: the same calls give the same results.
//!
//! [`CASES`] lists the cases. The macro `conformance_tests!` makes a test of each case for one kind of
//! volume. A case gets an empty volume and uses only the trait. It panics if the volume behaves
//! differently.

mod data;
mod names;
mod state;

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::{DirEntry, Name, Node, OpenHow, Patience, Volume};

/// A test that gets an empty volume.
pub type Case = fn(&dyn Volume);

/// Defines the cases once, and from them the list and the macro that makes the tests.
macro_rules! cases {
    ($dollar:tt; $($module:ident :: $name:ident,)*) => {
        /// All cases by name.
        pub const CASES: &[(&str, Case)] = &[$((stringify!($name), $module::$name),)*];

        /// Makes one test of each case. The argument is an expression that creates an empty volume and a
        /// guard that must live as long as the volume: `(volume, guard)`.
        #[macro_export]
        macro_rules! conformance_tests {
            ($dollar make:expr) => {
                $(
                    #[test]
                    fn $name() {
                        let (volume, _guard) = $dollar make;
                        $crate::conformance::run(stringify!($name), &volume);
                    }
                )*
            };
        }
    };
}

cases! { $;
    names::a_name_is_made_once_and_found_exactly,
    names::what_is_removed_is_gone_but_stays_usable_while_open,
    names::only_the_right_kind_is_removed,
    names::a_removed_directory_takes_no_names,
    names::a_name_moves,
    names::a_name_replaces_only_when_asked_to,
    names::a_directory_is_replaced_only_while_empty,
    names::a_directory_does_not_move_below_itself,
    names::two_names_of_one_file_become_one,
    names::a_file_has_several_names,
    names::a_link_keeps_its_text_and_is_not_followed,
    names::only_directories_hold_names,
    names::a_node_is_found_by_its_address,
    names::a_directory_knows_its_place,
    names::special_files_are_made,
    names::every_entry_is_shown_once,
    names::a_scan_resumes_by_cookie_while_names_come_and_go,
    names::scans_do_not_disturb_each_other,
    data::what_is_written_is_read,
    data::a_read_ends_at_the_end,
    data::a_hole_reads_as_zeros_and_is_skipped,
    data::size_cuts_and_extends,
    data::punching_leaves_the_rest,
    data::allocation_keeps_the_size,
    data::copies_also_within_one_file,
    data::offsets_have_an_end,
    data::a_node_does_only_what_it_is_open_for,
    data::more_is_opened_again,
    state::times_are_kept_to_the_nanosecond,
    state::mode_and_owner,
    state::notes_of_every_size_come_back,
    state::notes_do_not_show_as_attributes,
    state::attributes_are_listed_set_and_removed,
    state::streams_are_made_listed_and_removed,
    state::a_stream_has_data_of_its_own,
    state::streams_move_and_go_with_their_file,
    state::directories_have_streams_and_notes_too,
    state::facts_and_room_are_sound,
}

/// Runs one case.
///
/// # Panics
/// If the volume behaves differently, or if no case has this name.
pub fn run(name: &str, volume: &dyn Volume) {
    let case = CASES.iter().find(|(known, _)| *known == name).map(|(_, case)| case);
    case.expect("a case of this name")(volume);
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn file(directory: &Arc<dyn Node>, text: &str) -> Arc<dyn Node> {
    directory.create_file(&name(text), 0o644, None).expect("a new file")
}

fn directory(directory: &Arc<dyn Node>, text: &str) -> Arc<dyn Node> {
    directory.create_directory(&name(text), 0o755, None).expect("a new directory")
}

/// All of a file's data, read in steps that do not divide it evenly.
fn content(node: &Arc<dyn Node>) -> Vec<u8> {
    let mut out = Vec::new();
    while node.read(out.len() as u64, 1000, &mut out, Patience::Block).expect("a read") > 0 {}
    out
}

/// All entries behind a cookie, in the order of the directory.
fn entries(directory: &Arc<dyn Node>, cookie: u64) -> Vec<DirEntry> {
    let mut found = Vec::new();
    let mut take = |entry| {
        found.push(entry);
        ControlFlow::Continue(())
    };
    directory.entries(cookie, &mut take).expect("a scan");
    found
}

/// All names of a directory, sorted.
fn listed(directory: &Arc<dyn Node>) -> Vec<String> {
    let mut names: Vec<String> =
        entries(directory, 0).iter().map(|e| e.name.display().into_owned()).collect();
    names.sort();
    names
}

/// Opens the node that a name leads to, for its attributes.
fn found(directory: &Arc<dyn Node>, text: &str) -> crate::Result<Arc<dyn Node>> {
    directory.lookup(&name(text), OpenHow::Attributes)
}

#[cfg(test)]
mod memory {
    use crate::memory::MemoryVolume;

    conformance_tests!((MemoryVolume::new(1), ()));
}

#[cfg(test)]
mod faulty {
    use std::sync::Arc;

    use crate::faulty::FaultyVolume;
    use crate::memory::MemoryVolume;

    conformance_tests!((FaultyVolume::new(Arc::new(MemoryVolume::new(1))), ()));
}

#[cfg(test)]
mod metered {
    use std::sync::Arc;

    use crate::memory::MemoryVolume;
    use crate::metered::MeteredVolume;

    conformance_tests!((MeteredVolume::new(Arc::new(MemoryVolume::new(1)), None, None), ()));
}
