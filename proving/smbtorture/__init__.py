"""Samba's suite smbtorture."""
