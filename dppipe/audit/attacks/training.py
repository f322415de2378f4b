"""Training models for an attack: twins and shadows, by a spec's own learner, in a temporary folder.

Such a model has seen real records, so it never leaves the folder, which is removed at the end, also
after Ctrl-C. Nothing is charged to a scope: nothing may be released from it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dppipe.audit.attacks.predictor import Predictor, load_predictor
from dppipe.data.base import Data, SplitBy, Splits
from dppipe.errors import Interrupted
from dppipe.pipeline.run import run_spec
from dppipe.planning.privacy_plan import make_plan
from dppipe.runs.directory import RunDirectory

if TYPE_CHECKING:
    from dppipe.audit.attacks.records import Records
    from dppipe.spec.spec import Spec

_NEVER = 10**9
"""Steps between checkpoints and validations: more than any run takes."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder that only this user can read; it is removed however the work ends.

    What runs inside adds to no store of budgets and to no list of finished runs but its own.
    """
    before = os.environ.get("DPPIPE_STORE")
    with tempfile.TemporaryDirectory(prefix="dppipe-attack-") as name:
        folder = Path(name)
        os.environ["DPPIPE_STORE"] = str(folder / "store" / "budgets.db")
        try:
            yield folder
        except Interrupted as error:
            # Its message names a run directory that is gone.
            raise Interrupted(
                "attack: interrupted. Nothing was kept: start it again.", exit_code=error.exit_code
            ) from None
        finally:
            if before is None:
                del os.environ["DPPIPE_STORE"]
            else:
                os.environ["DPPIPE_STORE"] = before


def train_on(spec: Spec, records: Records, *, seed: int, folder: Path) -> Predictor:
    """Return a model that a spec's learner has trained on these records, with these weights' seed.

    The spec may have a budget: the model is then trained with its clipping and noise.
    """
    changed = trained_alone(spec, records, seed=seed)
    run_dir = Path(tempfile.mkdtemp(dir=folder))
    run_spec(changed, make_plan(changed), run_dir=run_dir)
    return load_predictor(RunDirectory.open(run_dir), changed)


def without_budget(spec: Spec, *, epochs: float | None = None, steps: int | None = None) -> Spec:
    """Return a spec that trains without clipping and noise, for other epochs or steps if given."""
    changes: dict[str, Any] = {"budget": "none"}
    length: dict[str, Any] | None = None
    if epochs is not None:
        length = {"epochs": epochs, "steps": None, "until": None}
    elif steps is not None:
        length = {"epochs": None, "steps": steps, "until": None}
    if length is not None:
        changes["train"] = spec.train.model_copy(update=length)
    return spec.model_copy(update=changes)


def trained_alone(spec: Spec, records: Records, *, seed: int) -> Spec:
    """Return a spec that trains on these records alone, without validation and scope."""
    changes: dict[str, Any] = {
        "data": _with_records(spec.data, records),
        "seed": seed,
        "diagnostics": "off",
    }
    if spec.takes_steps:
        often = {"validate_every": _NEVER, "checkpoint_every": _NEVER}
        changes["train"] = spec.train.model_copy(update=often)
    if spec.budget != "none":
        changes["budget"] = spec.budget.model_copy(update={"scope": None, "store": None})
    return spec.model_copy(update=changes)


def _with_records(data: Data, records: Records) -> Data:
    """Return data of the same kind and options whose training records are these."""
    kind: Any = type(data)

    class Given(kind, kind=data.kind):  # type: ignore[misc, call-arg]
        """The same data with other records."""

        def splits(self, *, seed: int, by: SplitBy = "position") -> Splits:
            return Splits(records.dataset(), None, None)

        def train_count(self) -> int:
            return len(records)

        def train_users(self) -> int:
            return len(set(records.units.tolist()))

    options = {name: getattr(data, name) for name in kind.model_fields}
    return cast("Data", Given.model_construct(**options))
