"""Names and small types that everything else stands on: errors, random streams, flat vectors, files."""
