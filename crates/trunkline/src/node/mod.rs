//! This machine as one node of a virtual server that moves between machines (`trunkline node`).
//!
//! A virtual server is a state directory with its addresses, names and shares. [`store`] asks for the tenure:
//! the right to own it. [`driver`] carries out what the state machine of `tenure::ownership` decides: it
//! waits for the tenure, fences the former owner ([`fence`]), serves ([`crate::serve`]) under a [`session`],
//! and ends at once when the term is over. [`socket`] takes the requests of `trunkline node status`, `move`
//! and of the programs that decide for an external tenure. docs/cluster.md says what fails how.

mod address_record;
mod addresses;
mod driver;
pub mod failure;
pub mod fence;
pub mod session;
pub mod socket;
pub mod store;

pub use driver::run;
