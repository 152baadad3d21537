"""The packages, installed on machines in guests."""
