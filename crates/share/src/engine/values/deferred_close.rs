//! Closing files of the volume after the reply to the client, if a thread does that.
//!
//! A remote store needs a request for each file that is closed. With metadata caching on no client need wait
//! for that: the open is over for all when [`crate::engine::Share::close`] returns, and only the descriptor
//! is left. The code that runs the engine may close it ([`DeferredClose`]).

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use volume::Node;

/// Closes files that are no longer open.
pub trait DeferredClose: Send + Sync {
    /// Drops a node without other references, now or soon.
    fn give_back(&self, node: Arc<dyn Node>);
}

/// The node of an open, which is closed with it.
pub(crate) struct OpenNode {
    node: Option<Arc<dyn Node>>,
    behind: OnceLock<Arc<dyn DeferredClose>>,
}

impl OpenNode {
    /// Has the node closed by `by`, so that no client waits for that.
    pub fn give_back_by(&self, by: Arc<dyn DeferredClose>) {
        let _was_said = self.behind.set(by);
    }
}

impl From<Arc<dyn Node>> for OpenNode {
    fn from(node: Arc<dyn Node>) -> OpenNode {
        OpenNode { node: Some(node), behind: OnceLock::new() }
    }
}

impl Deref for OpenNode {
    type Target = Arc<dyn Node>;

    fn deref(&self) -> &Arc<dyn Node> {
        self.node.as_ref().expect("it is taken out when this is dropped")
    }
}

impl Drop for OpenNode {
    fn drop(&mut self) {
        // If there is another reference, its owner closes the node.
        if let Some(by) = self.behind.get()
            && let Some(node) = self.node.take_if(|node| Arc::strong_count(node) == 1)
        {
            by.give_back(node);
        }
    }
}
