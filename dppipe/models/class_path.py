"""A user's own network: any `nn.Module` or LightningModule class by its import path.

Read next: `dppipe/class_path.py`, which imports the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dppipe.class_path import check_arguments, describe_failure, import_class, takes
from dppipe.component import Field
from dppipe.errors import DppipeError, Problem, SpecError, UsageError
from dppipe.models.base import Model

if TYPE_CHECKING:
    from torch import nn


class ClassPathModel(Model, kind="class_path"):
    """A class named by its import path; it gets `input_shape` and `outputs` if it takes them."""

    class_path: str = Field(
        description="The class, as Python would import it: package.module.Class."
    )
    init_args: dict[str, Any] = Field(
        default_factory=dict, description="Arguments of its constructor."
    )

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        from torch import nn

        cls = import_class(self.class_path, block="model")
        if not issubclass(cls, nn.Module):
            message = "expected a subclass of torch.nn.Module or LightningModule"
            raise SpecError(
                [Problem(("model", "class_path"), f"{message}, got {self.class_path!r}.")]
            )
        arguments: dict[str, Any] = {}
        if takes(cls, "input_shape"):
            arguments["input_shape"] = tuple(input_shape)
        if takes(cls, "outputs"):
            arguments["outputs"] = outputs
        arguments |= self.init_args
        check_arguments(cls, arguments, block="model")
        try:
            return cls(**arguments)
        except DppipeError:
            raise
        except Exception as error:
            raise UsageError(
                f"model.class_path: expected {self.class_path} to build from model.init_args, "
                f"got {describe_failure(error)}. --debug shows its text."
            ) from error
