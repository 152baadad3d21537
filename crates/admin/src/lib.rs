//! Layer 5: status and the control socket.
