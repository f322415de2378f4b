"""A user's own data: a subclass of `Data`, or any map-style dataset class.

For a dataset class, the spec states what must be public about it.
Read next: `dppipe/class_path.py`, which imports the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

from pydantic import ValidationError, model_validator

from dppipe.class_path import check_arguments, describe_failure, import_class
from dppipe.component import Field
from dppipe.data.base import Data, SplitBy, Splits, Task, split_records
from dppipe.data.features.option import Features
from dppipe.data.reading.first_items import check_first_items
from dppipe.data.reading.map_style import require_map_style
from dppipe.data.reading.users import with_users
from dppipe.data.splitting.parts import refuse_test_share
from dppipe.errors import DppipeError, Problem, SpecError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from torch.utils.data import Dataset

    from dppipe.data.features.base import FeatureMap
    from dppipe.data.reading.limits import Limits
    from dppipe.data.reading.new_inputs import NewInputs
    from dppipe.data.reading.private_scaling import PrivateScaling
    from dppipe.data.reading.scaling import Constants
    from dppipe.input_layout import InputLayout


class ClassPathData(Data, kind="class_path"):
    """Records of a class that is named by its import path.

    A `Data` subclass knows its own shapes and task; it gets `records`, `split` and `holdout` from
    here. For any other class, `input_shape`, `outputs`, `task` and `records` are stated. It has
    `__len__` and `__getitem__`, whose items are pairs of input and target, and is imported only
    when records are read.
    """

    class_path: str = Field(
        description="The class, as Python would import it: package.module.Class."
    )
    init_args: dict[str, Any] = Field(
        default_factory=dict, description="Arguments of its constructor."
    )
    test_args: dict[str, Any] | None = Field(
        None,
        description="Arguments of the constructor that differ from `init_args`, for a second "
        "dataset, whose records are the test records; of a class that isn't a Data.",
    )
    stated_shape: tuple[Annotated[int, Field(gt=0)], ...] | None = Field(
        None,
        alias="input_shape",
        min_length=1,
        description="The shape of one input; stated of a class that isn't a Data.",
    )
    stated_outputs: int | None = Field(
        None,
        alias="outputs",
        gt=0,
        description="The number of model outputs; stated of a class that isn't a Data.",
    )
    stated_task: Task | None = Field(
        None, alias="task", description="What is predicted; stated of a class that isn't a Data."
    )
    user: str | None = Field(
        None,
        description="The attribute that says whose each record is, for `sampler: user`; "
        "of a class that isn't a Data.",
    )
    features: Features = Field(
        None,
        description="What inputs become before the model sees them: orientation histograms or "
        "private principal components.",
    )

    @model_validator(mode="after")
    def _stated_together(self) -> Self:
        stated = {
            "input_shape": self.stated_shape,
            "outputs": self.stated_outputs,
            "task": self.stated_task,
        }
        absent = [name for name, value in stated.items() if value is None]
        inside = sorted(set(Data.model_fields) & set(self.init_args))
        if 0 < len(absent) < len(stated):
            raise ValueError(
                "expected input_shape, outputs and task together, "
                f"got no {' and no '.join(absent)}. State all."
            )
        if absent and self.user is not None:
            raise ValueError(
                "expected user beside input_shape, outputs and task, got it alone. "
                "A Data class knows its own users."
            )
        if self.test_args is not None:
            if absent:
                raise ValueError(
                    "expected test_args of a class that isn't a Data, got them of one that loads "
                    "its own parts. Leave them out."
                )
            refuse_test_share(self.split, beside="test_args")
        if absent and inside:
            raise ValueError(
                f"expected {' and '.join(inside)} beside class_path, got it in init_args. Move it."
            )
        if self.features is not None and isinstance(self.init_args.get("features"), dict):
            raise ValueError(
                "expected features beside class_path alone, got them in init_args too. Remove one."
            )
        if self.stated_task == "binary" and self.stated_outputs != 1:
            raise ValueError(f"expected 1 output of a binary task, got {self.stated_outputs}.")
        if self.stated_task == "multiclass" and self.stated_outputs == 1:
            raise ValueError("expected an output for each class of a multiclass task, got 1.")
        return self

    @property
    def task(self) -> Task:
        return self.stated_task or self._own.task

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.stated_shape or tuple(self._own.input_shape)

    @property
    def outputs(self) -> int:
        return self.stated_outputs or self._own.outputs

    @property
    def by_users(self) -> bool:
        if self.user is not None or self.users is not None:
            return True
        try:
            return self.stated_task is None and self._own.by_users
        except SpecError:
            return False  # `count` reports what is wrong with the class

    @property
    def drops_bad_records(self) -> bool:
        if self.on_bad_record is not None or self.stated_task is not None:
            return super().drops_bad_records
        try:
            return self._own.drops_bad_records
        except SpecError:
            return super().drops_bad_records  # `count` reports what is wrong with the class

    @property
    def private_scaling(self) -> PrivateScaling | None:
        try:
            return None if self.stated_task else self._own.private_scaling
        except SpecError:
            return None  # `count` reports what is wrong with the class

    @property
    def reads_one_by_one(self) -> bool:
        return self.stated_task is not None or self._own.reads_one_by_one

    @property
    def feature_map(self) -> FeatureMap | None:
        if self.features is not None or self.stated_task:
            return self.features
        try:
            return self._own.feature_map
        except SpecError:
            return None  # `count` reports what is wrong with the class

    @property
    def input_layout(self) -> InputLayout:
        if self.features is not None or self.stated_task:
            return super().input_layout
        return self._own.input_layout

    @property
    def scaled_features(self) -> int | None:
        return None if self.stated_task else self._own.scaled_features

    @property
    def public_scaling(self) -> tuple[Constants | Limits, ...]:
        return () if self.stated_task else self._own.public_scaling

    @property
    def class_labels(self) -> tuple[str, ...]:
        return super().class_labels if self.stated_task else self._own.class_labels

    def in_units_of_the_target(self, numbers: Any) -> Any:
        return numbers if self.stated_task else self._own.in_units_of_the_target(numbers)

    def new_inputs(self, path: Path) -> Iterator[NewInputs]:
        return super().new_inputs(path) if self.stated_task else self._own.new_inputs(path)

    def count(self) -> int:
        return super().count() if self.stated_task else self._own.count()

    def train_count(self) -> int:
        return super().train_count() if self.stated_task else self._own.train_count()

    @property
    def ranges(self) -> tuple[range | None, ...]:
        return super().ranges if self.stated_task else self._own.ranges

    def synthetic(self, n: int) -> Any:
        return super().synthetic(n) if self.stated_task else self._own.synthetic(n)

    def splits(self, *, seed: int, by: SplitBy = "position") -> Splits:
        if self.stated_task:
            return super().splits(seed=seed, by=by)
        return split_records(self._own, seed=seed, by=by)

    def check_files(self) -> None:
        if self.stated_task:
            return  # the class is imported when records are read, or by `validate --deep`
        try:
            self._own.check_files()
        except SpecError as error:
            raise SpecError([self._in_arguments(problem) for problem in error.problems]) from None

    def _in_arguments(self, problem: Problem) -> Problem:
        """Return a problem of the class's own option at its place in `init_args`."""
        block, *rest = problem.path
        if rest and rest[0] in self.init_args:
            return replace(problem, path=(block, "init_args", *rest))
        return problem

    def find_class(self) -> type:
        """Import the class and compare its arguments; nothing is made of it, and no record read."""
        if not self.stated_task:
            return type(self._own)
        cls = import_class(self.class_path, block="data")
        for arguments in (self.init_args, self.init_args | (self.test_args or {})):
            check_arguments(cls, arguments, block="data")
        if not (hasattr(cls, "__len__") and hasattr(cls, "__getitem__")):
            raise _problem(
                self.class_path,
                "expected a class with __len__ and __getitem__, got {}, which lacks one.",
            )
        return cls

    def load(self) -> Dataset[Any] | Splits:
        if not self.stated_task:
            return self._own.load()
        records = self._made(self.init_args)
        if self.test_args is None:
            return records
        return Splits(records, None, self._made(self.init_args | self.test_args))

    def _made(self, arguments: dict[str, Any]) -> Dataset[Any]:
        cls = self.find_class()
        try:
            dataset = cls(**arguments)
            require_map_style(dataset, place="data.class_path")
            if self.user not in (None, "users"):
                with_users(dataset, getattr(dataset, str(self.user), None))
            check_first_items(dataset, name=self.class_path, input_shape=self.input_shape)
        except DppipeError:
            raise
        except Exception as error:
            raise UsageError(
                f"data.class_path: {self.class_path} failed: {describe_failure(error)}."
            ) from None
        return cast("Dataset[Any]", dataset)

    @property
    def _own(self) -> Data:
        cls = import_class(self.class_path, block="data")
        if not issubclass(cls, Data):
            raise _problem(
                self.class_path,
                "expected a subclass of dppipe.Data, got {}. Derive it from dppipe.Data, "
                "or state input_shape, outputs, task and records beside it.",
            )
        outer = self.model_dump(mode="json", exclude_none=True, include=set(Data.model_fields))
        try:
            return cls.from_data(self.init_args | outer)
        except ValidationError as error:
            problems = []
            for fault in error.errors(include_url=False):
                place = ("data", "init_args", *fault["loc"])
                problems.append(Problem(place, f"{fault['msg']}."))
            raise SpecError(problems) from None


def _problem(class_path: str, message: str) -> SpecError:
    return SpecError([Problem(("data", "class_path"), message.format(repr(class_path)))])
