"""The common parts of the foreign suites: starting a server (`server.py`) and counting results (`tally.py`)."""
