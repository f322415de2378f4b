"""The shape of a start: templates with `$kind` and `$class_name` for the new plugin's names."""

from __future__ import annotations

from dataclasses import dataclass, field

BLOCKS = {
    "data": "{kind: digits, holdout: public}",
    "model": "{kind: mlp, hidden: [32]}",
    "optimizer": "{kind: sgd, lr: 0.25, momentum: 0.9}",
    "sampler": "{kind: poisson, expected_batch_size: 256}",
    "clipping": "{kind: flat, max_grad_norm: 1.0}",
    "noise": "{kind: constant, noise_multiplier: auto}",
    "accountant": "{kind: pld}",
    "budget": "{epsilon: 3.0, delta: 1.0e-5}",
    "train": "{epochs: 5}",
}
"""The spec around a new plugin: it trains in seconds, without a download."""

PIPELINE_HEAD = """\
# Trains with $kind, the $noun of $plugin_file.
#   $check
#   $run
version: 1
name: $kind
seed: 7
"""

TEST_HEAD = '''\
"""The $noun $kind: what it does, and what every $noun keeps."""

from __future__ import annotations

from pathlib import Path

import torch

from dppipe.plugin_kit import check_file
from dppipe.spec.kinds.registry import Registry

PLUGINS = Path(__file__).parents[2] / "$folder"
$class_name = Registry(PLUGINS).load("$block", "$kind")


def test_nothing_breaks_it() -> None:
    (checked,) = check_file(PLUGINS / "$kind.py")
    assert not checked.faults
'''


@dataclass(frozen=True)
class Starter:
    """What a family's plugins start from."""

    block: str
    suffix: str
    """What the class's name ends with."""
    plugin: str
    test: str
    """The tests of what this very plugin does; what comes before them is the same for all."""
    options: str
    """The plugin's block in the spec."""
    others: dict[str, str] = field(default_factory=dict)
    """Other blocks that suit it better than the usual ones."""
    without: tuple[str, ...] = ()
    """The usual blocks that it takes none of."""
    imports: str = ""
    """What its test imports besides."""

    def pipeline(self) -> str:
        """Return the template of a spec that uses the plugin."""
        blocks = BLOCKS | self.others | {self.block: self.options}
        lines = []
        for name, value in blocks.items():
            if name not in self.without:
                lines.append(f"{name + ':':<12}{value}\n")
        return PIPELINE_HEAD + "".join(lines)

    def full_test(self) -> str:
        """Return the template of the plugin's test file."""
        head = TEST_HEAD.replace("from dppipe.spec.kinds", f"{self.imports}from dppipe.spec.kinds")
        return head + self.test
