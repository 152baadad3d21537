"""What proves Trunkline beside foreign clients and servers. README.md says what is in each folder."""
