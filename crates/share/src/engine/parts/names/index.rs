//! Names without regard to case: folding, and the index of one directory.
//!
//! Folding is [`wire::fold`]'s, one character to one. Names that are not UTF-8 compare as they are. An index
//! leads from a folded name to the real ones. A scan makes it when an exact name was not found. Every change
//! from then on updates it.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use volume::{Name, Time};
use wire::fold::fold;

/// Whether two names are the same but for case.
pub(crate) fn same_folded(a: &[u8], b: &[u8]) -> bool {
    if a == b || a.eq_ignore_ascii_case(b) {
        return true;
    }
    match (std::str::from_utf8(a), std::str::from_utf8(b)) {
        (Ok(a), Ok(b)) => a.chars().map(fold).eq(b.chars().map(fold)),
        _ => false,
    }
}

/// Whether another name could be the same but for case.
pub(crate) fn has_case(name: &[u8]) -> bool {
    match std::str::from_utf8(name) {
        Ok(text) => text.chars().any(|c| c.is_ascii_alphabetic() || !c.is_ascii()),
        Err(_) => false,
    }
}

/// The times of a directory at which an index was right, if changes by others are not reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryTimes {
    pub modified: Time,
    pub changed: Time,
}

/// The real names behind one hash.
#[derive(Debug)]
enum FoldedNames {
    One(Name),
    Many(Vec<Name>),
}

/// The names of one directory by their folded form.
#[derive(Debug)]
pub(crate) struct Index {
    slots: HashMap<u64, FoldedNames>,
    hasher: RandomState,
    len: usize,
    /// The number of names in this and all other indexes and listings.
    all: Arc<AtomicUsize>,
    /// The times at which it was right, if it must be compared.
    pub stamp: Option<DirectoryTimes>,
}

impl Index {
    /// An empty index, whose names are counted in `all`.
    pub fn new(stamp: Option<DirectoryTimes>, all: &Arc<AtomicUsize>) -> Index {
        let all = Arc::clone(all);
        Index { slots: HashMap::new(), hasher: RandomState::new(), len: 0, all, stamp }
    }

    /// Whether another name may be added, if all indexes together may have `most` names. The index that has
    /// most of them is not bounded.
    pub fn may_grow(&self, most: usize) -> bool {
        let all = self.all.load(Ordering::Relaxed);
        all < most || self.len > all / 2
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.len
    }

    fn hash(&self, name: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        match std::str::from_utf8(name) {
            Ok(text) => text.chars().for_each(|c| hasher.write_u32(u32::from(fold(c)))),
            Err(_) => hasher.write(name),
        }
        hasher.finish()
    }

    /// Adds a name. It is no error if the name is there already.
    pub fn insert(&mut self, name: &Name) {
        match self.slots.entry(self.hash(name.as_bytes())) {
            Entry::Vacant(vacant) => {
                vacant.insert(FoldedNames::One(name.clone()));
            }
            Entry::Occupied(mut slot) => match slot.get_mut() {
                FoldedNames::One(one) if one == name => return,
                FoldedNames::One(one) => {
                    let both = vec![one.clone(), name.clone()];
                    slot.insert(FoldedNames::Many(both));
                }
                FoldedNames::Many(many) if many.contains(name) => return,
                FoldedNames::Many(many) => many.push(name.clone()),
            },
        }
        self.len += 1;
        self.all.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a name. It is no error if the name is not there.
    pub fn remove(&mut self, name: &Name) {
        let Entry::Occupied(mut slot) = self.slots.entry(self.hash(name.as_bytes())) else {
            return;
        };
        let is_last = match slot.get_mut() {
            FoldedNames::One(one) if one == name => true,
            FoldedNames::One(_) => return,
            FoldedNames::Many(many) => {
                let before = many.len();
                many.retain(|one| one != name);
                if many.len() == before {
                    return;
                }
                many.is_empty()
            }
        };
        if is_last {
            slot.remove();
        }
        self.len -= 1;
        self.all.fetch_sub(1, Ordering::Relaxed);
    }

    /// The real names that are `name` but for case; the exact one first.
    pub fn find(&self, name: &Name) -> Vec<Name> {
        let candidates: &[Name] = match self.slots.get(&self.hash(name.as_bytes())) {
            None => &[],
            Some(FoldedNames::One(one)) => std::slice::from_ref(one),
            Some(FoldedNames::Many(many)) => many,
        };
        let fits = |one: &&Name| same_folded(one.as_bytes(), name.as_bytes());
        let mut found: Vec<Name> = candidates.iter().filter(fits).cloned().collect();
        found.sort_by_key(|one| one != name);
        found
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.all.fetch_sub(self.len, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn folding_is_one_character_to_one() {
        assert!(same_folded("Straße".as_bytes(), "STRAßE".as_bytes()));
        assert!(!same_folded("Straße".as_bytes(), "STRASSE".as_bytes()));
        assert!(same_folded("ÄÖÜ Ω".as_bytes(), "äöü ω".as_bytes()));
        assert!(!same_folded(b"\xff\xe4", b"\xff\xc4"));
        assert!(has_case(b"a1") && has_case("é".as_bytes()) && !has_case(b"12-3.4_"));
    }

    #[test]
    fn an_index_finds_every_spelling_and_the_exact_one_first() {
        let all = Arc::default();
        let mut index = Index::new(None, &all);
        for text in ["Readme", "README", "other", "Readme"] {
            index.insert(&name(text));
        }
        assert_eq!(index.len(), 3);
        assert_eq!(index.find(&name("README")), [name("README"), name("Readme")]);
        assert_eq!(index.find(&name("readme")), [name("Readme"), name("README")]);
        index.remove(&name("Readme"));
        index.remove(&name("readme"));
        assert_eq!(index.find(&name("readme")), [name("README")]);
        index.remove(&name("README"));
        assert_eq!((index.find(&name("readme")).len(), index.len()), (0, 1));
        assert_eq!(all.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn indexes_have_names_together_of_which_one_may_have_any_number() {
        let all = Arc::default();
        let [mut large, mut small] = [(); 2].map(|()| Index::new(None, &all));
        (0..5).for_each(|n| large.insert(&name(&n.to_string())));
        assert!(large.may_grow(6) && small.may_grow(6));
        small.insert(&name("a"));
        assert!(large.may_grow(6) && !small.may_grow(6));
        drop(large);
        assert_eq!(all.load(Ordering::Relaxed), 1);
        assert!(small.may_grow(6));
    }
}
