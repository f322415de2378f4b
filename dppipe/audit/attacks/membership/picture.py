"""The picture of a membership attack: true- against false-positive rates on logarithmic axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy

from dppipe.audit.attacks.membership.roc import bounds
from dppipe.privacy.printing import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dppipe.audit.attacks.claim import Claim
    from dppipe.audit.attacks.membership.roc import Roc

_PRIVATE = "#1f5fa8"
_TWIN = "#d1601f"


@dataclass(frozen=True)
class RocPicture:
    """The attack on both models, and what the certificate leaves to any attacker."""

    title: str
    private: Roc
    twin: Roc
    twin_name: str
    claim: Claim

    def __call__(self, figure: Figure) -> None:
        """Draw the picture on an empty figure."""
        axes: Any = figure.subplots()
        lowest = 1 / (2 * max(self.private.members, self.private.non_members))
        places = numpy.geomspace(lowest, 1, 400)
        self._draw_claim(axes, places)
        axes.plot(places, places, color="0.6", linewidth=1, label="guessing")
        _draw_attack(axes, self.twin, colour=_TWIN, name=self.twin_name, lowest=lowest)
        _draw_attack(axes, self.private, colour=_PRIVATE, name="private run", lowest=lowest)
        axes.set(
            xscale="log",
            yscale="log",
            xlim=(lowest, 1),
            ylim=(lowest, 1.05),
            xlabel="false-positive rate: non-members taken for members",
            ylabel="true-positive rate: members found",
        )
        axes.grid(alpha=0.25, which="major")
        axes.legend(fontsize=8, loc="lower right", framealpha=0.95)
        figure.suptitle(self.title, fontsize=9.5)

    def _draw_claim(self, axes: Any, places: Any) -> None:
        most = self.claim.blow_up(places)
        axes.fill_between(places, most, 2.0, color="0.5", alpha=0.13, linewidth=0)
        axes.plot(
            places, most, color="black", linewidth=1.6, label="most that the certificate allows"
        )
        point = f"(ε {shown(self.claim.epsilon)}, δ {self.claim.delta:g})"
        axes.plot(
            places,
            self.claim.one_point(places),
            ":",
            color="black",
            linewidth=1.2,
            label=f"from {point} alone",
        )


def _draw_attack(axes: Any, roc: Roc, *, colour: str, name: str, lowest: float) -> None:
    """Draw an attack's steps and their band; a rate of 0 stands at the axes' edge."""
    false_rate, true_rate = roc.rates
    low, high = bounds(roc.true_positives, roc.members)
    places = numpy.maximum(false_rate, lowest)
    axes.fill_between(
        places,
        numpy.maximum(low, lowest / 10),
        high,
        step="post",
        color=colour,
        alpha=0.2,
        linewidth=0,
    )
    axes.step(
        places,
        numpy.maximum(true_rate, lowest / 10),
        where="post",
        color=colour,
        linewidth=1.5,
        label=f"{name}, AUC {roc.area:.2f}, with 95 % bounds",
    )
