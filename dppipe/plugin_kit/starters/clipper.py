"""The start of a clipper."""

from __future__ import annotations

from dppipe.plugin_kit.starters.starter import Starter

PLUGIN = '''\
"""A plugin clipper: say here why gradients should be shrunk this way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe import Clipper, Field

if TYPE_CHECKING:
    from torch import Tensor


class $class_name(Clipper, kind="$kind"):
    """Shrinks every gradient smoothly, so that none sits exactly at the bound."""

    softness: float = Field(0.1, gt=0, description="How gradually the bound is reached.")

    def factors(self, norms: Tensor, bounds: Tensor) -> Tensor:  # [groups], [groups] -> [groups]
        return bounds / (norms + self.softness * bounds)
'''

TEST = """

def test_larger_gradients_are_shrunk_more() -> None:
    norms, bounds = torch.tensor([0.1, 1.0, 10.0]), torch.ones(3)
    factors = $class_name().factors(norms, bounds)
    assert factors.tolist() == sorted(factors.tolist(), reverse=True)
    assert (factors * norms < bounds).all()
"""

STARTER = Starter(
    "clipping", "Clipper", PLUGIN, TEST, "{kind: $kind, max_grad_norm: 1.0, softness: 0.1}"
)
