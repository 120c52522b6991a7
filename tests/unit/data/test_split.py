import numpy as np

from sordino.data.split import stratified


def test_every_class_gives_its_fraction_at_random():
    labels = np.repeat([0, 1, 2], [500, 200, 1])
    train, test = stratified(labels, 0.2, np.random.default_rng(0))
    assert np.bincount(labels[test], minlength=3).tolist() == [100, 40, 0]
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(701))
    # the mean position of 100 of 500 has mean 249.5 and, at most, sd 500 / √1200
    assert abs(test[:100].mean() - 249.5) < 4 * 500 / np.sqrt(1200)
    assert test[:100].max() > 400
