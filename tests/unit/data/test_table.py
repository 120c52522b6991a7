"""A user's own file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from sordino.core.errors import UsageError
from sordino.data import load
from sordino.data.sources.table import load_table

ROWS = 40
AGE = np.arange(ROWS) + 20
DOSE = np.linspace(0, 1, ROWS)
OUTCOME = np.array(["ill", "well"])[np.arange(ROWS) % 2]
HOSPITAL = np.array(["north", "south", "east", "west"])[np.arange(ROWS) // 10]


def csv(path: Path, **changes: object) -> Path:
    columns = {"age": AGE, "dose": DOSE, "outcome": OUTCOME, "hospital": HOSPITAL, **changes}
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def parquet(path: Path) -> Path:
    pyarrow.parquet.write_table(
        pa.table({"age": AGE, "dose": DOSE, "outcome": OUTCOME, "hospital": HOSPITAL}), path
    )
    return path


def npz(path: Path) -> Path:
    np.savez(path, age=AGE, dose=DOSE, outcome=OUTCOME, hospital=HOSPITAL)
    return path


@pytest.mark.parametrize(("make", "name"), [(csv, "a.csv"), (parquet, "a.parquet"), (npz, "a.npz")])
def test_the_three_formats_hold_the_same(tmp_path: Path, make: object, name: str):
    data = load_table(make(tmp_path / name), label="outcome", client="hospital", test_fraction=0.25)
    assert data.owner_names == ("east", "north", "south", "west")
    assert (len(data.train), len(data.test), data.train.classes) == (30, 10, 2)
    assert data.owner is not None
    for row, y, owner in zip(data.train.inputs().numpy(), data.train.y, data.owner, strict=True):
        source = round(row[0] - 20)
        assert row[1] == pytest.approx(DOSE[source])
        assert ["ill", "well"][y] == OUTCOME[source]
        assert data.owner_names[owner] == HOSPITAL[source]
    assert np.bincount(data.test.y).tolist() == [5, 5]


def test_features_are_used_as_they_are_unless_constants_are_declared(tmp_path: Path):
    path = csv(tmp_path / "a.csv")
    plain = load_table(path, label="outcome", client="hospital").train.inputs().numpy()
    assert plain[:, 0].min() >= 20
    scaled = load_table(
        path, label="outcome", client="hospital", shift=[40, 0.5], scale=[20, 1]
    ).train.inputs()
    np.testing.assert_allclose(scaled, (plain - [40, 0.5]) / [20, 1], rtol=1e-5, atol=1e-6)
    # one row's values do not depend on another's: no statistic of the data is used
    other = load_table(
        csv(tmp_path / "b.csv", age=AGE * np.where(np.arange(ROWS) == 5, 1000, 1)),
        label="outcome",
        client="hospital",
        shift=[40, 0.5],
        scale=[20, 1],
    )
    assert (np.abs(other.train.inputs().numpy() - scaled.numpy()).sum(axis=1) > 0).sum() <= 1


def test_named_features_classes_and_a_test_file(tmp_path: Path):
    path = csv(tmp_path / "a.csv")
    held_out = csv(tmp_path / "b.csv", dose=DOSE + 1)
    data = load_table(
        path,
        label="outcome",
        client="hospital",
        features=["dose"],
        classes=["well", "ill", "dead"],
        test=held_out,
    )
    assert data.train.input_shape == (1,)
    assert data.train.classes == 3
    assert data.train.y[:2].tolist() == [1, 0]
    assert (len(data.train), len(data.test)) == (ROWS, ROWS)
    assert data.test.inputs().min() == 1


def test_without_a_client_column_there_is_no_owner(tmp_path: Path):
    data = load_table(csv(tmp_path / "a.csv"), label="outcome", features=["age"])
    assert data.owner is None


def test_images_in_an_npz_keep_their_shape(tmp_path: Path):
    np.savez(
        tmp_path / "a.npz", x=np.ones((ROWS, 1, 8, 8), np.uint8) * 255, y=np.arange(ROWS) % 4, who=HOSPITAL
    )
    data = load("table", path=tmp_path / "a.npz", label="y", client="who", scale=255)
    assert data.train.input_shape == (1, 8, 8)
    assert data.train.inputs().max() == 1


def test_the_same_rows_are_always_held_out(tmp_path: Path):
    path = csv(tmp_path / "a.csv")
    ages = [load_table(path, label="outcome", client="hospital").test.x[:, 0].tolist() for _ in range(2)]
    assert ages[0] == ages[1]


GAPS = np.where(np.arange(ROWS) == 7, "", AGE.astype(str))


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        (
            {"dose": np.where(DOSE == 0, "none", "1.5")},
            {},
            "column 'dose' holds 'none' in row 1, which is no number",
        ),
        ({"outcome": ["ill"] * ROWS}, {}, "holds 'ill' in every row"),
        ({"outcome": DOSE}, {}, "cut measurements into ranges"),
        ({"hospital": np.where(DOSE == 0, "", HOSPITAL)}, {}, "column 'hospital' has no value in row 1"),
        ({}, {"label": "outcom"}, "unknown column 'outcom'; did you mean 'outcome'"),
        ({}, {"client": "site"}, "unknown column 'site'"),
        ({}, {"features": ["weight"]}, "unknown column 'weight'"),
        ({}, {"features": []}, "no feature column"),
        ({}, {"client": None}, "column 'hospital' holds 'north' in row 1, which is no number"),
        ({"age": GAPS}, {}, "column 'age' has no value in row 8"),
        ({"dose": np.where(DOSE == 0, "inf", "1.5")}, {}, "column 'dose' is not a finite number in row 1"),
        ({}, {"classes": ["ill"]}, "holds 'well', which is none of the 1 classes"),
        ({}, {"test_fraction": 1.0}, "test_fraction = 1 must lie"),
        ({}, {"test_fraction": 0.001}, "leaves no test example"),
        ({}, {"scale": 0}, "scale"),
        ({}, {"shift": [1, 2, 3]}, "one constant, or one for each of the 2 columns"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, changes: dict[str, object], options: dict[str, object], message: str
):
    path = csv(tmp_path / "a.csv", **changes)
    with pytest.raises(UsageError, match=message) as caught:
        load_table(path, **{"label": "outcome", "client": "hospital", **options})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("make", "name"), [(csv, "a.csv"), (parquet, "a.parquet"), (npz, "a.npz")])
def test_damaged_files_are_refused(tmp_path: Path, make: object, name: str):
    path = make(tmp_path / name)
    whole = path.read_bytes()
    cut = whole[: len(whole) // 2 - 8] if name != "a.csv" else whole.rstrip().rpartition(b",")[0]
    for content in (cut, b""):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=r"truncated or corrupt|is empty") as caught:
            load_table(path, label="outcome", client="hospital")
        assert "\n" not in str(caught.value)


def test_headers_that_cannot_be_right_are_refused(tmp_path: Path):
    for text, message in (
        ("a,a,y\n1,2,0\n3,4,1\n", "the column 'a' twice"),
        ("a;b;y\n1;2;0\n3;4;1\n", "separated by ';': use commas"),
        ("", "is empty"),
    ):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(UsageError, match=message):
            load_table(tmp_path / "a.csv", label="y")


def test_other_paths_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"must end in \.csv"):
        load_table(tmp_path / "a.xls", label="y")
    with pytest.raises(UsageError, match="does not exist"):
        load_table(tmp_path / "a.csv", label="y")
    (tmp_path / "a.csv").write_text("age,outcome\n")
    with pytest.raises(UsageError, match="holds no rows"):
        load_table(tmp_path / "a.csv", label="outcome")
    with pytest.raises(UsageError, match="data set 'table' needs label; its options: path, label"):
        load("table", path=tmp_path / "a.csv")


def test_arrays_of_objects_are_never_unpickled(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.array([{}] * 5, dtype=object), y=np.arange(5))
    with pytest.raises(UsageError, match="truncated or corrupt"):
        load_table(tmp_path / "a.npz", label="y")


def test_arrays_of_different_lengths_are_refused(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.ones((5, 2)), y=np.arange(4))
    with pytest.raises(UsageError, match=r"differ in their first length \(x \(5, 2\), y \(4,\)\)"):
        load_table(tmp_path / "a.npz", label="y")
