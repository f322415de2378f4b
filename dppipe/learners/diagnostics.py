"""Diagnostics of clipping: un-noised functions of private records, so they are off unless asked for, and marked `nonprivate/`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dppipe.engine import first_of_units
from dppipe.learners.contributions import Contributed

QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9}


class ClippingDiagnostics:
    """Collects the norms of one step's examples; of this process's share, where there are several."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        """What the last step showed, by names under `nonprivate/`."""
        self._norms: list[Tensor] = []
        self._broken = 0

    def add(self, added: Contributed) -> None:
        """Take up the norms of a physical batch, each unit's once, and its broken records."""
        norms, units = added.norms, added.units
        self._norms.append(
            norms.detach()
            if units is None
            else norms[first_of_units(units).to(norms.device)].detach()
        )
        self._broken += added.broken

    def summarise(
        self, clipped_sum: Tensor, *, bounds: Tensor, noise_std: float
    ) -> None:  # [P], [G]
        """Work out the step's norm quantiles, clipped fraction and signal-to-noise ratio, and forget its norms."""
        norms, self._norms = torch.cat([bounds.new_zeros(0, len(bounds)), *self._norms]), []
        noise = noise_std * math.sqrt(max(1, clipped_sum.numel()))
        found = {
            "signal_to_noise": float(clipped_sum.norm()) / noise,
            "broken_records": float(self._broken),
        }
        self._broken = 0
        # Every name is shown at every step: which of them can be computed is known by the records alone.
        whole = norms.norm(dim=1).double()
        found["clipped_fraction"] = float((norms > bounds).float().mean())
        for name, share in QUANTILES.items():
            found[f"grad_norm_{name}"] = float(whole.quantile(share)) if len(whole) else math.nan
        self.found = {f"nonprivate/{name}": value for name, value in found.items()}
