"""Numbers about the votes that carry no noise, for whoever has asked for them: `nonprivate/` alone.

They are written under `nonprivate/pate/` with `diagnostics: nonprivate`, once the votes are charged
and released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.runs.directory import write_json

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.learners.job import Job
    from dppipe.privacy.release import Release

_MEANING = (
    "Given these very votes, labels without the noisy counts cost this epsilon (Papernot et al. "
    "2018). It depends on the records and carries no noise: don't publish it. The claim is the "
    "statement's."
)


class VoteDiagnostics:
    """The data-dependent epsilon of the labels, where it was asked for and has a formula."""

    def __init__(self, job: Job, release: Release, *, rho: float) -> None:
        # rho: what was released before the votes, as of one Gaussian release
        self._job = job
        self._release = release
        self._rho = rho
        self._epsilon: float | None = None

    def look(self, counts: Tensor) -> None:  # [n, classes]
        """Note what the labels cost given these counts; nothing where nobody has asked."""
        delta = self._job.facts.delta
        if not self._job.diagnostics or delta is None:
            return
        if self._release.facts["aggregator"] == "lnmax":
            return
        # Read here: it needs SciPy.
        from dppipe.learners.teaching.data_dependent import epsilon_of_votes

        self._epsilon = epsilon_of_votes(
            counts.numpy(),
            noise_scale=float(self._release.facts["noise_scale"]),
            rho=self._rho,
            delta=delta,
        )

    def write(self) -> None:
        """Write what was noted."""
        if self._epsilon is None:
            return
        folder = self._job.directory / "nonprivate" / "pate"
        folder.mkdir(parents=True, exist_ok=True)
        data = {"epsilon": self._epsilon, "delta": self._job.facts.delta, "meaning": _MEANING}
        write_json(folder / "epsilon_data_dependent.json", data)
