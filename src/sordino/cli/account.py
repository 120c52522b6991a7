"""`sordino account`: what noise costs, and what a budget allows."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from sordino.accounting import answers
from sordino.accounting.answers import Question
from sordino.cli.output import to_json
from sordino.core.errors import UsageError, unknown
from sordino.core.relations import Relation

app = typer.Typer(help="Privacy accounting: epsilon, noise, rounds, the whole curve.", no_args_is_help=True)

Rate = Annotated[float, typer.Option(help="Probability q with which each unit takes part in a round.")]
Rounds = Annotated[int, typer.Option(help="Number of rounds, or of steps.")]
Delta = Annotated[float, typer.Option(help="The δ of the guarantee.")]
Epsilon = Annotated[float, typer.Option(help="The budget ε.")]
Noise = Annotated[float, typer.Option(help="Noise z: its standard deviation on the sum, over the clip norm.")]
Method = Annotated[str, typer.Option("--accountant", help=f"One of {', '.join(answers.METHODS)}.")]
Neighbours = Annotated[str, typer.Option("--relation", help=f"One of {', '.join(Relation)}.")]
Json = Annotated[bool, typer.Option("--json", help="For machines.")]


@app.command()
def epsilon(
    sampling_rate: Rate,
    rounds: Rounds,
    delta: Delta,
    noise_multiplier: Noise,
    accountant: Method = "pld",
    relation: Neighbours = "add-remove",
    as_json: Json = False,
) -> None:
    """The epsilon that a noise multiplier costs.

    Example: sordino account epsilon --sampling-rate 0.02 --rounds 50 --delta 1e-5 --noise-multiplier 1
    """
    question = _question(sampling_rate, delta, relation, accountant)
    _show(answers.epsilon(question, noise_multiplier=noise_multiplier, rounds=rounds), as_json)


@app.command()
def noise(
    sampling_rate: Rate,
    rounds: Rounds,
    delta: Delta,
    epsilon: Epsilon,
    accountant: Method = "pld",
    relation: Neighbours = "add-remove",
    as_json: Json = False,
) -> None:
    """The smallest noise multiplier, to 1 %, that keeps a budget.

    Example: sordino account noise --sampling-rate 0.02 --rounds 50 --delta 1e-5 --epsilon 1
    """
    question = _question(sampling_rate, delta, relation, accountant)
    _show(answers.noise(question, epsilon=epsilon, rounds=rounds), as_json)


@app.command("rounds")
def count_rounds(
    sampling_rate: Rate,
    delta: Delta,
    epsilon: Epsilon,
    noise_multiplier: Noise,
    accountant: Method = "pld",
    relation: Neighbours = "add-remove",
    as_json: Json = False,
) -> None:
    """The largest number of rounds that a budget allows.

    Example: sordino account rounds --sampling-rate 0.02 --delta 1e-5 --epsilon 3 --noise-multiplier 1
    """
    question = _question(sampling_rate, delta, relation, accountant)
    _show(answers.rounds(question, epsilon=epsilon, noise_multiplier=noise_multiplier), as_json)


@app.command()
def curve(
    sampling_rate: Rate,
    rounds: Rounds,
    delta: Delta,
    noise_multiplier: Annotated[float | None, typer.Option(help="Noise z; or give --epsilon.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The budget that sets z; or give the noise.")] = None,
    accountant: Method = "pld",
    relation: Neighbours = "add-remove",
    as_json: Json = False,
) -> None:
    """The whole privacy curve: epsilon at every power of ten of delta, and the mu that lies above it.

    Example: sordino account curve --sampling-rate 0.02 --rounds 50 --delta 1e-5 --epsilon 1
    """
    question = _question(sampling_rate, delta, relation, accountant)
    if epsilon is not None and noise_multiplier is None:
        noise_multiplier = float(answers.noise(question, epsilon=epsilon, rounds=rounds)["noise_multiplier"])
    elif noise_multiplier is None or epsilon is not None:
        raise UsageError("curve takes either --noise-multiplier or --epsilon; give one of them")
    _show(answers.curve(question, noise_multiplier=noise_multiplier, rounds=rounds), as_json)


def _question(sampling_rate: float, delta: float, relation: str, accountant: str) -> Question:
    if accountant not in answers.METHODS:
        raise unknown("accountant", accountant, answers.METHODS)
    if relation not in list(Relation):
        raise unknown("relation", relation, list(Relation))
    return Question(sampling_rate, delta, Relation(relation), accountant)


def _show(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        to_json(answer)
        return
    for name, value in answer.items():
        if name == "curve":
            for point in value:
                typer.echo(f"epsilon at delta {point['delta']:g}: {_text('epsilon', point['epsilon'])}")
        elif value != "":
            typer.echo(f"{name.replace('_', ' ')}: {_text(name, value)}")


def _text(name: str, value: Any) -> str:
    if value is None:
        return "infinite: nothing is guaranteed"
    if isinstance(value, float) and ("epsilon" in name or "noise" in name) and value > 0:
        step = 10.0 ** (math.floor(math.log10(value)) - 3)
        return f"{math.ceil(value / step - 1e-9) * step:.4g}"  # rounded up: never less than was computed
    return f"{value:.4g}" if isinstance(value, float) else str(value)
