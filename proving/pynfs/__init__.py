"""The NFSv4.1 suite pynfs."""
