//! Layer 4: user-space clients with several channels.
