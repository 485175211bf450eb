"""What `python -m search` can be told to do."""
