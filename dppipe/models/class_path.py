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
    """A class that is named by its import path; `input_shape` and `outputs` are passed where its constructor asks for them."""

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
            message = f"expected a subclass of torch.nn.Module or LightningModule, got {self.class_path!r}."
            raise SpecError([Problem(("model", "class_path"), message)])
        known = {"input_shape": tuple(input_shape), "outputs": outputs}
        arguments = {
            name: value for name, value in known.items() if takes(cls, name)
        } | self.init_args
        check_arguments(cls, arguments, block="model")
        try:
            return cls(**arguments)
        except DppipeError:
            raise
        except Exception as error:
            message = f"expected {self.class_path} to build from model.init_args, got {describe_failure(error)}."
            raise UsageError(f"model.class_path: {message} --debug shows its text.") from error
