"""Diagnostics of clipping: functions of private records without noise.

They are off by default, and their names start with `nonprivate/`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dppipe.engine import first_of_units
from dppipe.learners.sgd.contributions import Contributed

QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9}


class ClippingDiagnostics:
    """Collects the norms of one step's examples; with several processes, of this one's share."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        """The diagnostics of the last step, by names under `nonprivate/`."""
        self._norms: list[Tensor] = []
        self._broken = 0

    def add(self, added: Contributed) -> None:
        """Note the norms of a physical batch, each unit's once, and its broken records."""
        norms = added.norms
        if added.units is not None:
            norms = norms[first_of_units(added.units).to(norms.device)]
        self._norms.append(norms.detach())
        self._broken += added.broken

    def summarise(
        self,
        clipped_sum: Tensor,  # [P]
        bounds: Tensor,  # [G]
        noise_std: float,
    ) -> None:
        """Compute the step's norm quantiles, clipped fraction and signal-to-noise ratio.

        The norms are forgotten afterwards.
        """
        norms = torch.cat([bounds.new_zeros(0, len(bounds)), *self._norms])
        self._norms = []
        noise = noise_std * math.sqrt(max(1, clipped_sum.numel()))
        found = {
            "signal_to_noise": float(clipped_sum.norm()) / noise,
            "broken_records": float(self._broken),
            "clipped_fraction": float((norms > bounds).float().mean()),
        }
        self._broken = 0
        # Every name is shown at every step: which of them can be computed depends on the records.
        whole = norms.norm(dim=1).double()
        for name, share in QUANTILES.items():
            found[f"grad_norm_{name}"] = float(whole.quantile(share)) if len(whole) else math.nan
        self.found = {f"nonprivate/{name}": value for name, value in found.items()}
