"""The command line: thin; the only place where a string chooses behaviour."""
