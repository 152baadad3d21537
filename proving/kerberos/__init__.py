"""Real Kerberos realms, and the server in them."""
