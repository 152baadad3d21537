"""Server CPU for an operation and rates, beside other servers."""
