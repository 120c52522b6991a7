"""A plan and its price as JSON: what `plan.json` in a run's folder holds, and what a planner prints."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from sordino.accounting.encoding import event_to_json
from sordino.engine import Task
from sordino.methods import Method
from sordino.planning import Against, Plan, overview, price
from sordino.planning.course import Course
from sordino.training import PrivateTraining

Json = dict[str, Any]


def step_memory(method: Method, task: Task) -> int | None:
    """Bytes that a step of DP-SGD needs beyond model and data, in each worker; None for other training."""
    if not isinstance(method.training, PrivateTraining):
        return None
    return method.training.memory(task.working_model(), *task.examples(int(task.sizes.argmax())))


def plan_json(plan: Plan, parameters: int, spent: Course) -> Json:
    """Everything that was fixed before training, and what it costs; `parameters` is the model's size.

    All of it is public: budgets, declared sizes and what was computed from them. Infinite values are null.
    """
    by_client = plan.records is not None  # who adds its own noise is priced by client, not by stratum
    groups = _groups_of_clients(plan) if by_client else _groups_of_plan(plan)
    return {
        "rounds": plan.rounds,
        "unit": str(plan.unit),
        "trust": str(plan.terms.trust),
        "against": str(plan.terms.adversary),
        "accountant": plan.terms.accountant,
        "parameters": parameters,
        "cohort": sum(law.expected for law in plan.phases[0].laws),
        "groups": groups,
        "spent_by_round": {
            "rounds": spent.rounds.tolist(),
            "epsilon": [[finite(value) for value in row] for row in spent.epsilon],
        },
    }


def _groups_of_plan(plan: Plan) -> list[Json]:
    return [
        {
            "name": line.name,
            "clients": line.clients,
            "epsilon_budget": finite(line.epsilon),
            "delta_budget": line.delta,
            "epsilon_outsiders": finite(line.outsiders.epsilon),
            "epsilon_server": finite(line.server.epsilon),
            "event": event_to_json(plan.event(index, plan.terms.adversary)),
            "parts": [{name: finite(value) for name, value in asdict(part).items()} for part in line.parts],
        }
        for index, line in enumerate(overview(plan).groups)
    ]


def _groups_of_clients(plan: Plan) -> list[Json]:
    """Budget groups whose clients release each at its own noise: each group's figure is its largest."""
    both = zip(price(plan, Against.OUTSIDERS), price(plan, Against.SERVER), strict=True)
    return [
        {
            "name": outsiders.group,
            "clients": outsiders.clients,
            "epsilon_budget": finite(_largest_budget(plan, outsiders.group)),
            "delta_budget": outsiders.delta,
            "epsilon_outsiders": finite(outsiders.epsilon),
            "epsilon_server": finite(server.epsilon),
            "parts": _steps(plan, outsiders.group),
        }
        for outsiders, server in both
    ]


def _steps(plan: Plan, group: str) -> list[Json]:
    """What a step of a group's clients draws and adds: the medians over those that are drawn and add noise."""
    assert plan.records is not None
    records, population = plan.records, plan.records.population
    if group not in population.group_names:
        return []
    members = population.group == population.group_names.index(group)
    members = members & (records.noise_multiplier > 0) & (records.releases.steps > 0)
    if not members.any():
        return []
    rate, batch = records.releases.sampling_rate, records.expected_batch
    middle = {name: float(np.median(values[members])) for name, values in (("rate", rate), ("cohort", batch))}
    noise = float(np.median(records.noise_multiplier[members]))
    return [{**middle, "noise_multiplier": noise, "clip_norm": None, "variance_factor": 1.0}]


def _largest_budget(plan: Plan, group: str) -> float:
    """The largest finite ε that clients of a budget group allow; ∞ for the public ones."""
    assert plan.records is not None
    population = plan.records.population
    if group not in population.group_names:
        return math.inf
    allowed = population.epsilon[population.group == population.group_names.index(group)]
    return float(allowed[np.isfinite(allowed)].max(initial=0.0)) or math.inf


def finite(value: Any) -> Any:
    """The value; None for what is infinite, for which JSON has no number."""
    return None if isinstance(value, float) and math.isinf(value) else value
