import json
from typing import Any

import pytest
from tests.unit.accounting.test_accountants import sampled
from typer.testing import CliRunner

from sordino.accounting.accountants import accountant
from sordino.cli.account import app
from sordino.core.errors import BudgetError, UsageError

RUN = "--sampling-rate 0.02 --rounds 50 --delta 1e-5"


def run(command: str) -> str:
    result = CliRunner().invoke(app, command.split(), catch_exceptions=True)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def answer(command: str) -> dict[str, Any]:
    return json.loads(run(f"{command} --json"))


def test_epsilon():
    found = answer(f"epsilon {RUN} --noise-multiplier 1")
    assert found["epsilon"] == accountant("pld").epsilon(sampled(0.02, 1.0, 50), 1e-5)
    assert found["delta"] == 1e-5
    assert found["relation"] == "add-remove"
    assert found["accountant"] == "pld"
    assert "neither the members nor the size" in found["against"]
    assert found["sampling"].startswith("Poisson")
    assert found["mechanism"] == "50 × Gaussian(z = 1) on a Poisson sample (q = 0.02)"


def test_text_is_rounded_up():
    assert run(f"epsilon {RUN} --noise-multiplier 1").startswith("epsilon: 1.145\n")
    assert run(f"epsilon {RUN} --noise-multiplier 1.0000001").startswith("epsilon: 1.145\n")


def test_noise():
    found = answer(f"noise {RUN} --epsilon 1")
    assert found["epsilon"] <= found["budget"] == 1
    assert accountant("pld").epsilon(sampled(0.02, found["noise_multiplier"], 50), 1e-5) <= 1
    assert answer(f"noise {RUN} --epsilon 1 --accountant rdp")["noise_multiplier"] > found["noise_multiplier"]


def test_rounds():
    found = answer("rounds --sampling-rate 0.02 --delta 1e-5 --epsilon 3 --noise-multiplier 1")
    assert found["rounds"] == 589
    assert found["epsilon"] <= 3


def test_curve():
    found = answer(f"curve {RUN} --noise-multiplier 1")
    points = {point["delta"]: point["epsilon"] for point in found["curve"]}
    assert points[1e-5] == pytest.approx(1.1448, abs=1e-4)
    assert list(points.values()) == sorted(points.values())
    assert 0.3 < found["mu"] < 0.6
    assert "mu: " in run(f"curve {RUN} --epsilon 1")


def test_relations():
    assert answer(f"epsilon {RUN} --noise-multiplier 1 --relation replace-one")["epsilon"] > 1.37
    seen = "--sampling-rate 1 --rounds 3 --delta 1e-5 --noise-multiplier 4 --relation zero-out"
    found = answer(f"epsilon {seen}")
    assert found["epsilon"] == accountant("pld").epsilon(sampled(1.0, 4.0, 3), 1e-5)
    assert "sees who takes part" in found["against"]
    assert found["sampling"] == "none"
    with pytest.raises(UsageError, match="sampling_rate = 1"):
        run(f"epsilon {RUN} --noise-multiplier 1 --relation zero-out")


def test_fallback_is_said():
    found = answer(f"epsilon {RUN} --noise-multiplier 0.05")
    assert found["accountant"] == "rdp"
    assert "not pld" in found["note"]


def test_no_noise_guarantees_nothing():
    assert answer(f"epsilon {RUN} --noise-multiplier 0")["epsilon"] is None
    assert "nothing is guaranteed" in run(f"epsilon {RUN} --noise-multiplier 0")


def test_eq7_answers_with_its_waste():
    found = answer("noise --sampling-rate 0.21 --rounds 50 --delta 1e-5 --epsilon 0.5 --accountant eq7-000")
    assert round(found["noise_multiplier"], 1) == 45.6
    assert round(found["true_epsilon"], 2) == 0.10
    assert round(found["variance_ratio"]) == 18
    back = answer(
        "epsilon --sampling-rate 0.21 --rounds 50 --delta 1e-5 --accountant eq7-000 "
        f"--noise-multiplier {found['noise_multiplier']}"
    )
    assert back["epsilon"] == pytest.approx(0.5)


def test_theorem1_is_refused():
    cell = "--sampling-rate 0.02 --rounds 50 --delta 6.98e-5 --accountant theorem1-004"
    with pytest.raises(UsageError, match=r"z² = 0\.344 ≥ 0\.7 .* true epsilon is 4\.19, not 3; .*= 0\.659"):
        run(f"noise {cell} --epsilon 3")
    with pytest.raises(UsageError, match="true epsilon is"):
        run(f"epsilon {cell} --noise-multiplier 0.59")
    for question in ("rounds --epsilon 3 --noise-multiplier 1", "curve --rounds 5 --noise-multiplier 1"):
        with pytest.raises(UsageError, match="answers only epsilon and noise"):
            run(f"{question} --sampling-rate 0.02 --delta 1e-5 --accountant theorem1-004")
    with pytest.raises(UsageError, match="add-remove only"):
        run(f"noise {cell} --epsilon 3 --relation replace-one")


@pytest.mark.parametrize(
    ("command", "error", "words"),
    [
        (f"epsilon {RUN} --noise-multiplier 1 --accountant pdl", UsageError, "did you mean 'pld'"),
        (f"epsilon {RUN} --noise-multiplier 1 --relation add", UsageError, "unknown relation"),
        (f"epsilon {RUN} --noise-multiplier -1", UsageError, "noise_multiplier"),
        (f"curve {RUN}", UsageError, "--noise-multiplier or --epsilon"),
        (f"curve {RUN} --epsilon 1 --noise-multiplier 1", UsageError, "--noise-multiplier or --epsilon"),
        (f"noise {RUN} --epsilon 0", UsageError, "epsilon"),
        (
            "rounds --sampling-rate 0.02 --delta 1e-5 --epsilon 0.01 --noise-multiplier 0.5",
            BudgetError,
            r"it would take noise_multiplier = 5\.987",
        ),
    ],
)
def test_errors_say_what_would_be_right(command: str, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        run(command)
