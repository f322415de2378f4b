"""The start of a noise schedule."""

from __future__ import annotations

from dppipe.plugin_kit.starters.starter import Starter

PLUGIN = '''\
"""A plugin noise schedule: say here why the noise should move this way."""

from __future__ import annotations

from dppipe import Field, NoiseSchedule


class $class_name(NoiseSchedule, kind="$kind"):
    """Noise that falls in a straight line to `end` times its first value."""

    end: float = Field(0.7, gt=0, le=1, description="The last value, as a multiple of the first.")

    # Progress is 0.0 at the first step and 1.0 at the last; the budget sets the size.
    def multiplier(self, progress: float) -> float:
        return 1 + (self.end - 1) * progress
'''

TEST = """

def test_the_noise_falls_to_its_end() -> None:
    sizes = torch.tensor($class_name(end=0.5).relative(11))
    assert (sizes.diff() < 0).all()
    assert sizes[[0, -1]].tolist() == [1.0, 0.5]
"""

STARTER = Starter("noise", "Noise", PLUGIN, TEST, "{kind: $kind, noise_multiplier: auto, end: 0.7}")
