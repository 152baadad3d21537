//! Giving files back to the volume behind the answer, where somebody does that.
//!
//! A store far away is asked for each file that is given back, and with metadata caching on nobody need wait for that: the open
//! is over for everybody when [`crate::engine::Share::close`] says so, and what is left is the descriptor. Whoever runs the engine may
//! take it over ([`GiveBack`]).

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use volume::Node;

/// Who gives files back that nobody has open any more.
pub trait GiveBack: Send + Sync {
    /// Drops a node that nobody else has, now or soon.
    fn give_back(&self, node: Arc<dyn Node>);
}

/// The node of an open, given back with it.
pub(crate) struct Held {
    node: Option<Arc<dyn Node>>,
    behind: OnceLock<Arc<dyn GiveBack>>,
}

impl Held {
    /// Nobody waits for it to be given back.
    pub fn give_back_by(&self, by: Arc<dyn GiveBack>) {
        let _was_said = self.behind.set(by);
    }
}

impl From<Arc<dyn Node>> for Held {
    fn from(node: Arc<dyn Node>) -> Held {
        Held { node: Some(node), behind: OnceLock::new() }
    }
}

impl Deref for Held {
    type Target = Arc<dyn Node>;

    fn deref(&self) -> &Arc<dyn Node> {
        self.node.as_ref().expect("it is taken out when this is dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Where somebody else has it too, they will give it back.
        if let Some(by) = self.behind.get()
            && let Some(node) = self.node.take_if(|node| Arc::strong_count(node) == 1)
        {
            by.give_back(node);
        }
    }
}
