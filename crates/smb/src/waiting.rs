//! The requests of one connection that wait, and how much memory they keep.

use std::collections::HashMap;

use crate::suspend::Suspended;

/// By the async id of each.
#[derive(Default)]
pub(crate) struct Waiting {
    requests: HashMap<u64, (Suspended, usize)>,
    bytes: usize,
}

impl Waiting {
    /// Puts a request aside.
    pub(crate) fn insert(&mut self, async_id: u64, request: Suspended) {
        let bytes = request.keeps();
        self.bytes += bytes;
        self.requests.insert(async_id, (request, bytes));
    }

    /// Takes one out.
    pub(crate) fn remove(&mut self, async_id: &u64) -> Option<Suspended> {
        let (request, bytes) = self.requests.remove(async_id)?;
        self.bytes -= bytes;
        Some(request)
    }

    /// Takes all of them out.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (u64, Suspended)> + use<> {
        let all = std::mem::take(self);
        all.requests.into_iter().map(|(async_id, (request, _))| (async_id, request))
    }

    /// One of them.
    pub(crate) fn get(&self, async_id: &u64) -> Option<&Suspended> {
        self.requests.get(async_id).map(|(request, _)| request)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u64, &Suspended)> {
        self.requests.iter().map(|(async_id, (request, _))| (async_id, request))
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Bytes that they keep.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Suspended {
    /// Bytes that it keeps, itself included.
    fn keeps(&self) -> usize {
        let signatures = self.signatures.capacity() * size_of::<[u8; 16]>();
        size_of::<Suspended>() + self.rest.capacity() + self.compound.frame.held() + signatures
    }
}
