"""What a private search costs, by the mean number of its runs: four ways to charge it.

    python benchmarks/tuning_cost.py docs/images/tuning.png

One run is that of `pipelines/quickstart.yaml`: sample rate 256/1438, noise multiplier 2.8332, 113
steps, epsilon 3.00 at delta 1e-5. Nothing is trained, and no record is read. It takes some seconds.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import dp_accounting

from dppipe.privacy.accountants import Pld, Rdp
from dppipe.privacy.accountants.base import Accountant

DELTA = 1e-5
MEANS = (2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0)
STEP = dp_accounting.PoissonSampledDpEvent(256 / 1438, dp_accounting.GaussianDpEvent(2.8332))
RUN = dp_accounting.SelfComposedDpEvent(STEP, 113)
PLANNED = 10.0


def cost(accountant: Accountant, event: dp_accounting.DpEvent, count: int = 1) -> float:
    """Return the epsilon of an event, made so many times."""
    return accountant.compose([(event, count)], relation="zero_out").epsilon(DELTA)


def best_of(mean: float, shape: float) -> dp_accounting.DpEvent:
    """Return the event of the best of several runs."""
    return dp_accounting.dp_event.RepeatAndSelectDpEvent(RUN, mean, shape)


def draw(path: Path) -> None:
    """Compute all costs and draw them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 4.6), layout="constrained")
    every = [cost(Pld(), RUN, math.ceil(mean)) for mean in MEANS]
    axes.plot(MEANS, every, color="#b04030", label="every run released: composition")
    by_rdp = [cost(Rdp(), best_of(mean, 0.0)) for mean in MEANS]
    axes.plot(MEANS, by_rdp, color="#d08a20", label="only the best released: Rényi divergences")
    by_curve = [cost(Pld(), best_of(mean, 0.0)) for mean in MEANS]
    axes.plot(MEANS, by_curve, color="#2060a0", label="only the best released: curve of one run")
    one = cost(Pld(), RUN)
    axes.axhline(one, color="grey", linestyle=":", label=f"one run: ε = {one:.2f}")
    _mark(axes, by_curve[MEANS.index(PLANNED)])
    axes.set(xscale="log", yscale="log", xlim=(MEANS[0], MEANS[-1]), ylim=(2.5, 70))
    axes.set_xticks([2, 5, 10, 20, 50, 100], labels=["2", "5", "10", "20", "50", "100"])
    axes.set_yticks([3, 5, 10, 20, 50], labels=["3", "5", "10", "20", "50"])
    axes.minorticks_off()
    axes.set(
        xlabel="runs of the search on average", ylabel=f"ε of everything released, δ = {DELTA:g}"
    )
    best = by_curve[MEANS.index(PLANNED)] / one
    whole = every[MEANS.index(PLANNED)] / one
    axes.set_title(
        f"The best of ten runs costs {best:.2f} times one run; all ten would cost {whole:.2f} times",
        fontsize=11,
    )
    axes.legend(loc="upper left", fontsize=9)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


def _mark(axes: Any, epsilon: float) -> None:
    """Mark the search of the page."""
    axes.plot([PLANNED], [epsilon], "o", color="#2060a0")
    axes.annotate(
        f"{epsilon:.2f}",
        (PLANNED, epsilon),
        textcoords="offset points",
        xytext=(0, -15),
        ha="center",
    )


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
