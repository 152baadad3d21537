"""Hostile clients (strangers), and the service of ordinary clients beside them."""
