"""In a real browser the page shows its statement, curve and budget line, and asks no one for anything."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from runs.page.pages import copied, page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="chromium isn't installed"),
]

LOOK = """
const seen = [];
for (const [name, where] of Object.entries({
  statement: ".lead", curve: "#epsilon-curve svg [style*='--spent']",
  budget: "#epsilon-curve svg [style*='--budget']", limit: "#attackers svg [style*='--spent']",
  means: "#meaning .callout"})) {
  const found = document.querySelector(where);
  const box = found ? found.getBoundingClientRect() : {width: 0, height: 0, left: -1, right: 1e9};
  const style = found ? getComputedStyle(found) : {};
  seen.push({name, width: box.width, height: box.height, left: box.left, right: box.right,
    stroke: style.stroke || "", colour: style.color || "", shown: style.visibility === "visible"});
}
const result = {seen, loaded: performance.getEntriesByType("resource").map(one => one.name),
  wide: document.documentElement.scrollWidth, room: innerWidth,
  paper: getComputedStyle(document.body).backgroundColor};
document.body.innerHTML = "<pre id=result></pre>";
document.getElementById("result").textContent = JSON.stringify(result);
"""


class Quiet(SimpleHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: object) -> None:
        self.asked.append(self.path)


@pytest.fixture
def address(tmp_path) -> Iterator[str]:
    Quiet.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def browse(address: str, profile: Path, *options: str) -> str:
    words = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    words += ["--disable-background-networking", f"--user-data-dir={profile}", *options, address]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.parametrize(
    ("width", "dark"), [(1000, False), (1000, True), (500, False)], ids=["light", "dark", "narrow"]
)
def test_statement_curve_and_budget_are_visible_and_nothing_is_loaded(
    width, dark, address, tmp_path
):
    written = page(copied("finished", tmp_path))
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    assert policy.search(written)
    looked = policy.sub("", written).replace("</body>", f"<script>{LOOK}</script></body>")
    (tmp_path / "looked.html").write_text(looked)
    options = [f"--window-size={width},900"]
    if dark:
        options.append("--blink-settings=preferredColorScheme=0")
    dom = browse(f"{address}/looked.html", tmp_path / "browser", *options)
    found = re.search(r'<pre id="result">(.*?)</pre>', dom, re.DOTALL)
    assert found is not None
    result = json.loads(found.group(1).replace("&amp;", "&"))
    assert result["loaded"] == []
    assert result["wide"] <= result["room"]
    channels = [int(number) for number in re.findall(r"\d+", result["paper"])[:3]]
    assert (max(channels) < 60) is dark
    for one in result["seen"]:
        assert one["shown"], one
        assert one["width"] > 50, one
        assert 0 <= one["left"] < one["right"] <= width, one
        if one["name"] in ("curve", "budget", "limit"):
            assert one["stroke"].startswith("rgb"), one
        if one["name"] in ("curve", "limit"):
            assert one["height"] > 5, one


def test_the_page_itself_asks_for_nothing_else(address, tmp_path):
    run = copied("finished", tmp_path)
    page(run)
    browse(f"{address}/finished/report.html", tmp_path / "browser")
    assert Quiet.asked == ["/finished/report.html"]
