"""The one base of everything a spec can name: a frozen value whose typed fields are its YAML
options.

A component is registered by its `kind` and found by its file
(`dppipe.spec.kinds.registry`); it never reads the spec. Files of components load without torch and
dp_accounting: what builds or computes imports them inside its methods.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WrapValidator,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler

from dppipe.environment import named_path
from dppipe.errors import UsageError

__all__ = ["AutoFloat", "AutoInt", "Component", "Field", "Options"]


class Options(BaseModel):
    """A block of a spec: frozen, strictly typed, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="after")
    def _paths_keep_the_names_of_variables(self) -> Self:
        for name, value in self.__dict__.items():
            if isinstance(value, Path):
                self.__dict__[name] = named_path(value)
            elif isinstance(value, list | tuple):
                self.__dict__[name] = _named_paths(value)
        return self

    @classmethod
    def from_data(cls, data: Any, *, context: Any = None) -> Self:
        """Read plain data as strictly as JSON is read: no number from a string, no integer from a
        boolean.
        """
        return cls.model_validate_json(json.dumps(data), strict=True, context=context)


def _named_paths(values: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
    """Return a list of which each path reads the variables that it names."""
    if not any(isinstance(value, Path) for value in values):
        return values
    named = [named_path(value) if isinstance(value, Path) else value for value in values]
    return type(values)(named)


class Component(Options):
    """Something a spec can name by `kind`."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, *, kind: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kind = kind

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except (ValidationError, AttributeError):  # pydantic's words are about validation
            raise UsageError(
                f"{self.kind or type(self).__name__}: expected a frozen component to stay as it "
                f"is, got an assignment to self.{name}. State goes in and comes out of methods as "
                "a value."
            ) from None

    def check_files(self) -> None:
        """Refuse files that the options name and that aren't there, or lack what they name.

        It looks at headers alone and reads no record: `dppipe validate` calls it. By default
        there is nothing to check.
        """

    def unwritten(self, method: str) -> UsageError:
        """Return the error of a kind that lacks a method of its family."""
        return UsageError(
            f"{self.kind or type(self).__name__}: expected the kind to define {method}, got "
            "none. Write it."
        )

    def to_data(self) -> dict[str, Any]:
        """Return the plain data that a spec would hold for this component, defaults included."""
        return {"kind": self.kind, **self.model_dump(mode="json", exclude_none=True, by_alias=True)}


def _as_it_is(value: Any) -> Any:
    return value


def _auto_or_number(value: Any, number: ModelWrapValidatorHandler[Any]) -> Any:
    return value if value == "auto" else number(value)


if TYPE_CHECKING:
    AutoFloat = float | Literal["auto"]
    AutoInt = int | Literal["auto"]
else:
    # A plain union would report the errors of both its members; here only the number's are shown.
    AutoFloat, AutoInt = (
        Annotated[
            number,
            WrapValidator(_auto_or_number, json_schema_input_type=number | Literal["auto"]),
            PlainSerializer(_as_it_is),
        ]
        for number in (float, int)
    )
