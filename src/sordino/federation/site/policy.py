"""Whether the terms of a run are allowed: one place, before anything is charged or built."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn

from sordino.accounting.accountants import PldAccountant
from sordino.accounting.events import repeated
from sordino.budgets import Unit
from sordino.core.errors import SordinoError
from sordino.federation.messages import LocalSteps, Open, SecureSum, Step
from sordino.federation.refusals import Refusal, RefusedError
from sordino.federation.site.config import Allowed, Metrics, SiteConfig
from sordino.federation.site.mechanism import LocalMechanism
from sordino.models import build, check

METHODS = {"dp-sgd": ("local", False), "dp-fedavg": ("sum-only", True)}
"""What a site can run: under which trust model, and whether the unit is a client or something smaller."""

LEAST_NOISE = 0.1
"""Below, a Gaussian protects nobody, and no accountant is worth asking."""
RANGE = (1e-6, 1e6)
"""Clip norms, step sizes and batches outside of it would leave the arithmetic of a float, not a use."""


def check_terms(config: SiteConfig, terms: Open) -> None:
    """Refuses, by name, everything in the terms that the owner does not allow."""
    allow = config.allow
    _among(terms.purpose, allow.purposes, Refusal.PURPOSE)
    _among(terms.trust, allow.trust, Refusal.TRUST)
    _among(terms.method, allow.methods, Refusal.METHOD)
    _among(terms.model.name, allow.models, Refusal.MODEL)
    if terms.releases > allow.rounds:
        raise RefusedError(Refusal.ROUNDS, f"{terms.releases} releases; allowed: {allow.rounds}")
    fits = METHODS.get(terms.method)
    if fits != (terms.trust, config.unit is Unit.CLIENT):
        raise RefusedError(
            Refusal.METHOD, f"'{terms.method}' is not for {terms.trust} and the unit {config.unit}"
        )
    if terms.local is not None:
        _check_steps(terms.local, allow)
    if terms.summed is not None:
        _check_sum(terms.summed, allow)
    _check_loss(terms, config.metrics)


def check_step(terms: Open, step: Step) -> None:
    """Refuses losses in a run that has none, and a bound outside of what its terms say."""
    if terms.loss is None:
        if step.loss is not None or step.most is not None:
            raise RefusedError(Refusal.METRICS, "the terms have no loss")
    elif step.most is not None and not RANGE[0] <= step.most <= terms.loss.most:
        raise RefusedError(
            Refusal.INVALID, f"most = {step.most:g}; the terms say {terms.loss.most:g} or less"
        )


def module_for(terms: Open, allow: Allowed, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """The model of the terms, measured before it takes memory; refused if it is not for this site's data."""
    model = terms.model
    if (tuple(model.input_shape), model.classes) != (input_shape, classes):
        asked = f"{tuple(model.input_shape)} and {model.classes} classes"
        raise RefusedError(Refusal.MODEL, f"it is for {asked}; the data has {input_shape} and {classes}")
    try:
        with torch.device("meta"):
            empty = build(model.name, input_shape, classes, 0, **copy.deepcopy(model.options))
        size = sum(parameter.numel() for parameter in empty.parameters())
        if size > allow.parameters:
            raise RefusedError(Refusal.MODEL_SIZE, f"{size} parameters; allowed: {allow.parameters}")
        if terms.summed is not None and terms.summed.mechanism.dimension != size:
            raise RefusedError(Refusal.MODEL, f"{size} parameters; the mechanism is for another number")
        module = build(model.name, input_shape, classes, 0, **model.options)
        check(module, input_shape)
    except RefusedError:
        raise
    except (SordinoError, RuntimeError, ValueError, TypeError, OverflowError) as error:
        raise RefusedError(Refusal.MODEL, " ".join(str(error).split())[:300]) from error
    return module


def _check_steps(local: LocalSteps, allow: Allowed) -> None:
    if local.steps > allow.steps:
        raise RefusedError(Refusal.ROUNDS, f"{local.steps} local steps; allowed: {allow.steps}")
    _check_noise(local.noise_multiplier)
    for name in ("clip_norm", "learning_rate", "expected_batch"):
        value = getattr(local, name)
        if not RANGE[0] <= value <= RANGE[1]:
            raise RefusedError(Refusal.INVALID, f"local.{name} = {value:g} is outside of {RANGE}")


def _check_sum(summed: SecureSum, allow: Allowed) -> None:
    _check_noise(summed.mechanism.noise_multiplier)
    training = summed.training
    if max(training.steps or 0, training.epochs or 0) > allow.steps:
        raise RefusedError(Refusal.ROUNDS, f"more local steps than the {allow.steps} that are allowed")
    for name, value in (("clip_norm", summed.mechanism.clip_norm), ("learning_rate", training.learning_rate)):
        if not RANGE[0] <= value <= RANGE[1]:
            raise RefusedError(Refusal.INVALID, f"summed.{name} = {value:g} is outside of {RANGE}")


def _check_loss(terms: Open, metrics: Metrics) -> None:
    if terms.loss is None:
        return
    if metrics.loss is None or terms.local is None:
        raise RefusedError(Refusal.METRICS, "the loss may not leave; [metrics] has no loss")
    _check_noise(terms.loss.noise_multiplier)
    if not RANGE[0] <= terms.loss.most <= RANGE[1]:
        raise RefusedError(Refusal.INVALID, f"loss.most = {terms.loss.most:g} is outside of {RANGE}")
    event = LocalMechanism(terms.local, terms.loss).loss_event
    cost = PldAccountant().epsilon(repeated(event, terms.releases), metrics.loss.delta)
    if cost > metrics.loss.epsilon:
        allowed = f"({metrics.loss.epsilon:g}, {metrics.loss.delta:g})"
        raise RefusedError(Refusal.METRICS, f"the loss costs ε = {cost:.4g}; [metrics] allows {allowed}")


def _check_noise(multiplier: float) -> None:
    if not LEAST_NOISE <= multiplier < math.inf:
        raise RefusedError(Refusal.NOISE, f"noise_multiplier = {multiplier:g} is below {LEAST_NOISE}")


def _among(value: str, allowed: tuple[str, ...], name: Refusal) -> None:
    if value not in allowed:
        raise RefusedError(name, f"'{value[:60]}'; allowed: {', '.join(allowed) or 'none'}")
