"""What an iterate average is: a running mean of the weights after each step.

The mean is validated and saved; training continues from the optimizer's own weights. Averaging sees
released values only, so it costs no privacy. It removes much of the noise that the last steps have
left in the weights.
"""

from __future__ import annotations

from dppipe.component import Component


class Averaging(Component):
    """How the weights of a run are averaged."""

    def weight(self, step: int, *, steps: int) -> float:
        """Return the share of the weights after this step in the mean.

        The mean becomes `mean + share * (weights - mean)`. Steps are counted from 1 to `steps`. The
        share of the first step is 1, and so is that of a step from which the mean starts again.
        """
        raise NotImplementedError
