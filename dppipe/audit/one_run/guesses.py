"""What an audit of one run counts: how many canaries it had, guessed, and guessed right."""

from __future__ import annotations

from dataclasses import dataclass

from dppipe.errors import UsageError


@dataclass(frozen=True)
class Guesses:
    """The guesses about m fair coins: which canaries were in the training, and which weren't."""

    canaries: int
    """m: all canaries, those about which nothing was guessed among them."""
    made: int
    """r: about how many a guess was made; fixed before the run."""
    right: int
    """v: how many of the guesses were right."""

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.made <= self.canaries or self.canaries < 1:
            raise UsageError(
                "guesses: expected 0 <= right <= made <= canaries and at least one canary, got "
                f"{self.right}, {self.made} and {self.canaries}."
            )

    @property
    def all_right(self) -> Guesses:
        """The same number of guesses, all of them right: the most that the audit could find."""
        return Guesses(self.canaries, self.made, self.made)
