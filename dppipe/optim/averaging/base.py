"""What an iterate average is: a running mean of the weights after each step, which is validated and saved in their place.

The weights that training goes on from stay the optimizer's own. Averaging sees released values only, so it costs no privacy; it
takes out much of the noise that the last steps have left in the weights.
"""

from __future__ import annotations

from dppipe.component import Component


class Averaging(Component):
    """How the weights of a run are averaged."""

    def weight(self, step: int, *, steps: int) -> float:
        """Give the share of the weights after this step, counted from 1 of `steps`, in the mean: `mean + share (weights - mean)`.

        The share of the first step is 1, as is that of any step which the mean is to start from anew.
        """
        raise NotImplementedError
