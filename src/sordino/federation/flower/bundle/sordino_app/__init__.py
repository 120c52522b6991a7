"""The app that Flower runs: it carries bytes, and understands none of them."""
