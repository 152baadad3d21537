//! The recycle folder of a share: its rules from the configuration, and its numbers for metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use admin::transactions::Recycle;
use share::{FinalRemoval, RecycleRules, RecycleSummary};
use volume::Name;

use crate::config::Share;

/// The number of entries of a recycle folder that one tick looks at.
pub const STEP: usize = 256;

/// The names that the Linux client gives to removed files that it has open: `.nfs` with 24 hexadecimal
/// digits. It removes them when it closes the files, and no user would look for such a name.
const SILLY_NAMES: &str = ".nfs????????????????????????";

/// The rules of a share; none if it keeps no removed files.
pub fn rules(share: &Share) -> Option<RecycleRules> {
    if !share.recycle.value {
        return None;
    }
    let most_bytes = share.recycle_gib.value << 30;
    let days = share.recycle_days.value;
    let patterns = share.recycle_exclude.value.iter().cloned();
    Some(RecycleRules {
        folder: Name::new(share.recycle_folder.value.as_bytes()).ok()?,
        keep_for: (days > 0).then(|| Duration::from_secs(days * 86_400)),
        most_bytes,
        largest_file: share.recycle_max_file_mib.as_ref().map_or(most_bytes, |mib| mib.value << 20),
        excluded: patterns.chain([SILLY_NAMES.to_owned()]).collect(),
    })
}

/// The numbers of a recycle folder in the form of the metrics.
pub fn shown(summary: RecycleSummary) -> Recycle {
    let RecycleSummary { files, bytes, kept, purged, removed } = summary;
    let words = FinalRemoval::ALL.iter().map(|why| why.word().to_owned());
    let removed: BTreeMap<String, u64> = words.zip(removed).collect();
    Recycle { files, bytes, kept, purged, removed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_removed_files_that_are_open_are_never_kept() {
        let text = "[share.docs]\npath = \"/tmp\"\nrecycle = true\nrecycle_exclude = []\nrecycle_days = 0\n";
        let config = crate::config::read::parse("t.toml", text, std::path::Path::new("/")).unwrap();
        let rules = rules(&config.shares["docs"]).unwrap();
        assert_eq!(rules.excluded, [SILLY_NAMES]);
        assert_eq!(SILLY_NAMES.len(), ".nfs".len() + 24);
        assert_eq!((rules.keep_for, rules.most_bytes, rules.largest_file), (None, 10 << 30, 10 << 30));
    }
}
