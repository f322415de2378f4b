"""What samplers declare, found by their files.

Samplers stand in a layer below this one, so that nothing here imports them by name: a kind is asked
for by its file, as a spec asks for it, and only its declaration is read.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path

from dppipe.privacy.proofs import SamplerProof

_PACKAGE = "dppipe.sampling"
_FOLDER = Path(__file__).parents[1] / "sampling"


@functools.cache
def sampler_kinds() -> tuple[str, ...]:
    """Return the kinds of samplers that declare a proof."""
    kinds = [file.stem for file in _FOLDER.glob("*.py") if not file.name.startswith("_")]
    return tuple(kind for kind in sorted(kinds) if sampler_proof(kind) is not None)


@functools.cache
def sampler_proof(kind: str) -> SamplerProof | None:
    """Return what a kind of sampler declares; None where there is no such kind."""
    if not kind.isidentifier() or not (_FOLDER / f"{kind}.py").is_file():
        return None
    module = importlib.import_module(f"{_PACKAGE}.{kind}")
    for value in vars(module).values():
        if isinstance(value, type) and getattr(value, "kind", "") == kind:
            proof = getattr(value, "proof", None)
            return proof if isinstance(proof, SamplerProof) else None
    return None
