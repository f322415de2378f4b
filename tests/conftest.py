"""What tests of several packages share."""

from __future__ import annotations

import itertools
import signal
from collections import Counter

import pytest
import torch
from small_runs import run  # noqa: F401  a fixture
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@pytest.fixture(autouse=True, scope="session")
def store_of_the_session(tmp_path_factory):
    """Keep runs of fixtures that several tests share out of the user's own store, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPPIPE_STORE", str(tmp_path_factory.mktemp("store") / "budgets.db"))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_pages():
    """Leave out the page at the end of a run, which takes a third of a second; `tests/runs/page` writes pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPPIPE_REPORT", "off")
        yield


STORES = itertools.count()


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory, monkeypatch):
    """Keep the file of finished runs, and the store beside it, of every test apart from the user's own."""
    # `mktemp` would look through the folders of all earlier tests for the next number.
    folder = tmp_path_factory.getbasetemp() / "stores" / str(next(STORES))
    folder.mkdir(parents=True)
    monkeypatch.setenv("DPPIPE_STORE", str(folder / "budgets.db"))


@pytest.fixture(autouse=True)
def usual_signals():
    """Let Ctrl-C and SIGTERM act as in a terminal: `nohup` has SIGINT ignored, and so has a Trainer after a Ctrl-C."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave cases of tests that are marked `sampled(n)` to the slow tests, all but one in n."""
    seen = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        if mark is None:
            continue
        (share,) = mark.args
        test = item.nodeid.partition("[")[0]
        if seen[test] % share:
            item.add_marker(pytest.mark.slow)
        seen[test] += 1


class NoCopiesToHost(TorchDispatchMode):
    """Refuses what takes a tensor of the device and gives one of the host."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {
            leaf.device.type
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor)
        }
        made = {leaf.device.type for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)}
        if "meta" in given and "cpu" in made:
            raise RuntimeError(f"{func} copies to the host")
        return result


@pytest.fixture
def no_copies_to_host():
    """The mode under which a device without a host is used."""
    return NoCopiesToHost
