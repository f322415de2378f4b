"""What a model kind is: options that build an ordinary `torch.nn.Module`, which stays unwrapped.

Nothing here may mix the examples of a batch: batch normalisation would void the guarantee, and the
engine refuses it. Every kind also has the options for transfer learning. `build` doesn't handle
them: training applies them to the module that it returns.
Read next: `logistic.py`, then `mlp.py`; `dppipe/pipeline/adapting.py` for transfer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import PlainSerializer, WrapValidator, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from dppipe.component import Component, Field, Options
from dppipe.data.reading.files import describe_missing
from dppipe.errors import Problem, SpecError

if TYPE_CHECKING:
    from torch import nn

    from dppipe.input_layout import InputLayout

Activation = Literal["elu", "gelu", "relu", "silu", "tanh"]


class Lora(Options):
    """Low-rank adapters beside frozen linear layers (Hu et al. 2021).

    Each layer gets the parameters `down.weight` and `up.weight` beside its own.
    """

    rank: int = Field(8, gt=0, description="The rank of each adapter.")
    alpha: float | None = Field(
        None, gt=0, description="Adapters are scaled by alpha / rank; if not given, by 1."
    )
    targets: tuple[str, ...] = Field(
        ("*",),
        min_length=1,
        description="Patterns of the linear layers' paths, such as `body.*`; "
        "by default all of them.",
    )


class Pretrained(Options):
    """A file of weights, and whose records a private run has trained them on."""

    path: Path = Field(description="A .safetensors file or a state dict that torch.save wrote.")
    records: Literal["same", "disjoint"] = Field(
        "same",
        description="Of a private run's weights: `same` adds that run's cost to this one's; "
        "`disjoint` states that no person has records in both, "
        "and the larger of the two is claimed.",
    )


def _path_or_block(value: Any, block: ModelWrapValidatorHandler[Pretrained]) -> Any:
    return Pretrained(path=Path(value)) if isinstance(value, str | Path) else block(value)


def _as_written(value: Pretrained | None) -> Any:
    """Return what a spec would hold: the bare path where nothing else is set."""
    if value is None:
        return None
    return str(value.path) if value.records == "same" else value.model_dump(mode="json")


if TYPE_CHECKING:
    PathOrPretrained = Pretrained
else:
    PathOrPretrained = Annotated[
        Pretrained,
        WrapValidator(_path_or_block, json_schema_input_type=Path | Pretrained),
        PlainSerializer(_as_written),
    ]


class Model(Component):
    """A network by its options.

    Example:
        >>> from dppipe.models import Mlp
        >>> network = Mlp(hidden=(16,)).build(input_shape=(5,), outputs=3)
        >>> sum(parameter.numel() for parameter in network.parameters())
        147
    """

    takes_ids: ClassVar[bool | None] = None
    """Whether inputs must be token ids, or mustn't; None where that isn't known."""

    pretrained: PathOrPretrained | None = Field(
        None,
        description="Weights to start from: a file, or a block. A private run's weights are "
        "recognised, and their cost counts; others are taken as public, outside the guarantee.",
    )
    fresh: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="Patterns of names not taken from `pretrained`, "
        "such as those of a head for other classes.",
    )
    trainable: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="Patterns of the names of the parameters to train, such as `3.*`; "
        "the others are frozen.",
    )
    lora: Lora | None = Field(
        None, description="Train adapters, and of the rest only what `trainable` names."
    )

    @model_validator(mode="after")
    def _fresh_beside_pretrained(self) -> Self:
        if self.fresh is not None and self.pretrained is None:
            raise ValueError(
                "expected fresh beside pretrained only: without public weights all are fresh. "
                "Leave it out."
            )
        return self

    def check_files(self) -> None:
        """Refuse a file of weights that isn't there."""
        message = None if self.pretrained is None else describe_missing(self.pretrained.path)
        if message is not None:
            raise SpecError([Problem(("model", "pretrained"), message)])

    def build(self, input_shape: Sequence[int], outputs: int) -> nn.Module:
        """Build the module for inputs of this shape, without the batch dimension."""
        raise self.unwritten("build(input_shape, outputs)")

    def build_for(self, layout: InputLayout, outputs: int) -> nn.Module:
        """Build the module for inputs of this layout.

        A kind that needs more than their shape overrides this, and raises `unsuited` without it.
        """
        self.check_layout(layout)
        return self.build(layout.shape, outputs)

    def check_layout(self, layout: InputLayout) -> None:
        """Refuse inputs that this kind can't take, before anything is built or read."""
        is_ids = layout.vocabulary is not None
        if is_ids and self.takes_ids is False:
            models = "text_bag, lstm, gru, transformer or a class of your own"
            message = f"expected numbers as inputs of {self.kind}, got {layout.describe()}."
            raise SpecError([Problem(("model", "kind"), f"{message} Take {models}.")])
        if not is_ids and self.takes_ids is True:
            raise self.unsuited(layout, needs="token ids", data="data of kind text")

    def unsuited(self, layout: InputLayout, *, needs: str, data: str) -> SpecError:
        """Return the error of a kind that can't take these inputs; `data` names what has them."""
        message = f"expected {needs} as inputs of {self.kind}, got {layout.describe()}."
        return SpecError([Problem(("model", "kind"), f"{message} Take {data}, or another model.")])


def make_activation(name: Activation) -> nn.Module:
    """Make the layer of this name."""
    from torch import nn

    makers: dict[Activation, type[nn.Module]] = {
        "elu": nn.ELU,
        "gelu": nn.GELU,
        "relu": nn.ReLU,
        "silu": nn.SiLU,
        "tanh": nn.Tanh,
    }
    return makers[name]()
