"""Audits dppipe itself: correct trainings, and trainings with half of the noise.

    python tests/audit/one_run_campaign.py [--runs 20] [--canaries 1000] [--out FILE]

Each run is a whole training with reserved canaries on made-up records, about two seconds of one
core. Of correct runs the (epsilon, delta) bound must lie below the certificate, and the curve test
may reject a few (its level is 0.05); runs with half of the noise should be rejected.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dppipe.audit.one_run.training import audit_training
from dppipe.randomness.gaussian import GaussianStream
from dppipe.spec import Spec

SPEC: dict[str, Any] = {
    "version": 1,
    "name": "audited",
    "data": {"kind": "synthetic", "size": 1800, "features": 10},
    "model": "logistic",
    "optimizer": {"kind": "sgd", "lr": 0.5},
    "sampler": {"kind": "poisson", "expected_batch_size": 256},
    "budget": {"epsilon": 3.0, "delta": 1e-5},
    "train": {"epochs": 20},
}


def audited_spec(**blocks: Any) -> Spec:
    """Return a small spec with some blocks replaced."""
    return Spec.from_data(SPEC | blocks)


@contextmanager
def noise_times(factor: float) -> Iterator[None]:
    """Multiply the noise of every step, unknown to the ledger and the audit."""
    right = GaussianStream.add_

    def wrong(self: GaussianStream, flat: Any, std: float, *, over: float = 1.0) -> Any:
        return right(self, flat, std * factor, over=over)

    with patch.object(GaussianStream, "add_", wrong):
        yield


def audit_once(folder: Path, *, number: int, factor: float = 1.0, **blocks: Any) -> dict[str, Any]:
    """Return what one audit finds in a training whose noise is multiplied by a factor."""
    fault = nullcontext() if factor == 1 else noise_times(factor)
    with fault:
        _, result = audit_training(audited_spec(**blocks), number=number, run_dir=folder)
    return result.to_data()


def main() -> None:
    """Run the campaign and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--canaries", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, factor in (("correct", 1.0), ("half the noise", 0.5)):
            found[name] = []
            for number in range(options.runs):
                place = Path(folder) / f"{factor}-{number}"
                result = audit_once(place, number=options.canaries, factor=factor)
                found[name].append(result)
                told = f"{result['right']} of {result['guesses']}, p = {result['p_value']:.3g}"
                print(
                    f"{name} {number + 1}: {told}, epsilon {result['epsilon_lower']:.3f}",
                    flush=True,
                )
    for name, results in found.items():
        rejected = sum(result["rejected"] for result in results)
        below = sum(r["epsilon_lower"] < r["claimed_epsilon"] for r in results)
        print(f"{name}: {rejected} of {len(results)} rejected, bound below the claim in {below}")
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
