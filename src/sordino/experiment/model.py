"""Taking a trained model away: export, prediction, evaluation."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import torch
from safetensors.torch import save
from torch import nn

from sordino.core.errors import UsageError, unknown
from sordino.core.files import write_bytes
from sordino.data import load, read_inputs
from sordino.engine import Scores, Task
from sordino.engine.evaluation import outputs, scores_of
from sordino.experiment.folder import RunFolder
from sordino.experiment.loading import load_task
from sordino.experiment.recipe import Recipe
from sordino.experiment.result import Result
from sordino.training.working import WorkingModel

FORMATS = ("safetensors", "onnx")


def trained(run: Path, data_dir: Path | None = None) -> tuple[Recipe, Task, WorkingModel]:
    """The recipe, the task and the trained model of a finished run."""
    result = Result.read(run)
    recipe = Recipe.read(RunFolder.existing(run).file("recipe.toml"))
    task = load_task(recipe, data_dir)
    model = task.working_model()
    model.load(task.layout.flatten(result.parameters))
    return recipe, task, model


def export(run: Path, out: Path, format_: str, data_dir: Path | None = None) -> None:
    """Writes the trained model: its parameters by name (safetensors), or a graph that others can run (ONNX)."""
    if format_ not in FORMATS:
        raise unknown("format", format_, FORMATS)
    if format_ == "safetensors":
        parameters = Result.read(run).parameters
        write_bytes(out, save(parameters, {"format": "pt", "run": run.name}))
        return
    _, task, model = trained(run, data_dir)
    _to_onnx(model.module, task.data.test.take(slice(0, 2)).inputs(), out)


def _to_onnx(module: nn.Module, example: torch.Tensor, out: Path) -> None:
    for package in ("onnx", "onnxscript"):
        if find_spec(package) is None:
            raise UsageError(f"ONNX export needs {package}: pip install 'sordino[onnx]'")
    for parameter in module.parameters():
        parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
    batch = torch.export.Dim("batch", min=1)
    program = torch.onnx.export(
        module.eval(),
        (example,),
        dynamo=True,
        dynamic_shapes=({0: batch},),
        input_names=["input"],
        output_names=["output"],
        verbose=False,
    )
    assert program is not None
    program.save(out)


def predict(run: Path, source: Path, out: Path, data_dir: Path | None = None) -> int:
    """Writes a CSV with the predicted class of each row of a file that has the features the model was trained
    on; returns how many rows there were."""
    recipe, task, model = trained(run, data_dir)
    if recipe.data.name != "table":
        raise UsageError(f"predict reads tables, and {run} was trained on '{recipe.data.name}'; use evaluate")
    inputs = read_inputs(source, task.data.features, **_scaling(recipe))
    chosen = outputs(model, inputs).argmax(dim=1).numpy()
    names = np.array(task.data.class_names)[chosen] if task.data.class_names else chosen
    pyarrow.csv.write_csv(pa.table({"prediction": pa.array(names.tolist())}), out)
    return len(chosen)


def evaluate(run: Path, source: Path | None = None, data_dir: Path | None = None) -> Scores:
    """The trained model's scores on the recipe's test data, or on another file like the recipe's."""
    recipe, task, model = trained(run, data_dir)
    examples = task.data.test
    if source is not None:
        if recipe.data.name != "table":
            raise UsageError(
                f"{run} was trained on '{recipe.data.name}'; leave the file out to use its test data"
            )
        options = {**recipe.data.options, "test": str(source.resolve())}
        examples = load("table", data_dir, **options).test
    return scores_of(outputs(model, examples), examples, auroc=True)


def _scaling(recipe: Recipe) -> dict[str, Any]:
    return {key: value for key, value in recipe.data.options.items() if key in ("shift", "scale")}
