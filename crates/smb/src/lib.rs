//! Layer 3: the SMB server as a state machine.
