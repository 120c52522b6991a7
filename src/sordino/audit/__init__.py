"""Proof by attack: canaries inserted by coins, guesses about them, and the lower bounds that those prove."""

from sordino.audit.findings import Audit, Finding
from sordino.audit.mechanism import View, audit_mechanism

__all__ = ["Audit", "Finding", "View", "audit_mechanism"]
