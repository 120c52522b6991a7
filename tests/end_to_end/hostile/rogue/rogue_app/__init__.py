"""What a rogue operator ships: Flower runs it at both ends, as the users of the SuperLink and of the SuperNode."""
