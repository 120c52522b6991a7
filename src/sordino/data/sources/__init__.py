"""The loaders, one format a file."""
