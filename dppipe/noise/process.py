"""How the noise of one step relates to that of others: independently, or correlated in a block.

A noise process has a state: what it has to remember of earlier steps. Independent noise has none.
Correlated noise (trees, banded matrices) is another process: a file of its own in this folder, with
a schedule whose `process()` returns it. The state is noise, so it is as secret as a key: it stays
in memory, and a run that goes on after an interruption starts from a fresh one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from dppipe.randomness.gaussian import NoiseSource

NoiseState = Any
"""What a process remembers of the noise so far; no checkpoint holds it."""
Restart = Literal["pays", "free"]
"""The rule for a block that was cut off: whether its rest has to be paid for anew.

`free` claims a proof that a block whose noise starts afresh in the middle costs no more than a
whole one.
"""


class NoiseProcess(Protocol):
    """Adds noise to one release after another."""

    def init(self, like: Tensor) -> NoiseState:
        """Return the state before the first step, or after an interruption."""
        ...

    def add_(
        self,
        flat: Tensor,
        state: NoiseState,
        *,
        place: int,
        std: float,
        over: float,
        stream: NoiseSource,
    ) -> NoiseState:
        """Add the noise of the next step in place, divide by `over`; return the next state.

        Args:
            flat: The step's sum, `[n]`.
            state: What the last step, or `init`, has returned.
            place: The step's place in its block, from 0. It follows an interruption where the state
                doesn't know the steps before it.
            std: The noise multiplier times the sensitivity of one step's sum.
            over: A public constant to divide by.
            stream: Where fresh noise is drawn.
        """
        ...


class Independent:
    """Fresh noise at every step."""

    def init(self, like: Tensor) -> NoiseState:
        """Return nothing: no step remembers another."""
        return None

    def add_(
        self,
        flat: Tensor,
        state: NoiseState,
        *,
        place: int,
        std: float,
        over: float,
        stream: NoiseSource,
    ) -> NoiseState:
        """Add independent noise of standard deviation `std`, then divide by `over`."""
        stream.add_(flat, std=std, over=over)
        return state
