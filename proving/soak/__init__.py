"""The long counts of runs that must never fail."""
