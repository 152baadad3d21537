"""What the foreign suites share: starting a server (`server.py`) and counting results (`tally.py`)."""
