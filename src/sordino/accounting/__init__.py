"""What a mechanism costs in privacy: events, accountants, calibration and closed forms.

Every number that Sordino says about privacy comes from here. The accountants of record are dp-accounting's.
"""

from sordino.accounting.accountants import Accountant, PldAccountant, RdpAccountant, Spend, accountant
from sordino.core.relations import Relation

__all__ = ["Accountant", "PldAccountant", "RdpAccountant", "Relation", "Spend", "accountant"]
