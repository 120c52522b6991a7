"""Every partition deals what it promises, the same for the same seed."""

import numpy as np
import pytest
import torch

from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.data import DataSet, Dealt, Examples, Partition, deal, manifest, partitions
from sordino.data.partitions.dirichlet import dirichlet_sized
from sordino.data.partitions.iid import iid
from sordino.data.partitions.similarity import similarity
from sordino.data.partitions.sizes import apportion, equal, uniform

CLASSES = 10
N = 5000


def data_of(labels: np.ndarray) -> DataSet:
    examples = Examples(torch.zeros(len(labels), 1), torch.from_numpy(labels), CLASSES)
    owner = np.repeat(np.arange(100), len(labels) // 100)[np.random.default_rng(1).permutation(len(labels))]
    return DataSet("made up", examples, examples.take(slice(0, 1)), owner, tuple(f"c{k}" for k in range(100)))


DATA = data_of(np.random.default_rng(0).permutation(np.arange(N) % CLASSES))
LABELS = DATA.train.y.numpy()

EVERY = {
    "iid": {"clients": 37},
    "iid sized": {"clients": 37, "sizes": [0.5, 1.5]},
    "similarity": {"clients": 37, "similarity": 30.0},
    "dirichlet": {"clients": 37, "alpha": 1.0},
    "dirichlet sized": {"clients": 37, "alpha": 0.1, "sizes": [1, 1]},
    "class-counts": {"clients": 37, "counts": [23, 23, 3, 3, 3, 3, 3, 3, 3, 3]},
    "natural": {},
    "lazy": {"clients": 37, "size": 12},
    "lazy skewed": {"clients": 37, "size": 12, "alpha": 0.1},
}


def made(case: str, seed: int = 0, data: DataSet = DATA) -> Partition:
    return deal(case.partition(" ")[0], data, Streams(seed), **EVERY[case])


def histogram(partition: Partition, data: DataSet = DATA) -> np.ndarray:
    labels = data.train.y.numpy()
    return np.stack(
        [np.bincount(labels[partition.indices(k)], minlength=CLASSES) for k in range(partition.clients)]
    )


def skew(partition: Partition) -> float:
    """Mean total variation between a client's mix of classes and the population's."""
    counts = histogram(partition)
    return float(np.abs(counts / counts.sum(axis=1, keepdims=True) - 1 / CLASSES).sum(axis=1).mean() / 2)


def test_every_named_partition_is_tried_here():
    assert {case.partition(" ")[0] for case in EVERY} == set(partitions())


@pytest.mark.parametrize("case", EVERY)
def test_contract(case: str):
    partition = made(case)
    assert partition.sizes.dtype == np.int64
    assert partition.sizes.shape == (partition.clients,)
    held = [partition.indices(k) for k in range(partition.clients)]
    assert [len(indices) for indices in held] == partition.sizes.tolist()
    assert partition.sizes.min() >= 1
    for indices in held:
        assert indices.dtype == np.int64
        assert len(np.unique(indices)) == len(indices)
    together = np.concatenate(held)
    assert 0 <= together.min() <= together.max() < N
    if not case.startswith("lazy"):
        assert len(np.unique(together)) == len(together)  # no example has two clients
    for wrong in (-1, partition.clients):
        with pytest.raises(UsageError, match=f"client {wrong} does not exist"):
            partition.indices(wrong)


@pytest.mark.parametrize("case", EVERY)
def test_a_seed_and_nothing_else_decides(case: str):
    np.random.seed(0)
    first = made(case)
    np.random.seed(1)
    assert made(case).sha256() == first.sha256()
    assert np.array_equal(made(case).indices(5), first.indices(5))
    if case != "natural":
        assert made(case, seed=1).sha256() != first.sha256()
        assert not np.array_equal(made(case, seed=1).indices(5), first.indices(5))


@pytest.mark.parametrize(
    "case", ["iid", "iid sized", "similarity", "dirichlet", "dirichlet sized", "natural"]
)
def test_all_examples_are_dealt(case: str):
    assert made(case).sizes.sum() == N


def test_sizes():
    assert equal(10, 3).tolist() == [4, 3, 3]
    sizes = uniform(60_000, 1000, 0.5, 1.5, np.random.default_rng(0))
    assert sizes.sum() == 60_000
    assert 29 <= sizes.min() < 33
    assert 87 < sizes.max() <= 91
    # proportional to U(0.5, 1.5): deciles of the shares are evenly spaced
    np.testing.assert_allclose(np.quantile(sizes, [0.1, 0.5, 0.9]), [36, 60, 84], rtol=0.05)
    assert uniform(7, 7, 0.5, 1.5, np.random.default_rng(0)).tolist() == [1] * 7
    assert apportion(10, np.array([1, 1, 1])).sum() == 10
    assert apportion(5, np.array([0, 1, 0, 4])).tolist() == [0, 1, 0, 4]
    for low, high in ((0, 1), (2, 1), (1, np.inf), (-1, 1)):
        with pytest.raises(UsageError, match="sizes"):
            uniform(10, 2, low, high, np.random.default_rng(0))


def test_each_client_gets_the_size_that_was_declared_for_it():
    sizes = np.random.default_rng(0).permutation(np.arange(1, 41))
    generator = np.random.default_rng(1)
    for percent in (0, 30, 100):
        assert similarity(LABELS, sizes, percent, generator).sizes.tolist() == sizes.tolist()
    assert dirichlet_sized(LABELS, sizes, 0.1, generator).sizes.tolist() == sizes.tolist()
    assert iid(sizes, generator).sizes.tolist() == sizes.tolist()


def test_iid_has_the_spread_of_a_random_draw():
    counts = histogram(deal("iid", DATA, Streams(3), clients=100))
    # hypergeometric: 50 of 5,000 with 500 in the class; variance 50 · 0.1 · 0.9 · (4950 / 4999)
    assert counts.var() == pytest.approx(50 * 0.1 * 0.9 * 4950 / 4999, rel=0.15)


def test_similarity_runs_from_sorted_to_iid():
    values = [
        skew(deal("similarity", DATA, Streams(0), clients=50, similarity=s)) for s in (0.0, 30.0, 70.0, 100.0)
    ]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(0.9)  # 100 examples of one class each
    assert values[3] == pytest.approx(skew(deal("iid", DATA, Streams(0), clients=50)), rel=0.1)


def test_similarity_is_the_share_that_is_drawn_from_all():
    counts = histogram(deal("similarity", DATA, Streams(0), clients=10, similarity=30.0))
    # 150 of 500 are random, so 120 of them fall outside of the class or two in the client's sorted run
    others = np.sort(counts, axis=1)[:, :-2].sum(axis=1)
    assert others.mean() == pytest.approx(120, abs=10)


def test_similarity_says_nothing_by_the_client_number():
    counts = histogram(deal("similarity", DATA, Streams(0), clients=50, similarity=0.0))
    assert abs(np.corrcoef(np.arange(50), counts.argmax(axis=1))[0, 1]) < 0.4


@pytest.mark.parametrize("sizes", [None, [1, 1]])
def test_dirichlet_is_more_skewed_for_smaller_alpha(sizes: list[float] | None):
    options = {} if sizes is None else {"sizes": sizes}
    values = [
        skew(deal("dirichlet", DATA, Streams(0), clients=20, alpha=a, **options)) for a in (0.2, 1.0, 100.0)
    ]
    assert values == sorted(values, reverse=True)
    assert values[0] > 0.5
    assert values[2] < 0.12


def test_dirichlet_has_the_moments_of_its_law():
    counts = np.stack(
        [histogram(deal("dirichlet", DATA, Streams(s), clients=20, alpha=2.0)) for s in range(40)]
    )
    shares = counts / 500
    # a share of one class: mean 1 / 20, variance (1/20)(19/20) / (20 · 2 + 1)
    assert shares.mean() == pytest.approx(1 / 20)
    assert shares.var() == pytest.approx(0.05 * 0.95 / 41, rel=0.06)


def test_dirichlet_gives_up_after_bounded_retries():
    with pytest.raises(UsageError, match="in 100 draws, least = 20; raise alpha"):
        deal("dirichlet", DATA, Streams(0), clients=200, alpha=0.05, least=20)
    with pytest.raises(UsageError, match="need more than the 5000"):
        deal("dirichlet", DATA, Streams(0), clients=300, alpha=0.05, least=20)
    assert deal("dirichlet", DATA, Streams(0), clients=20, alpha=0.5, least=50).sizes.min() >= 50


def test_class_counts_of_the_paper():
    data = data_of(np.random.default_rng(0).permutation(np.arange(24_000) % CLASSES))
    counts = histogram(deal("class-counts", data, Streams(0), clients=48, counts=[230, 230] + [5] * 8), data)
    ordered = np.sort(counts, axis=1)
    # 48 is no multiple of ten, so a class may fall a few short of what its clients want
    assert (counts.sum(axis=1) == 500).all()
    assert np.abs(ordered[:, -2:] - 230).max() <= 25
    assert ordered[:, -2:].mean() == pytest.approx(230, abs=8)
    exact = histogram(deal("class-counts", data, Streams(0), clients=40, counts=[230, 230] + [5] * 8), data)
    assert (np.sort(exact, axis=1) == [5] * 8 + [230, 230]).all()
    assert (exact.sum(axis=0) == 40 * 50).all()


def test_class_counts_pair_the_large_classes_at_random():
    data = data_of(np.random.default_rng(0).permutation(np.arange(24_000) % CLASSES))
    counts = histogram(deal("class-counts", data, Streams(0), clients=440, counts=[23, 23] + [1] * 8), data)
    pairs = {tuple(np.flatnonzero(row == 23)) for row in counts}
    assert len(pairs) == 45  # of 45 that there are


def test_class_counts_scale_to_smaller_clients():
    data = data_of(np.random.default_rng(0).permutation(np.arange(24_000) % CLASSES))
    partition = deal("class-counts", data, Streams(0), clients=190, counts=[230, 230] + [5] * 8, size=125)
    counts = np.sort(histogram(partition, data), axis=1)
    assert (counts.sum(axis=1) == 125).all()
    assert counts[:, -2:].mean() == pytest.approx(57.5, abs=0.5)
    assert counts[:, :-2].mean() == pytest.approx(1.25, abs=0.1)


def test_class_counts_refuses_what_cannot_be():
    with pytest.raises(
        UsageError, match=r"100 clients of 90 need 9000 examples and there are 5000; size = 50 would do"
    ):
        deal("class-counts", DATA, Streams(0), clients=100, counts=[9] * 10)
    with pytest.raises(UsageError, match="one number, 0 or more, for each of 10 classes"):
        deal("class-counts", DATA, Streams(0), clients=10, counts=[9] * 9)


def test_natural_clients_are_the_owners():
    partition = deal("natural", DATA, Streams(0))
    assert isinstance(partition, Dealt)
    assert partition.owner is not None
    assert DATA.owner is not None
    assert partition.owner.tolist() == list(range(100))
    for client in (0, 17, 99):
        assert np.array_equal(np.sort(partition.indices(client)), np.flatnonzero(DATA.owner == client))
    some = deal("natural", DATA, Streams(0), clients=7)
    assert isinstance(some, Dealt)
    assert some.owner is not None
    assert len(set(some.owner.tolist())) == 7
    for client in range(7):
        assert (DATA.owner[some.indices(client)] == some.owner[client]).all()


def test_owners_may_share_a_site():
    owners, halves = deal("natural", DATA, Streams(0)), deal("natural", DATA, Streams(0), sites=2)
    assert halves.clients == 2
    for half in range(2):
        mine = np.concatenate([owners.indices(50 * half + k) for k in range(50)])
        np.testing.assert_array_equal(np.sort(halves.indices(half)), np.sort(mine))
    with pytest.raises(UsageError, match="sites = 3 does not divide the 100 owners"):
        deal("natural", DATA, Streams(0), sites=3)


def test_natural_with_few_examples_and_without_owners():
    labels = np.zeros(10, dtype=np.int64)
    examples = Examples(torch.zeros(10, 1), torch.from_numpy(labels), 2)
    data = DataSet("d", examples, examples, np.array([0] * 6 + [1] * 3 + [2]), ("a", "b", "c"))
    kept = deal("natural", data, Streams(0), least=3)
    assert kept.sizes.tolist() == [6, 3]
    with pytest.raises(UsageError, match="no owner has 7 examples; the largest has 6"):
        deal("natural", data, Streams(0), least=7)
    with pytest.raises(UsageError, match="clients = 3 must lie in 1 to 2"):
        deal("natural", data, Streams(0), least=2, clients=3)
    with pytest.raises(UsageError, match="does not say who owns its examples"):
        deal("natural", DataSet("d", examples, examples), Streams(0))


def test_lazy_costs_the_same_for_a_million():
    partition = deal("lazy", DATA, Streams(0), clients=1_000_000, size=10)
    assert partition.sizes.strides == (0,)  # one number, not a million
    small = deal("lazy", DATA, Streams(0), clients=10, size=10)
    assert np.array_equal(partition.indices(7), small.indices(7))  # from (seed, client) alone
    assert not np.array_equal(partition.indices(999_999), partition.indices(7))


def test_lazy_draws_like_the_population():
    partition = deal("lazy", DATA, Streams(0), clients=3000, size=20)
    counts = histogram(partition)
    expected = 20 * 0.1 * 0.9 * (N - 20) / (N - 1)
    assert counts.mean() == 2
    assert counts.var() == pytest.approx(expected, rel=0.06)
    drawn = np.bincount(np.concatenate([partition.indices(k) for k in range(3000)]), minlength=N)
    assert drawn.mean() == 12
    assert drawn.var() == pytest.approx(12, rel=0.12)
    skewed = deal("lazy", DATA, Streams(0), clients=3000, size=20, alpha=0.1)
    assert skew(skewed) > 2 * skew(partition)
    np.testing.assert_allclose(histogram(skewed).mean(axis=0), 2, rtol=0.15)


def test_lazy_serves_a_client_larger_than_a_class():
    partition = deal("lazy", DATA, Streams(0), clients=50, size=700, alpha=0.01)
    for client in range(50):
        assert len(np.unique(partition.indices(client))) == 700


def test_a_manifest_says_what_came_out():
    partition = deal("similarity", DATA, Streams(0), clients=50, similarity=0.0)
    found = manifest(partition, DATA)
    assert found["clients"] == found["clients_counted"] == 50
    assert found["examples"] == N
    assert found["class_counts"] == [500] * 10
    assert found["clients_by_classes_held"] == [50] + [0] * 9
    assert (found["size_least"], found["size_mean"], found["size_most"]) == (100, 100.0, 100)
    moved = Dealt(np.roll(partition.order, 1), partition.offsets)
    assert manifest(moved, DATA)["sha256"] != found["sha256"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("idd", {}, "unknown partition 'idd'; did you mean 'iid'"),
        ("iid", {}, "partition 'iid' needs clients"),
        ("iid", {"clients": 5001}, "clients = 5001 must lie in 1 to 5000"),
        ("iid", {"clients": 0}, "clients = 0"),
        ("iid", {"clients": "many"}, "clients = 'many'"),
        ("iid", {"clients": 5, "alpha": 1.0}, "unknown option of partition 'iid': 'alpha'"),
        ("iid", {"clients": 5, "sizes": [1.0]}, "must hold two numbers"),
        ("dirichlet", {"clients": 5, "alpha": 0.0}, "alpha = 0 must be positive"),
        ("dirichlet", {"clients": 5, "alpha": float("nan")}, "alpha = nan"),
        ("similarity", {"clients": 5, "similarity": 101.0}, "must lie in 0 to 100"),
        ("lazy", {"clients": 5, "size": 5001}, "size = 5001 is more than the 5000"),
    ],
)
def test_wrong_options_are_refused(name: str, options: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message):
        deal(name, DATA, Streams(0), **options)


def test_a_partition_without_examples_for_someone_is_refused():
    with pytest.raises(UsageError, match="client 1 would hold no example"):
        Dealt(np.arange(3), np.array([0, 2, 2, 3]))
