"""dppipe: from one YAML file to a private model and a privacy statement that can be audited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dppipe.lazy import lazy_names

if TYPE_CHECKING:
    from dppipe.clipping.base import Clipper
    from dppipe.component import Field
    from dppipe.data.base import Data
    from dppipe.learners.base import Learner
    from dppipe.lightning.callback import DPCallback
    from dppipe.lightning.strategies import PrivateDDP
    from dppipe.models.base import Model
    from dppipe.noise.base import NoiseSchedule
    from dppipe.optim.base import Optimizer
    from dppipe.pipeline.load import load_model
    from dppipe.privacy.budget import Budget
    from dppipe.privacy.release import Release
    from dppipe.runs.directory import RunDirectory

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "Clipper",
    "DPCallback",
    "Data",
    "Field",
    "Learner",
    "Model",
    "NoiseSchedule",
    "Optimizer",
    "PrivateDDP",
    "Release",
    "RunDirectory",
    "__version__",
    "load_model",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Budget": ".privacy.budget",
        "Clipper": ".clipping.base",
        "DPCallback": ".lightning.callback",
        "Data": ".data.base",
        "Field": ".component",
        "Learner": ".learners.base",
        "Model": ".models.base",
        "NoiseSchedule": ".noise.base",
        "Optimizer": ".optim.base",
        "PrivateDDP": ".lightning.strategies",
        "Release": ".privacy.release",
        "RunDirectory": ".runs.directory",
        "load_model": ".pipeline.load",
    },
)
