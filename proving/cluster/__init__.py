"""A share that outlives its machine: two nodes on Ceph or a shared disk, under Linux's own clients."""
