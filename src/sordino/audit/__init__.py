"""Proof by attack: canaries inserted by coins, guesses about them, and the lower bounds that those prove."""

from sordino.audit.canaries import Kind
from sordino.audit.findings import Audit, Finding
from sordino.audit.mechanism import View, audit_clients
from sordino.audit.models import audit_models
from sordino.audit.records import audit_records
from sordino.audit.run import Attack, audit, audit_recipe, audit_run

__all__ = [
    "Attack",
    "Audit",
    "Finding",
    "Kind",
    "View",
    "audit",
    "audit_clients",
    "audit_models",
    "audit_recipe",
    "audit_records",
    "audit_run",
]
