"""Flower as the network: the app that both ends run, and the processes around it."""
