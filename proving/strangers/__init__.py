"""Strangers at the door, and how ordinary clients fare beside them."""
