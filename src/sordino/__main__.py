"""`sordino`, and `python -m sordino`: from the first moment on, Ctrl-C is one line."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The command; loading it takes a second or two, and may be interrupted, too."""
    try:
        from sordino.cli.main import main as command
    except KeyboardInterrupt:
        print("sordino: stopped", file=sys.stderr, flush=True)
        os._exit(1)  # nothing has begun; what was half loaded must not speak
    command()


if __name__ == "__main__":
    main()
