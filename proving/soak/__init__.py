"""The long counts of what must never fail."""
