"""Pictures of pages for docs/monitor.md, of a small system: `python -m tests.support.screenshots
DIRECTORY`. It needs Chromium."""

# Raw UPDATEs: an hour has passed.

from __future__ import annotations

import base64
import io
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from PIL import Image
from sqlalchemy import text

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))

from jedi.agent.base import World  # noqa: E402
from jedi.monitor.pages.past import written  # noqa: E402
from jedi.standalone.scratch import database  # noqa: E402
from support.browsing import Browser, browser, pages, session  # noqa: E402
from support.helpers import make_world  # noqa: E402
from support.whole_world import fill  # noqa: E402

MOST_BYTES = 150_000
COLOURS = 128


def main(directory: Path) -> None:
    """Write the pictures."""
    directory.mkdir(parents=True, exist_ok=True)
    with (
        database("jedi pictures") as engine,
        tempfile.TemporaryDirectory(prefix="jedi-pictures-") as home,
    ):
        world = make_world(engine, Path(home))
        known = fill(world)
        running = _running(world)
        with pages(world) as place, browser(place) as here:
            here.log_in(session(world, "ana"))
            before = written(datetime.fromtimestamp(datetime.now(UTC).timestamp() - 600, UTC))
            past = f"/tasks/{running}/past?against={before}"
            for name, path, width, height, scheme in (
                ("overview", "/", 1280, 900, "light"),
                ("tasks", "/tasks", 1280, 700, "light"),
                ("tasks-narrow", "/tasks", 360, 760, "light"),
                ("tasks-dark", "/tasks", 760, 760, "dark"),
                ("task", f"/tasks/{running}", 1280, 1000, "light"),
                ("decision", f"/decisions/{known['decision_id']}", 1280, 800, "light"),
                ("past", past, 1280, 900, "light"),
                ("queues", "/queues", 1280, 800, "dark"),
            ):
                _look(here, path, width, height, scheme)
                _write(here, directory / f"{name}.png")


def _running(world: World) -> int:
    """The task that runs, whose jobs began an hour ago."""
    with world.engine.begin() as tx:
        for statement in (
            "UPDATE jedi_jobs_statuslog SET modificationtime = modificationtime - interval '1 h' "
            "WHERE status IN ('activated', 'sent', 'starting', 'running')",
            "UPDATE jedi_jobs SET creationtime = creationtime - interval '1 h'",
        ):
            tx.execute(text(statement))
        return int(tx.scalar(text("SELECT min(jeditaskid) FROM jedi_jobs")) or 0)


def _look(here: Browser, path: str, width: int, height: int, scheme: str) -> None:
    driver = here.driver
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
    )
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    here.go(path)
    here.find("h1")


def _write(here: Browser, file: Path) -> None:
    """Write what is in sight with few colours, so that it is small."""
    shot = here.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    image = Image.open(io.BytesIO(base64.b64decode(shot["data"])))
    small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(file, optimize=True)
    if file.stat().st_size > MOST_BYTES:
        raise ValueError(f"{file.name} has more than {MOST_BYTES} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
