"""The pictures of the documents."""
