"""Who allows how much: budgets, populations in columns, groups, and distributions to draw budgets from."""

from sordino.budgets.budget import PUBLIC, Budget, Unit
from sordino.budgets.population import BudgetWarning, Population, Tiers

__all__ = ["PUBLIC", "Budget", "BudgetWarning", "Population", "Tiers", "Unit"]
