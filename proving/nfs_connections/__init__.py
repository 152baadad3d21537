"""Many connections of one NFS session, in whole messages."""
