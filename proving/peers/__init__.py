"""Other people's SMB and NFS clients."""
