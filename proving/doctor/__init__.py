"""Faults that `trunkline doctor` is to name, and sound set-ups."""
