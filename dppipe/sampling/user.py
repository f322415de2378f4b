"""User-level sampling: Poisson sampling of users, each with all their records."""

from __future__ import annotations

from dppipe.component import Field
from dppipe.sampling.poisson import Poisson


class User(Poisson, kind="user"):
    """Takes each user with probability `sample_rate`, at every step, with all the user's records.

    Guarantees:
    - It is Poisson sampling of users: they are drawn independently of each other and at every step.
    - The gradients of a user's records are averaged and clipped once, so a user counts for one
      bound however many records there are. The unit of the whole run is the user.
    """

    sample_rate: float | None = Field(
        None, gt=0, le=1, description="The chance of each user to be in a step's batch."
    )
    expected_batch_size: float | None = Field(
        None, gt=0, description="Users in a batch on average; sums are divided by it."
    )
    max_records_per_user: int = Field(
        64,
        gt=0,
        description="Of a user with more records "
        "only the first so many, in the order of the data, are ever used.",
    )

    @property
    def records_per_user(self) -> int:
        return self.max_records_per_user
