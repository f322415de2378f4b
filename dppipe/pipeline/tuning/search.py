"""A private search: charge all of it, draw its order, make its runs, release the best.

Guarantees:
- The one row that pays for everything is durable before anything is drawn.
- The number of runs and their candidates are drawn once, from a secret stream.
- Nothing leaves but the best run: no count, no score of another run, no time.

The mechanism is Algorithm 1 of Papernot and Steinke (2022), "Hyperparameter Tuning with Renyi
Differential Privacy"; `privacy/selection/PROOF.md` has the cost.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dppipe.engine.allocator import keep_freed_memory
from dppipe.errors import DppipeError, Interrupted, PrivacyRefusal, UsageError
from dppipe.learners.gate import Gate
from dppipe.learners.gating.sources import NoiseSources
from dppipe.learners.gating.upcoming import PlannedReleases
from dppipe.learners.inputs.lost_releases import refuse_lost_releases
from dppipe.learners.ranks import LostProcess, Ranks
from dppipe.pipeline.paid import Paid
from dppipe.pipeline.run import read_inputs
from dppipe.pipeline.tuning.candidates import Runner
from dppipe.pipeline.tuning.ending import clean_up, even_times, read_release, release_winner
from dppipe.pipeline.tuning.scoring import shown_score
from dppipe.pipeline.tuning.sealed import Sealed
from dppipe.pipeline.tuning.starting import check_models, plan_candidates, starting_hashes
from dppipe.planning.privacy_plan import run_parts
from dppipe.privacy.selection.drawing import draw_order
from dppipe.privacy.selection.repetitions import Repetitions
from dppipe.randomness.keystream import Keystream
from dppipe.randomness.streams import stream_key
from dppipe.runs.directory import RunDirectory
from dppipe.runs.record import RunRecord
from dppipe.runs.tensors import load_tensors
from dppipe.text_layout import shown_command

if TYPE_CHECKING:
    from dppipe.pipeline.tuning.candidates import Candidate
    from dppipe.planning.tuning.tune_plan import TunePlan
    from dppipe.runs.outcome import Outcome, Stop
    from dppipe.spec.kinds.registry import Registry
    from dppipe.spec.spec import Spec


def run_search(
    spec: Spec, plan: TunePlan, *, run_dir: Path | None = None, registry: Registry | None = None
) -> Outcome:
    """Make a private search, and leave the run directory of its best run.

    Args:
        spec: A spec with a `tune` block.
        plan: The plan of the search.
        run_dir: Where the run is written.
        registry: Where candidates' kinds are looked up, if plugins stand elsewhere than usual.
    """
    # All that can go wrong before a record is read goes wrong before anything is charged.
    candidates = plan_candidates(spec, plan, registry=registry)
    check_models(candidates)
    run = RunDirectory.create(spec.name, run_dir=run_dir)
    record = RunRecord.create(
        run, plan=plan, parts=run_parts(spec), config=spec.to_yaml(), data=spec.data
    )
    return _Search(spec, plan, record, candidates, _folder(registry)).to_the_end()


def resume_search(
    run: RunDirectory, spec: Spec, plan: TunePlan, *, registry: Registry | None = None
) -> Outcome:
    """Go on with an interrupted search: its number of runs stays as it was drawn.

    Args:
        run: The directory of the search.
        spec: The spec of the search.
        plan: Its plan.
        registry: Where candidates' kinds are looked up, if plugins stand elsewhere than usual.
    """
    candidates = plan_candidates(spec, plan, registry=registry)
    record = RunRecord.reopen(run, plan=plan, parts=run_parts(spec), restored={}, data=spec.data)
    try:
        first = plan.model_copy(update={"releases": plan.releases[:-1]})
        refuse_lost_releases(run, record.ledger, first)
    except BaseException:
        record.close()
        raise
    return _Search(spec, plan, record, candidates, _folder(registry)).to_the_end()


def _folder(registry: Registry | None) -> Path | None:
    return None if registry is None else registry.folder


@dataclass
class _Search:
    """A search under way."""

    spec: Spec
    plan: TunePlan
    record: RunRecord
    candidates: tuple[Candidate, ...]
    plugins: Path | None

    def __post_init__(self) -> None:
        self._stream = Keystream(stream_key("selection"))
        self._run = self.record.run

    def to_the_end(self) -> Outcome:
        """Search and release, or stop so that the search can go on later."""
        keep_freed_memory()
        stopped: Stop | None = "failed"
        code = 0
        try:
            self._search()
            stopped = None if self._has_model() else "failed"
        except KeyboardInterrupt:
            code = 128 + signal.SIGINT
        except Interrupted as error:
            code = error.exit_code
        except LostProcess:
            code = LostProcess.exit_code
        finally:
            outcome = self._finish("interrupted" if code else stopped)
        # Raised here, so that no error of a run, which names its number, stands behind it.
        if code:
            why = "the search was stopped"
            if code == LostProcess.exit_code:
                why = "a process of the search is lost (performance.devices), and it was stopped"
            raise Interrupted(
                f"{self._run.path}: {why}. Go on with: {shown_command('resume', self._run.path)}",
                exit_code=code,
            )
        if stopped == "failed":
            raise DppipeError(
                f"{self._run.path}: the search has ended and released no model: it has made no "
                "run, or every run has failed. What it has charged stays spent. Try a candidate on "
                "public or made-up records."
            )
        return outcome

    def _search(self) -> None:
        if read_release(self._run) is None:
            sealed = self._searched()
            release_winner(self._run, self.plan, sealed, self.candidates)
        Sealed(self._run, row="").delete()
        clean_up(self._run)

    def _searched(self) -> Sealed:
        """Charge the search, then make every run that is left."""
        plan = self.plan
        if plan.relation is None:
            raise PrivacyRefusal("tune: expected a plan with a budget, got one without.")
        inputs = read_inputs(self.spec, plan)
        sources = NoiseSources(secure=plan.secure)
        gate = Gate(
            self.record.ledger,
            PlannedReleases(plan),
            plan.relation,
            plan.unit,
            sources=sources,
            on_release=self.record.release,
        )
        inputs.prepare(plan, self._run, gate, ranks=Ranks())
        release = gate.next()
        if release is None:
            raise PrivacyRefusal("tune: expected a plan that charges the search, got none.")
        row = gate.cover(release)
        sealed = Sealed(self._run, row=row)
        sealed.open(self._draw, candidates=len(self.candidates))
        splits = inputs.splits
        if splits.val is None:
            raise UsageError("data.split: expected validation records to score runs on, got none.")
        paid = Paid(row, splits._replace(val=None, test=None), self._run)
        score = plan.search.score
        runner = Runner(self.candidates, paid, splits.val, score, sources, self.plugins)
        while not sealed.is_over:
            number = sealed.progress.done
            found = runner.score_of(sealed.place(number), sealed.order[number])
            sealed.record(score=found, wins=self._wins(found, sealed.progress.score))
        return sealed

    def _draw(self) -> tuple[int, ...]:
        """Draw the number of runs, and the candidate of each."""
        planned = self.plan.search.repetitions
        shape = float("inf") if planned.shape is None else planned.shape
        return draw_order(
            Repetitions(mean=planned.mean, shape=shape),
            [candidate.weight for candidate in self.plan.search.candidates],
            secret_bits=self._bits,
        )

    def _bits(self, count: int) -> int:
        """Return a uniform integer of so many secret bits."""
        size = (count + 7) // 8
        return int.from_bytes(self._stream.bytes(size), "big") >> (8 * size - count)

    def _wins(self, score: float | None, best: float | None) -> bool:
        """Return whether a run is better than the best before it; equal ones toss a coin."""
        if score is None:
            return False
        if best is None or score > best:
            return True
        return score == best and self._bits(1) == 1

    def _has_model(self) -> bool:
        found = read_release(self._run)
        return found is not None and found["winner"] is not None

    def _finish(self, stopped: Stop | None) -> Outcome:
        """Write the summary and the statement of the search, which say nothing of other runs."""
        winner = (read_release(self._run) or {}).get("winner") or {}
        weights = {}
        start: frozenset[str] = frozenset()
        if stopped is None:
            weights = load_tensors(self._run.final_checkpoint)
            start = starting_hashes(self.candidates[winner["candidate"]].spec)
            name, score = shown_score(winner["score"], self.plan.search.score)
            self.record.metrics[name] = score
        outcome = self.record.finish(
            weights,
            stopped=stopped,
            steps=0,
            start=start,
            validates=False,
            physical_batch_size=winner.get("physical_batch_size"),
            independence=winner.get("independence"),
        )
        if stopped is None:
            even_times(self._run)
        return outcome
