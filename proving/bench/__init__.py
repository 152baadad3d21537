"""The server's CPU for each operation, and its rates, compared with other servers."""
