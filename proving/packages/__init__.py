"""The packages: what is in them, and what they do on a machine."""
