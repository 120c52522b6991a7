"""What an operator fixes before a run of secure sums: one mechanism for budgets that differ, from declared facts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sordino.accounting.accountants import RdpAccountant
from sordino.accounting.events import repeated
from sordino.accounting.guarantee import Guarantee
from sordino.aggregation import PublicWeight
from sordino.budgets import Budget, Unit
from sordino.core.errors import BudgetError, UsageError
from sordino.core.relations import Relation
from sordino.federation.messages import Model, Open, SecureSum
from sordino.federation.operator.folder import Card, Tier
from sordino.federation.secagg.identity import site_of
from sordino.methods import DpFedAvg, MethodOptions
from sordino.planning import Trust
from sordino.planning.integer import affordable_rounds, integer_sum, least_threshold
from sordino.privatizers.integer import IntegerSum


@dataclass(frozen=True, eq=False)
class SumPlan:
    """One noise for everybody, and for each budget the number of releases that it pays for at full price.

    The noise suits the budget under which the expected sum has the largest ratio of clients to noise, among
    those that leave every budget one release at least; looser budgets answer every round, stricter ones as often
    as they can pay. `tiers` are the declared budgets of all
    sites, `turns` how many of the run's releases a client of each takes part in.
    """

    method: DpFedAvg
    summed: SecureSum
    tiers: tuple[Tier, ...]
    turns: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def weight(self) -> PublicWeight:
        """One over the clients that a round has on average, as declared: a public constant."""
        total = sum(tier.units * turns for tier, turns in zip(self.tiers, self.turns, strict=True))
        return PublicWeight.mean_over(total / self.summed.mechanism.rounds)

    @property
    def delta(self) -> float:
        """At which every site charges."""
        return min(tier.delta for tier in self.tiers)

    def terms(self, run: str, purpose: str, model: Model) -> Open:
        """What every site is told."""
        return Open(
            run=run,
            purpose=purpose,
            method="dp-fedavg",
            trust="sum-only",
            model=model,
            releases=self.summed.mechanism.rounds,
            delta=self.delta,
            summed=self.summed,
        )

    def guarantees(self) -> tuple[Guarantee, ...]:
        """What holds for each budget. Nobody draws in secret, so outsiders learn no less than the operator."""
        judge = RdpAccountant()
        found: list[Guarantee] = []
        for against in ("outsiders", "server"):
            for tier, turns in zip(self.tiers, self.turns, strict=True):
                event = repeated(self.summed.mechanism.event(), turns)
                spent = judge.epsilon(event, self.delta, Relation.ZERO_OUT)
                sampling = f"in {turns} of {self.summed.mechanism.rounds} releases, turns that are public"
                found.append(
                    Guarantee(
                        group=f"ε = {tier.epsilon:g}",
                        clients=tier.units,
                        epsilon=spent,
                        delta=self.delta,
                        unit=str(Unit.CLIENT),
                        relation=str(Relation.ZERO_OUT),
                        against=against,
                        sampling=sampling,
                        accountant="rdp",
                        trust=str(Trust.SUM_ONLY),
                    )
                )
        return tuple(found)


def sum_plan(options: MethodOptions, cards: dict[str, Card], dimension: int, spare: int) -> SumPlan:
    """The plan of `dp-fedavg` under `sum-only` for the enrolled sites.

    Every client answers as often as its budget pays for: `cohort` and `rates` have no meaning where the operator
    sees who takes part. `spare` releases are paid for beside the recipe's rounds, for rounds that end void.
    """
    if not isinstance(options, DpFedAvg) or options.privacy.trust is not Trust.SUM_ONLY:
        raise UsageError(
            f"method '{options.name}': over a network dp-fedavg with privacy.trust = 'sum-only' adds up"
        )
    if options.adaptive_clip is not None or options.noise_multiplier is not None:
        raise UsageError("over a network the clip is fixed, and the noise follows from the budgets")
    tiers = _tiers(cards)
    names = tuple(sorted(cards))
    cohort = tuple(sorted(site_of(bytes.fromhex(cards[name].identity)).hex() for name in names))
    colluders = options.privacy.colluders
    threshold = options.privacy.survivors or least_threshold(len(cohort), colluders)
    delta = min(tier.delta for tier in tiers)
    best: tuple[float, IntegerSum, tuple[int, ...]] | None = None
    for epsilon in sorted({tier.epsilon for tier in tiers}):
        mechanism = integer_sum(
            Budget(epsilon, delta),
            rounds=options.rounds + spare,
            dimension=dimension,
            clip_norm=options.clip_norm,
            clients=sum(tier.units for tier in tiers),
            sites=len(cohort),
            colluders=colluders,
            threshold=threshold,
        )
        turns = tuple(
            min(affordable_rounds(mechanism, Budget(tier.epsilon, delta)), mechanism.rounds) for tier in tiers
        )
        clients = sum(tier.units * count for tier, count in zip(tiers, turns, strict=True)) / mechanism.rounds
        ratio = clients / mechanism.std
        if all(turns) and (best is None or ratio > best[0]):
            best = (ratio, mechanism, turns)
    if best is None:
        raise BudgetError("no budget pays for a single release; give fewer rounds or a larger δ")
    summed = SecureSum(best[1], options.training, cohort, threshold, colluders)
    return SumPlan(options, summed, tiers, best[2], names)


def _tiers(cards: dict[str, Card]) -> tuple[Tier, ...]:
    """The budgets of all sites together, each once."""
    for name, card in cards.items():
        if card.unit != str(Unit.CLIENT):
            raise UsageError(f"site '{name}' protects a {card.unit}; a secure sum protects whole clients")
        if not card.tiers:
            raise UsageError(
                f"site '{name}' declares no clients; its owner can set units_public = true and send a new card"
            )
    found: dict[tuple[float, float], Tier] = {}
    for tier in (tier for card in cards.values() for tier in card.tiers):
        key = (tier.epsilon, tier.delta)
        before = found.get(key)
        found[key] = tier if before is None else replace(before, units=before.units + tier.units)
    return tuple(found[key] for key in sorted(found))
