//! What operations do over several parts: reading what is known of a file, recording, asking holders to give way, telling whoever is
//! concerned, ending what is kept for clients that are gone.
//!
//! | file | subject |
//! |---|---|
//! | `since` | whether what was read is still so |
//! | `records`, `access`, `facts` | what is stored with a file, who may do what, and both in one step |
//! | `recording` | opens that outlive the process, recorded |
//! | `shortage`, `parked` | what needs a descriptor when there may be none left; requests that wait |
//! | `breaks` | caching rights: given, wanted back, taken away. Nobody is told here |
//! | `notices`, `changes`, `close`, `absent`, `lapsed` | who is told, and what ends by it. One circle: who hears of a break may be gone, so that its open is closed, of which others hear |
//! | `conflicts`, `acknowledgments` | asking holders before something is done, and what they say |
//! | `relief`, `fairness` | what is given up when something is short, and who gets what is left |
//! | `host`, `untold`, `upkeep` | what others do on the host, and what time brings |
//! | `accounting`, `usage` | limits and counts; what lies on the share |

pub(crate) mod absent;
pub(crate) mod access;
pub(crate) mod accounting;
pub(crate) mod acknowledgments;
pub(crate) mod breaks;
pub(crate) mod changes;
pub(crate) mod close;
pub(crate) mod conflicts;
pub(crate) mod facts;
pub(crate) mod fairness;
pub(crate) mod host;
pub(crate) mod lapsed;
pub(crate) mod notices;
pub(crate) mod parked;
pub(crate) mod recording;
pub(crate) mod records;
pub(crate) mod relief;
pub(crate) mod shortage;
pub(crate) mod since;
pub(crate) mod untold;
pub(crate) mod upkeep;
pub(crate) mod usage;
