//! A table of SIDs and ids, one account a line: `user S-1-5-21-1-2-3-1104 5000` or `group S-1-... 6000`.

use std::collections::HashMap;

use volume::security::Sid;

use super::{IdKind, MappingError};

/// A table of SIDs and ids. No SID and no id of a kind stands in it twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdTable {
    ids: HashMap<(IdKind, Sid), u32>,
    sids: HashMap<(IdKind, u32), Sid>,
}

impl IdTable {
    /// Reads the text of a table. A `#` begins a comment.
    ///
    /// # Errors
    /// [`MappingError::Table`] with the first wrong line.
    pub fn parse(text: &str) -> Result<IdTable, MappingError> {
        let mut table = IdTable::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.split_once('#').map_or(line, |(front, _)| front).trim();
            if !line.is_empty() {
                table.add(line).map_err(|reason| MappingError::Table { line: at + 1, reason })?;
            }
        }
        Ok(table)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let [kind, sid, id] = parts[..] else {
            return Err("not of the form `user SID uid` or `group SID gid`".to_owned());
        };
        let kind = match kind {
            "user" => IdKind::User,
            "group" => IdKind::Group,
            other => return Err(format!("`{other}` is neither `user` nor `group`")),
        };
        let sid: Sid = sid.parse().map_err(|e| format!("`{sid}`: {e}"))?;
        let id: u32 = id
            .parse()
            .ok()
            .filter(|id| (1..u32::MAX).contains(id))
            .ok_or_else(|| format!("`{id}` is no id; use a number from 1 to 4294967294"))?;
        if let Some(other) = self.sids.insert((kind, id), sid) {
            return Err(format!("the id {id} belongs to {other} already"));
        }
        match self.ids.insert((kind, sid), id) {
            Some(other) => Err(format!("{sid} has the id {other} already")),
            None => Ok(()),
        }
    }

    pub(super) fn id(&self, sid: &Sid, kind: IdKind) -> Option<u32> {
        self.ids.get(&(kind, *sid)).copied()
    }

    pub(super) fn sid(&self, id: u32, kind: IdKind) -> Option<Sid> {
        self.sids.get(&(kind, id)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_ids_and_refuses_two_owners() {
        let table = IdTable::parse("# ours\nuser S-1-5-21-1-2-3-4 500 # bob\n\ngroup S-1-5-21-1-2-3-5 500\n");
        let table = table.unwrap();
        let bob = Sid::new(5, &[21, 1, 2, 3, 4]);
        assert_eq!((table.id(&bob, IdKind::User), table.id(&bob, IdKind::Group)), (Some(500), None));
        assert_eq!(table.sid(500, IdKind::User), Some(bob));
        let line = |text: &str| match IdTable::parse(text) {
            Err(MappingError::Table { line, reason }) => (line, reason),
            other => panic!("{other:?}"),
        };
        let (at, reason) = line("user S-1-1-0 5\nuser S-1-1-1 5");
        assert!(at == 2 && reason.contains("belongs to S-1-1-0"), "{reason}");
        assert!(line("user S-1-1-0 5\nuser S-1-1-0 6").1.contains("has the id 5"));
        for bad in ["user S-1-1-0 0", "user S-1-1-0 4294967295", "x S-1-1-0 5", "user S-1 5", "user 5"] {
            assert_eq!(line(bad).0, 1, "{bad}");
        }
    }
}
