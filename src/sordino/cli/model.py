"""`sordino export`, `predict` and `evaluate`: taking a trained model away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sordino.cli import output
from sordino.experiment import model

Run = Annotated[Path, typer.Argument(help="The folder of a finished run.")]
DataDir = Annotated[Path | None, typer.Option(help="Where data sets are; default SORDINO_DATA.")]


def export(
    run: Run,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    format_: Annotated[str, typer.Option("--format", help="safetensors or onnx.")] = "safetensors",
    data_dir: DataDir = None,
) -> None:
    """Write the trained model to a file.

    Example: sordino export runs/first --format onnx -o model.onnx
    """
    model.export(run, out, format_, data_dir)
    Console().print(f"Wrote {out} ({format_}).", soft_wrap=True)


def predict(
    run: Run,
    source: Annotated[Path, typer.Argument(help="A CSV, Parquet or NPZ file with the recipe's features.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The CSV file to write.")],
    data_dir: DataDir = None,
) -> None:
    """Predict the class of each row of a file.

    Example: sordino predict runs/first new.csv -o predictions.csv
    """
    rows = model.predict(run, source, out, data_dir)
    Console().print(f"Wrote {rows} predictions to {out}.", soft_wrap=True)


def evaluate(
    run: Run,
    source: Annotated[
        Path | None, typer.Argument(help="A labelled file; default: the recipe's test data.")
    ] = None,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Score the trained model on labelled data.

    The figures are functions of that data: no budget pays for them. Example: sordino evaluate runs/first
    """
    scores = model.evaluate(run, source, data_dir).columns()
    if as_json:
        output.to_json(scores)
        return
    for name, value in scores.items():
        Console().print(f"{name:<18} {'-' if value is None else f'{value:.4f}'}")
