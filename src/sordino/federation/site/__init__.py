"""A site: the data holder's own process, with the data, the ledger and the policy."""
