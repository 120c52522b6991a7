"""A small site for the tests: a table of made-up patients, and an operator who speaks to its agent directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sordino.experiment.toml import write
from sordino.federation import messages
from sordino.federation.messages import Answer, Close, LocalSteps, Model, Open, Step
from sordino.federation.site.agent import Agent
from sordino.federation.site.config import SiteConfig

PATIENTS, VISITS, FEATURES = 20, 3, 4
SIZE = FEATURES * 2 + 2


def table(folder: Path, rows: int = PATIENTS * VISITS, seed: int = 0) -> Path:
    """Visits of patients: four features and a label."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, FEATURES))
    y = (x[:, 0] + 0.3 * draw.normal(size=rows) > 0).astype(int)
    lines = [",".join([*(f"x{i}" for i in range(FEATURES)), "label", "patient"])]
    for row in range(rows):
        lines.append(",".join([*(f"{v:.6f}" for v in x[row]), str(y[row]), f"p{row // VISITS:03d}"]))
    path = folder / "visits.csv"
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)
    return path


def site_table(**changes: Any) -> dict[str, Any]:
    """A site.toml as a table; `changes` are sections' keys, such as `allow={"rounds": 3}`."""
    sections: dict[str, Any] = {
        "site": "clinic-a",
        "window": "2026",
        "unit": "column",
        "data": {"path": "visits.csv", "label": "label", "client": "patient", "classes": [0, 1]},
        "budget": {"epsilon": 4.0, "delta": 1e-3},
        "allow": {"purposes": ["readmission"], "models": ["logistic"], "tell": "cost", "rounds": 10},
        "agent": {"pace_seconds": 0.0, "refusal_seconds": 0.0},
    }
    for name, change in changes.items():
        merged = {**sections.get(name, {}), **change} if isinstance(change, dict) else change
        sections[name] = merged
        if isinstance(merged, dict):
            sections[name] = {key: value for key, value in merged.items() if value is not None}
    return sections


def site(folder: Path, **changes: Any) -> SiteConfig:
    """A site in a folder, with its file and its data."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "visits.csv").exists():
        table(folder)
    path = folder / "site.toml"
    path.write_text(write(site_table(**changes)))
    path.chmod(0o600)
    return SiteConfig.read(path)


def steps(**changes: Any) -> LocalSteps:
    """A mechanism that the small site's budget pays for."""
    values = {
        "noise_multiplier": 4.0,
        "sampling_rate": 0.5,
        "expected_batch": 10.0,
        "learning_rate": 0.5,
        "clip_norm": 1.0,
        "steps": 2,
    }
    return LocalSteps(**{**values, **changes})


def terms(**changes: Any) -> Open:
    """Terms that the small site allows."""
    values: dict[str, Any] = {
        "run": "run-1",
        "purpose": "readmission",
        "method": "dp-sgd",
        "trust": "local",
        "model": Model("logistic", (FEATURES,), 2),
        "releases": 3,
        "delta": 1e-4,
        "local": steps(),
    }
    return Open(**{**values, **changes})


def theta(value: float = 0.0) -> dict[str, np.ndarray]:
    """Parameters for the small model."""
    return {"theta": np.full(SIZE, value, dtype=np.float32)}


def step(agent: Agent, asked: Open, round_: int = 0, attempt: int = 0, value: float = 0.0) -> np.ndarray:
    """One round's update, or the refusal as an error."""
    body = Step(asked.run, asked.digest(), round_, attempt)
    reply = agent.answer(messages.encode(body, theta(value)))
    return messages.expect(reply, Answer)[1]["update"]


def opened(agent: Agent, asked: Open) -> messages.Opened:
    """The receipt of a run, or the refusal as an error."""
    return messages.expect(agent.answer(messages.encode(asked)), messages.Opened)[0]


def closed(agent: Agent, asked: Open) -> messages.Closed:
    """The end of a run."""
    return messages.expect(agent.answer(messages.encode(Close(asked.run, asked.digest()))), messages.Closed)[
        0
    ]
