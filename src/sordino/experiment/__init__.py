"""From a recipe to a record: populations, runs, the account that is charged first, results."""
