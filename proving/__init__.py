"""The proofs of Trunkline against foreign clients and servers. README.md describes each folder."""
