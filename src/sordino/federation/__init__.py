"""A federation over a network: sites that enforce their own budgets, and an operator whom they need not trust."""
