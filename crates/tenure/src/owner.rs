//! The owners of a virtual server, as the tenure store records them for the next owner.

use serde::{Deserialize, Serialize};

/// The number of a tenure. Each owner has a higher one than all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// One owner, with all that the next one needs in order to fence it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeOwner {
    /// The name of the node.
    pub node: String,
    /// The id of the node's boot (`/proc/sys/kernel/random/boot_id`). A later boot is another one.
    pub boot_id: String,
    /// The name of the machine, for messages and for the fence. Empty in records of older programs.
    #[serde(default)]
    pub host: String,
    /// The id of the machine's installation (machine-id(5)). Empty if it has none.
    #[serde(default)]
    pub machine_id: String,
    /// The epoch that the owner had.
    pub epoch: Epoch,
    /// The clients of the storage through which the owner writes, such as the addresses of Ceph
    /// clients.
    #[serde(default)]
    pub storage_clients: Vec<String>,
}

impl NodeOwner {
    /// Whether this owner was on the same boot of the same node as `other`. Such an owner shares the
    /// storage
    /// clients of the host, so fencing it would fence both.
    #[must_use]
    pub fn shares_boot_with(&self, other: &NodeOwner) -> bool {
        self.node == other.node && self.boot_id == other.boot_id
    }

    /// Whether this owner has the name of `other`, and was on another machine, or on the same machine before
    /// that was installed anew or got another name. Cloned machines have one id, so the names of machines
    /// count too. An empty field tells nothing.
    #[must_use]
    pub fn shares_only_name_with(&self, other: &NodeOwner) -> bool {
        let differs = |ours: &str, theirs: &str| !ours.is_empty() && !theirs.is_empty() && ours != theirs;
        let is_elsewhere = differs(&self.machine_id, &other.machine_id) || differs(&self.host, &other.host);
        self.node == other.node && is_elsewhere
    }
}

/// An attempt of a node to serve that has failed. The node has given the tenure back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// The name of the node.
    pub node: String,
    /// The epoch that it had.
    pub epoch: Epoch,
    /// The reason, in one line.
    pub why: String,
}

/// The longest reason of a failure that a record keeps, in characters.
const LONGEST_REASON: usize = 1000;

/// The record of a virtual server in the tenure store.
///
/// It stays when an owner is gone. The store changes it in the same atomic step in which it gives a
/// tenure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TenureRecord {
    /// The GUID of the state directory that this virtual server has. Empty before its first owner.
    #[serde(default)]
    pub guid: String,
    /// The epoch of the last owner.
    pub epoch: Epoch,
    /// The last owner, or none after a clean release.
    #[serde(default)]
    pub owner: Option<NodeOwner>,
    /// Earlier owners that nobody has fenced yet. An owner may end before it has fenced the one before
    /// it.
    #[serde(default)]
    pub unfenced: Vec<NodeOwner>,
    /// The node that a planned move goes to. Other nodes leave it the time of a term.
    #[serde(default)]
    pub reserved_for: Option<String>,
    /// Whether the owner serves clients. It does not yet while it fences and starts.
    #[serde(default)]
    pub is_serving: bool,
    /// The last attempt to serve after which a node gave the tenure back.
    #[serde(default)]
    pub failed: Option<FailedAttempt>,
}

impl TenureRecord {
    /// The record after `owner` has taken the tenure: the epoch is counted up, and the former owner joins
    /// those that nobody has fenced.
    #[must_use]
    pub fn taken_by(mut self, mut owner: NodeOwner) -> TenureRecord {
        self.epoch = Epoch(self.epoch.0 + 1);
        owner.epoch = self.epoch;
        if let Some(former) = self.owner.take() {
            let is_same = |other: &NodeOwner| {
                former.shares_boot_with(other) && former.storage_clients == other.storage_clients
            };
            if !self.unfenced.iter().any(is_same) {
                self.unfenced.push(former);
            }
        }
        self.reserved_for = None;
        self.is_serving = false;
        self.owner = Some(owner);
        self
    }

    /// The owners that the present one must fence. One on the same boot needs no fence: the host's lock has
    /// shown that its process is gone, and what it wrote is seen by who reads the journal on the same host.
    #[must_use]
    pub fn to_fence(&self) -> Vec<NodeOwner> {
        self.unfenced.iter().filter(|former| !self.is_here(former)).cloned().collect()
    }

    /// The record after the present owner has fenced [`TenureRecord::to_fence`]. Those on its own boot stay
    /// until it has read the journal. If it never does, the next owner must fence them.
    #[must_use]
    pub fn fenced(mut self) -> TenureRecord {
        let unfenced = std::mem::take(&mut self.unfenced);
        self.unfenced = unfenced.into_iter().filter(|former| self.is_here(former)).collect();
        self
    }

    /// The record after the present owner has fenced the others and read the journal. It serves.
    #[must_use]
    pub fn started(mut self) -> TenureRecord {
        self.unfenced.clear();
        self.is_serving = true;
        self
    }

    fn is_here(&self, former: &NodeOwner) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.shares_boot_with(former))
    }

    /// The record after a clean release. The released owner has nothing left to write.
    #[must_use]
    pub fn released(mut self, to: Option<String>) -> TenureRecord {
        self.owner = None;
        self.is_serving = false;
        self.reserved_for = to;
        self
    }

    /// The record after the present owner could not serve, for this reason. Its next step is the release.
    #[must_use]
    pub fn after_failure(mut self, why: &str) -> TenureRecord {
        let why = why.chars().take(LONGEST_REASON).collect();
        let of = |owner: &NodeOwner| FailedAttempt { node: owner.node.clone(), epoch: owner.epoch, why };
        self.failed = self.owner.as_ref().map(of);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(node: &str, boot: &str) -> NodeOwner {
        NodeOwner { node: node.into(), boot_id: boot.into(), ..NodeOwner::default() }
    }

    #[test]
    fn one_name_on_two_machines_is_noticed_and_a_restart_is_not() {
        let on = |machine: &str, boot: &str| NodeOwner { machine_id: machine.into(), ..owner("a", boot) };
        assert!(on("m", "1").shares_only_name_with(&on("n", "2")));
        for (machine, node) in [("m", "a"), ("", "a"), ("n", "b")] {
            let other = NodeOwner { node: node.into(), ..on(machine, "2") };
            assert!(!on("m", "1").shares_only_name_with(&other), "{machine} {node}");
        }
    }

    #[test]
    fn a_record_says_whether_its_owner_serves_and_who_has_failed() {
        let first = TenureRecord::default().taken_by(owner("a", "1"));
        assert!(!first.is_serving && first.clone().started().is_serving);
        assert!(!first.clone().started().released(None).is_serving);
        assert!(!first.clone().started().taken_by(owner("b", "2")).is_serving);
        let next = first.after_failure("no disk").released(None).taken_by(owner("b", "2")).started();
        let failed = FailedAttempt { node: "a".into(), epoch: Epoch(1), why: "no disk".into() };
        assert_eq!(next.failed, Some(failed));
    }

    #[test]
    fn every_owner_that_nobody_fenced_is_handed_on() {
        let first = TenureRecord::default().taken_by(owner("a", "1"));
        assert_eq!((first.epoch, first.unfenced.len()), (Epoch(1), 0));
        let second = first.taken_by(owner("b", "2"));
        // The second owner ended before it had fenced the first.
        let third = second.taken_by(owner("c", "3"));
        let names: Vec<_> = third.unfenced.iter().map(|former| former.node.as_str()).collect();
        assert_eq!((third.epoch, names), (Epoch(3), vec!["a", "b"]));
        assert!(third.clone().fenced().unfenced.is_empty());
        // It may end before it has fenced them.
        assert_eq!(third.taken_by(owner("d", "4")).to_fence().len(), 3);
    }

    #[test]
    fn an_owner_on_the_same_boot_is_not_fenced_and_one_of_an_earlier_boot_is() {
        let first = TenureRecord::default().taken_by(owner("a", "1"));
        let again = first.clone().taken_by(owner("a", "1"));
        assert!(again.to_fence().is_empty());
        assert!(again.clone().started().unfenced.is_empty());
        assert_eq!(first.taken_by(owner("a", "2")).to_fence().len(), 1);
        // It could not read the journal, such as for lack of the storage: what was under way may arrive.
        let next = again.fenced().released(None).taken_by(owner("b", "3"));
        assert_eq!(next.to_fence().len(), 1);
    }

    #[test]
    fn a_clean_release_leaves_nobody_to_fence() {
        let released = TenureRecord::default().taken_by(owner("a", "1")).released(Some("b".into()));
        assert_eq!(released.reserved_for.as_deref(), Some("b"));
        let next = released.taken_by(owner("b", "2"));
        assert_eq!((next.epoch, next.unfenced.len(), next.reserved_for), (Epoch(2), 0, None));
    }
}
