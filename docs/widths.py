# SPDX-License-Identifier: BSD-3-Clause
"""Whether the site's tables and pictures fit their column, in headless Chromium: ``make docs`` asks.

Usage: ``widths.py SITE``. Exits with 1 where more are cut than ``MOST`` allows; says so where there is
no Chromium to ask.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

#: A large window and a phone, in pixels, and how many tables may be wider there: those of numbers alone.
MOST = {1280: 0, 390: 2}
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

#: Each page in a frame of each width. A table that is wider than its place scrolls, which nothing shows.
SCRIPT = """<body><script>
const pages = %s, found = [];
function look(n) {
  if (n == pages.length) {
    const told = document.createElement('pre');
    told.id = 'found';
    told.textContent = JSON.stringify(found);
    document.body.appendChild(told);
    return;
  }
  const [width, page] = pages[n], frame = document.createElement('iframe');
  frame.style.cssText = `width: ${width}px; height: 800px; border: 0`;
  frame.src = page;
  frame.onload = () => {
    for (const one of frame.contentDocument.querySelectorAll('table, article img')) {
      const place = one.closest('.table-wrapper') || one.parentElement;
      const wide = Math.round(one.getBoundingClientRect().width);
      if (wide > place.clientWidth + 1)
        found.push([width, page, one.innerText.slice(0, 60) || one.alt, wide, place.clientWidth]);
    }
    frame.remove();
    look(n + 1);
  };
  document.body.appendChild(frame);
}
look(0);
</script></body>"""


def cut(browser: str, site: Path) -> list[tuple[int, str, str, int, int]]:
    """What is wider than its place: the window, the page, first words, its width, its place's."""
    pages = [page.as_uri() for page in sorted(site.rglob("*.html"))]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "look.html")
        asked = [(width, page) for width in MOST for page in pages]
        script.write_text(SCRIPT % json.dumps(asked), encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/own"]
        # Pages of files may look into each other; time passes as fast as pages are there.
        options += ["--allow-file-access-from-files", "--disable-web-security"]
        options += ["--virtual-time-budget=600000", "--dump-dom", script.as_uri()]
        done = subprocess.run(
            [browser, *options], capture_output=True, text=True, timeout=300, check=True
        )
    told = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    if told is None:
        raise SystemExit(f"widths: {browser} has not looked at the pages:\n{done.stderr[-2000:]}")
    return [tuple(one) for one in json.loads(html.unescape(told[1]))]


def main(site: Path) -> int:
    """Ask the browser; the status to exit with."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        print("widths: no Chromium here; nobody has looked whether tables fit")
        return 0
    found = cut(browser, site)
    for width, page, words, wide, place in found:
        name = page.rpartition("/html/")[2]
        print(f"widths: at {width} px {name}: {' '.join(words.split())!r} has {wide} of {place} px")
    return int(any(sum(one[0] == width for one in found) > most for width, most in MOST.items()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
