"""The budget of a run: the most it may cost, and what that cost is measured against."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import model_validator

from dppipe.component import Field, Options
from dppipe.environment import Variables, names_variable

Relation = Literal["zero_out", "add_remove", "replace_one"]
Unit = Literal["example", "user"]


class Budget(Options):
    """The most that a run may cost one unit.

    Example:
        >>> from dppipe import Budget
        >>> budget = Budget(epsilon=3.0, delta=1e-5)
        >>> budget.relation, budget.unit
        ('zero_out', 'example')
    """

    epsilon: float = Field(gt=0, description="The most epsilon the run may cost.")
    delta: float = Field(
        gt=0,
        lt=1,
        description="The delta that epsilon is stated at; refused at or above 1/records.",
    )
    relation: Relation = Field("zero_out", description="What neighbouring data sets differ in.")
    unit: Unit = Field(
        "example", description="Whose privacy is protected: one example, or one user."
    )
    scope: str | None = Field(
        None, description="The shared budget that this run is charged to, too."
    )
    store: Annotated[str | None, Variables()] = Field(
        None,
        description="Where that shared budget is: a file or a database's URL, with any password "
        "as `${env:NAME}`; if not given, what DPPIPE_STORE names.",
    )

    @model_validator(mode="after")
    def _store_of_a_scope(self) -> Self:
        if self.store is None:
            return self
        if self.scope is None:
            raise ValueError(
                "expected scope beside store, got store alone. Name the shared budget, or leave "
                "store out."
            )
        if _holds_password(self.store):
            raise ValueError(
                "expected a store without a password in the text, got one. The spec is copied "
                "into every run: write ${env:NAME} for it, and set that variable."
            )
        return self


def _holds_password(address: str) -> bool:
    """Return whether a URL holds a password as plain text; its options may hold one, too."""
    try:
        parts = urlsplit(address)
        options = parse_qsl(parts.query)
    except ValueError:
        return "@" in address and not names_variable(address)
    secrets = [value for name, value in options if "password" in name.lower()]
    if parts.password:
        secrets.append(parts.password)
    return any(not names_variable(secret) for secret in secrets)
