"""Rounds in which every site's message is private by itself: the engine's executor over a network."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from sordino.core.errors import SordinoError, UsageError
from sordino.core.streams import Streams
from sordino.engine import Scores, Task, evaluate
from sordino.engine.chunks import Chunk, Order, Partial
from sordino.engine.executors import one_thread
from sordino.engine.round import draw_cohorts
from sordino.federation import messages
from sordino.federation.messages import Answer, Close, Closed, LocalSteps, Loss, Model, Open, Opened, Step
from sordino.federation.operator.folder import Patience
from sordino.federation.operator.network import Network
from sordino.federation.refusals import Refusal, RefusedError
from sordino.methods import Method
from sordino.methods.loss_bulletin import LossBulletin
from sordino.training import PrivateTraining
from sordino.training.losses import LossRelease
from sordino.training.private import LOSS, LOSS_CLIP

Note = Callable[..., None]
Released = tuple[NDArray[np.float32], float | None]
"""What a site answers: its update, and its loss if the terms have one."""
RARE = math.log(1e12)
WAIT_SECONDS = 5.0
"""How long to wait before looking again whether enough sites are there."""
RETIRED = (Refusal.BUDGET, Refusal.ROUNDS, Refusal.FINISHED, Refusal.KILLED, Refusal.NOT_APPROVED)
"""Refusals after which a site is not asked again in this run; after all others it is, in the next round."""


def site_terms(
    run: str, purpose: str, method: Method, model: Model, sites: list[str], streams: Streams
) -> dict[str, Open]:
    """What each site that is drawn at all is told: its own mechanism, and how often it will be asked.

    Refuses a method whose messages are not private by themselves, or that needs more than updates.
    """
    training, records = method.training, method.plan.records
    if records is None or not isinstance(training, PrivateTraining):
        raise UsageError(
            f"method '{method.name}' leaves the noise to somebody else; over a network take one that protects "
            "records, or trust = 'sum-only'"
        )
    losses = training.losses
    if losses is not None and losses.by_client:
        raise UsageError(
            f"method '{method.name}' chooses sites by their last losses: nobody can say beforehand how often each is "
            "asked, and a site charges a run whole; over a network take another selection"
        )
    visits = np.zeros(len(sites), dtype=np.int64)
    for round_ in range(method.plan.rounds):
        for cohort in draw_cohorts(method, method.plan.phase(round_), round_, streams):
            np.add.at(visits, cohort, 1)
    options = training.options
    return {
        sites[k]: Open(
            run=run,
            purpose=purpose,
            method="dp-sgd",
            trust="local",
            model=model,
            releases=int(visits[k]),
            delta=float(records.delta[k]),
            local=LocalSteps(
                noise_multiplier=float(training.noise_multiplier[k]),
                sampling_rate=float(training.sampling_rate[k]),
                expected_batch=float(training.expected_batch[k]),
                learning_rate=options.learning_rate,
                clip_norm=training.clip_norm,
                steps=options.steps,
                decay=options.decay,
                mode=options.mode,
                fairness=training.fairness,
            ),
            loss=None if losses is None else _loss(method, losses, int(k)),
        )
        for k in np.flatnonzero(visits)
    }


def _loss(method: Method, losses: LossRelease, site: int) -> Loss:
    """What a site tells of its loss: bounded as the method's bulletin will ever bound it."""
    assert isinstance(method.bulletin, LossBulletin)
    return Loss(
        most=method.bulletin.clip.ceiling,
        noise_multiplier=float(losses.noise_multiplier[site]),
        divisor=float(losses.sizes[site]),
    )


class NetworkExecutor:
    """Asks the sites of each chunk and adds up what they release.

    A site that does not answer, or not with a well-formed vector that its terms can make, adds nothing in that
    round: the noise of the others covers them without it. Asking again after a crash is safe: a site's answer to
    one (run, round, copy) never changes.
    """

    def __init__(
        self,
        task: Task,
        method: Method,
        sites: list[str],
        terms: dict[str, Open],
        network: Network,
        patience: Patience,
        note: Note,
    ) -> None:
        self._task, self._method, self._sites, self._terms = task, method, sites, terms
        self._network, self._patience, self._note = network, patience, note
        self._model = task.working_model()
        self._open: set[str] = set()
        self._said: dict[str, str] = {}
        self.retired: dict[str, str] = {}

    def partials(self, order: Order, chunks: Sequence[Chunk]) -> Iterator[Partial]:
        """One partial for each chunk, in their order, after all sites were asked together."""
        answers = self._answers(order, chunks)
        for chunk in chunks:
            total, clients = torch.zeros_like(order.theta), 0
            released: dict[str, float] = {}
            for key in zip(chunk.clients.tolist(), chunk.copies.tolist(), strict=True):
                if key in answers:
                    weights = self._method.importance
                    alpha = 1.0 if weights is None else float(weights[key[0]])
                    update, loss = answers[key]
                    total.add_(torch.from_numpy(update.copy()), alpha=alpha)
                    clients += 1
                    self._add(released, self._terms[self._sites[key[0]]].loss, loss)
            yield Partial(total, clients, released=released)

    def scores(self, theta: torch.Tensor, *, auroc: bool = False) -> Scores:
        """On the operator's own, public test examples."""
        with one_thread():
            return evaluate(self._model, theta, self._task.data.test, auroc=auroc)

    def finish(self) -> dict[str, Closed]:
        """Ends the run at every site that can be reached; what each says of its own ledger."""
        asked = {
            name: messages.encode(Close(terms.run, terms.digest()))
            for name, terms in self._terms.items()
            if name in self._network.online()
        }
        said = self._network.exchange(asked, self._patience.answer_seconds)
        closed: dict[str, Closed] = {}
        for name, data in said.items():
            try:
                closed[name] = messages.expect(data, Closed)[0]
            except RefusedError as refused:
                self._note("refused", site=name, reason=str(refused.name))
        return closed

    def close(self) -> None:
        """Hangs up."""
        self._network.close()

    def _add(self, released: dict[str, float], terms: Loss | None, loss: float | None) -> None:
        """Adds a site's loss to the sums that the method's bulletin reads."""
        if terms is not None and loss is not None:
            released["loss_sum"] = released.get("loss_sum", 0.0) + loss * terms.divisor
            released["loss_units"] = released.get("loss_units", 0.0) + terms.divisor

    def _answers(self, order: Order, chunks: Sequence[Chunk]) -> dict[tuple[int, int], Released]:
        """What the sites drawn released, by client and copy; asked again while fewer than `least_sites` answered."""
        answers: dict[tuple[int, int], Released] = {}
        pairs = [pair for chunk in chunks for pair in zip(chunk.clients, chunk.copies, strict=True)]
        deadline = time.monotonic() + self._patience.wait_seconds
        told = False
        while True:
            self._admit()
            if set(self._terms) <= set(self.retired):
                raise SordinoError(f"round {order.round}: no site is left ({self._refusals()})")
            for copy in sorted({int(copy) for _, copy in pairs}):
                drawn = [int(k) for k, c in pairs if c == copy and (int(k), copy) not in answers]
                for client, released in self._ask(order, np.array(drawn, dtype=np.int64), copy).items():
                    answers[client, copy] = released
            asked = {self._sites[k] for k, _ in pairs} - set(self.retired)
            heard = {self._sites[k] for k, _ in answers}
            if len(heard) >= min(self._patience.least_sites, len(asked)):
                self._note("round", round=order.round, heard=sorted(heard), missing=sorted(asked - heard))
                return answers
            if time.monotonic() + WAIT_SECONDS > deadline:
                raise SordinoError(
                    f"round {order.round}: {len(heard)} of {len(asked)} sites answered in "
                    f"{self._patience.wait_seconds:g} s, least_sites is {self._patience.least_sites} "
                    f"({self._refusals()}); go on later with --resume"
                )
            if not told:
                self._note("waiting", round=order.round, heard=sorted(heard), asked=sorted(asked))
                told = True
            time.sleep(WAIT_SECONDS)

    def _refusals(self) -> str:
        """What each site said last when it refused."""
        return ", ".join(f"{name}: {reason}" for name, reason in sorted(self._said.items())) or "none refused"

    def _admit(self) -> None:
        """Opens the run at sites that are connected and were not asked yet: late ones are welcome."""
        online = self._network.online()
        asked = {
            name: messages.encode(terms)
            for name, terms in self._terms.items()
            if name in online and name not in self._open and name not in self.retired
        }
        for name, data in (
            self._network.exchange(asked, self._patience.answer_seconds).items() if asked else ()
        ):
            try:
                receipt, _ = messages.expect(data, Opened)
                self._open.add(name)
                self._note("opened", site=name, epsilon=receipt.epsilon, head=receipt.head)
            except RefusedError as refused:
                self._refused(name, refused)

    def _ask(self, order: Order, drawn: NDArray[np.int64], copy: int) -> dict[int, Released]:
        theta = {"theta": order.theta.cpu().numpy()}
        place = {self._sites[k]: int(k) for k in drawn.tolist()}
        told = order.public.get(LOSS), order.public.get(LOSS_CLIP)
        asked = {
            name: messages.encode(Step(terms.run, terms.digest(), order.round, copy, *told), theta)
            for name, terms in self._terms.items()
            if name in place and name in self._open
        }
        found: dict[int, Released] = {}
        for name, data in (
            self._network.exchange(asked, self._patience.answer_seconds).items() if asked else ()
        ):
            try:
                found[place[name]] = _released(data, order, copy, self._terms[name])
            except RefusedError as refused:
                self._refused(name, refused)
        return found

    def _refused(self, name: str, refused: RefusedError) -> None:
        self._note("refused", site=name, reason=str(refused.name), detail=refused.detail)
        self._said[name] = str(refused.name)
        if refused.name in RETIRED:
            self._open.discard(name)
            self.retired[name] = str(refused.name)


def reach(local: LocalSteps, round_: int, dimension: int) -> float:
    """The largest norm of an update that a site's mechanism makes: who keeps to its terms stays within it.

    Each step adds at most one clipped gradient for each unit that is drawn, and noise. Both exceed their bounds
    (Bernstein's for the draw, the Gaussian's for its norm) with a probability below 1e-12 a step.
    """
    batch = local.expected_batch
    drawn = min(batch / local.sampling_rate, batch + math.sqrt(2 * batch * RARE) + RARE)
    noise = local.noise_multiplier * (math.sqrt(dimension) + math.sqrt(2 * RARE))
    rate = local.learning_rate * local.decay**round_
    return 1.01 * local.steps * rate * local.clip_norm * (drawn + noise) / batch


def _released(data: bytes, order: Order, copy: int, terms: Open) -> Released:
    """A site's update and loss, if they are: of this round, of the model's length, and within what its terms make."""
    assert terms.local is not None
    answer, arrays = messages.expect(data, Answer)
    update = arrays.get("update")
    if (answer.round, answer.attempt) != (order.round, copy):
        raise RefusedError(Refusal.INVALID, f"an answer to round {answer.round}, copy {answer.attempt}")
    if update is None or update.dtype != np.float32 or update.shape != tuple(order.theta.shape):
        raise RefusedError(Refusal.PARAMETERS, "an update of another shape")
    length = float(np.linalg.norm(update.astype(np.float64)))
    most = reach(terms.local, order.round, len(update))
    if not length <= most:
        raise RefusedError(Refusal.PARAMETERS, f"an update of norm {length:.3g}; its terms make {most:.3g}")
    if (answer.loss is None) is not (terms.loss is None):
        raise RefusedError(Refusal.METRICS, "a loss that is not as the terms say")
    if answer.loss is not None and terms.loss is not None and not _possible(answer.loss, terms.loss):
        raise RefusedError(Refusal.METRICS, f"a loss of {answer.loss:.3g}, which its terms do not make")
    return update, answer.loss


def _possible(loss: float, terms: Loss) -> bool:
    """Whether a loss is within its bound and its noise."""
    return abs(loss) <= terms.most * (1.01 + terms.noise_multiplier * math.sqrt(2 * RARE) / terms.divisor)
