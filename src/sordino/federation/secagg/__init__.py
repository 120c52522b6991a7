"""Secure aggregation: a server learns the sum of what sites send, and of no fewer than a threshold of them.

Pure state machines for a site and for the server of one round, and messages that are bytes; who carries them is
of no concern here. Needs `cryptography` (extra `flower`) and NumPy, and not PyTorch.
"""

from sordino.federation.secagg.identity import Identity, Roster
from sordino.federation.secagg.reasons import Reason, Refused, SecureAggregationError, Void
from sordino.federation.secagg.server import Server, Total
from sordino.federation.secagg.site import Site, SiteState
from sordino.federation.secagg.terms import RoundTerms

__all__ = [
    "Identity",
    "Reason",
    "Refused",
    "Roster",
    "RoundTerms",
    "SecureAggregationError",
    "Server",
    "Site",
    "SiteState",
    "Total",
    "Void",
]
