"""The admin page in Chromium."""
