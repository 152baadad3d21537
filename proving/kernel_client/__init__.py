"""Linux's own SMB and NFS clients in guests."""
