"""The durable ledger: what each client may spend in a window of data, and what was charged for it."""

from sordino.accounting.ledger.bills import Charge, Cost, OpenCost, Receipt, Reservation
from sordino.accounting.ledger.enrolment import OpenAccount
from sordino.accounting.ledger.ledger import Enrolment, Ledger
from sordino.accounting.ledger.verify import Verification
from sordino.accounting.ledger.views import RunRecord, Spent

__all__ = [
    "Charge",
    "Cost",
    "Enrolment",
    "Ledger",
    "OpenAccount",
    "OpenCost",
    "Receipt",
    "Reservation",
    "RunRecord",
    "Spent",
    "Verification",
]
