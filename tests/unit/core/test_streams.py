"""Random streams depend on what they are for, and on nothing else."""

import numpy as np

from sordino.core.streams import Streams


def test_same_key_same_draws_whatever_was_drawn_before():
    streams = Streams(3)
    first = streams.generator("noise", 1, 2).standard_normal(5)
    streams.generator("cohort", 1).standard_normal(100)
    assert np.array_equal(first, streams.generator("noise", 1, 2).standard_normal(5))


def test_seed_purpose_and_every_key_matter():
    def draw(seed: int, purpose: str, *keys: int) -> float:
        return float(Streams(seed).generator(purpose, *keys).random())

    draws = [draw(0, "a", 1, 2), draw(1, "a", 1, 2), draw(0, "b", 1, 2), draw(0, "a", 2, 1), draw(0, "a", 12)]
    assert len(set(draws)) == len(draws)


def test_seed_zero_is_a_seed():
    assert Streams(0).integer("model") == Streams(0).integer("model") != Streams(1).integer("model")


def test_streams_of_neighbouring_clients_are_uncorrelated():
    rows = np.stack([Streams(0).generator("client", 0, client).standard_normal(2000) for client in range(50)])
    correlation = np.corrcoef(rows)[np.triu_indices(50, 1)]
    assert np.abs(correlation).max() < 6 / np.sqrt(2000)
