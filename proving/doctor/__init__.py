"""Faults that `trunkline doctor` must name, and sound set-ups."""
