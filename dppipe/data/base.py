"""What a data kind is: where records come from, what is public about them, how they are split.

Everything a plan needs (the number of records, shapes, the task) is known without reading a record:
from the options, from a file's header, or from constants of a published dataset. Only `load` and
`splits` read records. Read next: `digits.py`, `idx.py`, then `reading/` and `splitting/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dppipe.component import Component, Field
from dppipe.data.reading.tasks import NO_TAG, Task
from dppipe.data.splitting.by_position import draw_order, split_users
from dppipe.data.splitting.dividing import divide
from dppipe.data.splitting.parts import Split, SplitBy, Splits, take, valid_part
from dppipe.errors import Problem, SpecError
from dppipe.input_layout import InputLayout

if TYPE_CHECKING:
    from pathlib import Path

    from torch.utils.data import Dataset

    from dppipe.data.features.base import FeatureMap
    from dppipe.data.reading.limits import Limits
    from dppipe.data.reading.new_inputs import NewInputs
    from dppipe.data.reading.private_scaling import PrivateScaling
    from dppipe.data.reading.scaling import Constants
    from dppipe.privacy.release import Prelude

__all__ = [
    "Data",
    "Split",
    "SplitBy",
    "Splits",
    "Task",
    "draw_order",
    "split_records",
    "split_users",
    "take",
    "valid_part",
]


class Data(Component):
    """Where records come from.

    An input is a float tensor of `input_shape`. A target is a class number (int64) of a multiclass
    task, 0.0 or 1.0 of a binary one, or a float tensor `[outputs]` of a regression. Data that fits
    in memory is loaded as a `TensorDataset`.

    Guarantees:
    - `count`, `train_count`, `input_shape`, `outputs`, `task` and `synthetic` never read a record.
    - A split by position depends on the seed and the number of records alone. In a split by hash,
      a record's part depends on the seed and that record alone.

    Example:
        >>> from dppipe.data import Synthetic
        >>> data = Synthetic(size=100, features=5, classes=2)
        >>> data.count(), data.input_shape  # no record is read
        (100, (5,))
        >>> train, val, test = data.splits(seed=0)
    """

    records: int | None = Field(
        None, gt=0, description="The number of records, where no file header states it."
    )
    users: int | None = Field(
        None,
        gt=0,
        description="The number of users, for `sampler: user`; "
        "shares of the split are then shares of the users.",
    )
    split: Split = Field(Split(), description="Shares of training, validation and test records.")
    holdout: Literal["public", "private"] = Field(
        "private",
        description="Whether validation and test records are sensitive, and metrics non-private.",
    )
    public: bool | None = Field(
        None, description="Whether no record of any part needs protection; lowers no charge."
    )
    on_bad_record: Literal["refuse", "drop"] | None = Field(
        None,
        description="What becomes of a record that can't be used: `refuse` names its place and "
        "stops before anything is charged, `drop` keeps its place and leaves it out. "
        "Unless stated, `refuse` where dppipe reads files and `drop` for a class of your own.",
    )

    checks_records: ClassVar[bool] = False
    """Whether `load` checks each record, and refuses or marks a bad one as `on_bad_record` says."""

    if TYPE_CHECKING:
        # Declared only: a kind may have each as an option, which can't shadow a property.

        @property
        def task(self) -> Task:
            """What is predicted: one of several classes, one of two, or numbers."""

        @property
        def input_shape(self) -> Sequence[int]:
            """The shape of one input, without the batch dimension."""

        @property
        def outputs(self) -> int:
            """The number of model outputs: classes, 1 for a binary task, or the targets."""

    @property
    def private_scaling(self) -> PrivateScaling | None:
        """The private statistics that the inputs are scaled by, if `normalize` has them."""
        from dppipe.data.reading.private_scaling import PrivateScaling

        normalize = getattr(self, "normalize", None)
        return normalize if isinstance(normalize, PrivateScaling) else None

    @property
    def feature_map(self) -> FeatureMap | None:
        """What inputs become before the model sees them, if `features` says so."""
        from dppipe.data.features.base import FeatureMap

        features = getattr(self, "features", None)
        return features if isinstance(features, FeatureMap) else None

    @property
    def model_input_shape(self) -> tuple[int, ...]:
        """The shape of one input as the model sees it: that of its features, where it has some."""
        shape = tuple(self.input_shape)
        features = self.feature_map
        return shape if features is None else features.output_shape(shape)

    @property
    def input_layout(self) -> InputLayout:
        """What is public about one input as the model sees it: its shape, and which are codes."""
        return InputLayout(self.model_input_shape)

    @property
    def preludes(self) -> tuple[Prelude, ...]:
        """What is released of the training records before the learner's own releases, in order."""
        from dppipe.data.features.pca import PrivatePca

        scaling = self.private_scaling
        features = self.feature_map
        first: tuple[Prelude, ...] = () if scaling is None else (scaling,)
        return (*first, features) if isinstance(features, PrivatePca) else first

    @property
    def public_scaling(self) -> tuple[Constants | Limits, ...]:
        """The public constants by which `load` scales inputs, in order; raw inputs repeat it."""
        from dppipe.data.reading.scaling import Constants

        normalize = getattr(self, "normalize", None)
        return (normalize,) if isinstance(normalize, Constants) else ()

    @property
    def scaled_features(self) -> int | None:
        """How many entries of an input's first dimension private statistics scale; None for all.

        They are counted from its start.
        """
        return None

    @property
    def class_labels(self) -> tuple[str, ...]:
        """What each class is called in predictions: its number, unless a kind knows its name."""
        if self.task == "regression":
            return ()
        return tuple(map(str, range(2 if self.task == "binary" else self.outputs)))

    def in_units_of_the_target(self, numbers: Any) -> Any:  # [n, outputs]
        """Return predicted numbers of a regression as the data's own file has them."""
        return numbers

    @property
    def reads_one_by_one(self) -> bool:
        """Whether `load` is known to return a dataset that isn't in memory as tensors."""
        return False

    def count(self) -> int:
        """Return the number of records that `split` divides."""
        if self.records is None:
            message = "expected the number of records, got nothing. State it: no file header does."
            raise SpecError([Problem(("data", "records"), message)])
        return self.records

    def known_count(self, known: int) -> int:
        """Return the number of records that is known; refuse another one in `records`."""
        if self.records not in (None, known):
            message = (
                f"expected {known}, which is how many there are, got {self.records}. "
                "Correct it, or leave it out."
            )
            raise SpecError([Problem(("data", "records"), message)])
        return known

    def train_count(self) -> int:
        """Return the number of training records."""
        train, _, _ = self.split.counts(self.count())
        if train < 1:
            message = (
                "expected at least one training record, got a share that rounds to none. "
                "Raise `train`."
            )
            raise SpecError([Problem(("data", "split"), message)])
        return train

    @property
    def by_users(self) -> bool:
        """Whether the units, by which data is split, are users: it says whose each record is."""
        return self.users is not None

    def train_users(self) -> int:
        """Return the number of users whose records are trained on."""
        if self.users is None:
            message = (
                "expected the number of users, got nothing. State it, or leave the users out: "
                "where the data names them, they are the unit of privacy."
            )
            raise SpecError([Problem(("data", "users"), message)])
        train, _, _ = self.split.counts(self.users)
        if train < 1:
            message = (
                "expected at least one user to train on, got a share that rounds to none. "
                "Raise `train`."
            )
            raise SpecError([Problem(("data", "split"), message)])
        return train

    @property
    def drops_bad_records(self) -> bool:
        """Whether a record that can't be used is left out, rather than refused."""
        if self.on_bad_record is None:
            return not self.checks_records
        return self.on_bad_record == "drop"

    def load(self) -> Dataset[Any] | Splits:
        """Read the records: all of them, for `split` to divide, or datasets that are already split.

        If `Splits` has no validation records, `split` takes them from the training records.
        """
        raise self.unwritten("load()")

    def splits(self, *, seed: int, by: SplitBy = "position") -> Splits:
        """Read the records and split them by the public seed; parts that `load` has made are kept.

        By position, the number of records is public. By hash, for `add_remove`, nothing here
        compares or shows it.
        """
        from dppipe.data.reading.map_style import require_map_style
        from dppipe.data.reading.record_checks import refuse_bad_records

        loaded = self.load()
        ready = loaded if isinstance(loaded, Splits) else Splits(loaded, None, None)
        require_map_style(ready.train, place="data")
        if not self.checks_records and not self.drops_bad_records:
            refuse_bad_records(ready, self)
        if ready.val is None:
            ready = divide(ready, self, by=by, seed=seed)
        # Training keeps the places of bad records, since its draws count them; scores don't.
        return Splits(ready.train, valid_part(ready.val), valid_part(ready.test))

    def new_inputs(self, path: Path) -> Iterator[NewInputs]:
        """Read records without targets, for predictions: raw inputs as the data's own file has."""
        from dppipe.data.reading.new_inputs import read_arrays

        name = str(getattr(self, "x", "x"))
        drop = self.drops_bad_records
        return read_arrays(
            path, name=name, input_shape=self.input_shape, scaling=self.public_scaling, drop=drop
        )

    @property
    def ranges(self) -> tuple[range | None, ...]:
        """The range of an input's and a target's integers, where they have one.

        A record outside of it contributes nothing.
        """
        words = self.input_layout.vocabulary
        lowest = {"multiclass": 0, "tagging": NO_TAG}.get(self.task)
        classes = None if lowest is None else range(lowest, self.outputs)
        return (None if words is None else range(words), classes)

    def synthetic(self, n: int) -> Any:
        """Make a batch `(inputs, targets)` of `n` made-up examples, for self-checks only."""
        from dppipe.data.reading.made_up import made_up_examples

        layout = replace(self.input_layout, shape=tuple(self.input_shape))
        return made_up_examples(self, layout, count=n)


def split_records(data: Data, *, seed: int, by: SplitBy) -> Splits:
    """Read and split the records of a data kind; older kinds can split by position only."""
    return data.splits(seed=seed) if by == "position" else data.splits(seed=seed, by=by)
