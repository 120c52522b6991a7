import numpy as np
import pytest
import torch

from sordino.core.errors import UsageError
from sordino.data import DataSet, Examples, Scaling, Windows


def some(count: int = 6, classes: int = 3) -> Examples:
    x = torch.arange(count * 8, dtype=torch.uint8).reshape(count, 2, 2, 2)
    return Examples(x, torch.arange(count) % classes, classes, Scaling(255.0))


def test_take_keeps_the_order_and_the_stored_form():
    taken = some().take(np.array([4, 1]))
    assert taken.x.dtype == torch.uint8
    assert taken.y.tolist() == [1, 1]
    assert torch.equal(taken.x, some().x[[4, 1]])
    assert len(some().take(slice(2, 5))) == 3


def test_inputs_are_scaled_by_the_declared_constants_alone():
    expected = (some().x.numpy() / 255 - np.array([0.1, 0.2])[:, None, None]) / np.array([2.0, 4.0])[
        :, None, None
    ]
    declared = Examples(some().x, some().y, 3, Scaling.declared(255, [0.1, 0.2], [2, 4]))
    np.testing.assert_allclose(declared.inputs().numpy(), expected, rtol=1e-6, atol=1e-7)
    assert declared.inputs().dtype == torch.float32
    # what the others hold changes nothing
    np.testing.assert_array_equal(declared.take(slice(0, 1)).inputs(), declared.inputs()[:1])
    assert declared.input_shape == (2, 2, 2)


def test_one_constant_and_one_a_channel_mix():
    x = some().x
    mixed = Scaling.declared(1, [1, 2], 4)(x)
    np.testing.assert_allclose(mixed, (x.numpy() - np.array([1, 2])[:, None, None]) / 4)


def test_scaling_leaves_the_stored_floats_alone():
    x = torch.ones(2, 3)
    Scaling.declared(1, 1, 2)(x)
    assert torch.equal(x, torch.ones(2, 3))


@pytest.mark.parametrize(
    ("shift", "scale"), [(0, 0), (0, -1), (0, float("inf")), (float("nan"), 1), ([], 1), ([1, 2], [1, 2, 3])]
)
def test_constants_that_cannot_scale_are_refused(shift: object, scale: object):
    with pytest.raises(UsageError, match=r"shift|scale"):
        Scaling.declared(1, shift, scale)


def test_constants_for_another_number_of_channels_are_refused():
    with pytest.raises(UsageError, match="3 constants for 2 channels"):
        Scaling.declared(1, [1, 2, 3], 1)(some().x)


def test_windows_are_the_text_from_each_position():
    text = torch.arange(10, dtype=torch.uint8)
    examples = Examples(torch.tensor([0, 3], dtype=torch.int32), torch.tensor([4, 7]), 10, Windows(text, 4))
    assert examples.inputs().tolist() == [[0, 1, 2, 3], [3, 4, 5, 6]]
    assert examples.inputs().dtype == torch.int64
    assert examples.input_shape == (4,)


def test_labels_out_of_range_and_lengths_that_differ_are_refused():
    with pytest.raises(UsageError, match="label 3 is out of range; with 3 classes it must lie in 0 to 2"):
        Examples(torch.zeros(2, 1), torch.tensor([0, 3]), 3)
    with pytest.raises(UsageError, match="label -1"):
        Examples(torch.zeros(2, 1), torch.tensor([0, -1]), 3)
    with pytest.raises(UsageError, match="2 inputs but 3 labels"):
        Examples(torch.zeros(2, 1), torch.tensor([0, 0, 0]), 3)


def test_a_data_set_needs_both_parts_and_an_owner_for_each_example():
    with pytest.raises(UsageError, match="0 test examples"):
        DataSet("d", some(), some(0))
    with pytest.raises(UsageError, match="2 owners for 6"):
        DataSet("d", some(), some(), np.array([0, 1]), ("a", "b"))
