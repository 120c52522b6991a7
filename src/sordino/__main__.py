"""`python -m sordino` is `sordino`."""

from sordino.cli.main import main

main()
