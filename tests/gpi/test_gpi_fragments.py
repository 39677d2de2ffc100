"""The service's pages in notebooks. Source: docs/reference/ganga.md#notebooks."""

from __future__ import annotations

import pytest
from jedi_client import JEDI, ArgSplitter, Executable, Job
from jedi_client.gpi.fragments import fitted
from jedi_client.gpi.jedi_backend import JediBackend
from support.commanding import everything

from jedi.agent.base import World


@pytest.mark.usefixtures("service", "home")
def test_a_job_on_jedi_shows_the_services_page(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: the fragment of the task, without forms; the present view if the service can't be
    reached."""
    job = Job(
        name="<b>fit</b>",
        application=Executable("true"),
        backend=JEDI(site="SITE_A"),
        splitter=ArgSplitter([["1"], ["2"]]),
    )
    job.submit()
    everything(world)
    shown = job._repr_html_()
    assert "jedi-page" in shown and f"Task {job.backend.id}" in shown
    assert "<b>" not in shown and "<form" not in shown and "<script" not in shown
    monkeypatch.setattr(JediBackend, "page", lambda *_: None)
    assert "jedi-page" not in job._repr_html_() and "property" in job._repr_html_()


def test_a_service_that_is_away_has_no_page() -> None:
    assert JediBackend(JEDI(server="http://127.0.0.1:9")).page("17") is None


def test_links_lead_to_the_service_and_nothing_acts() -> None:
    page = (
        '<h1 onclick="x()">A &lt;b&gt;</h1><a href="/tasks/1">t</a><a href="javascript:x()">j</a>'
        '<form action="/act"><p>in</p><button>Kill</button></form><input name="x">'
        '<svg viewBox="0 0 1 1"><rect class="f-good" width="1"/></svg><script>x()</script>end'
    )
    shown = fitted(page, "https://jedi.example").partition("</style>")[2]
    assert shown == (
        "<div class='jedi-page'><h1>A &lt;b&gt;</h1>"
        '<a href="https://jedi.example/tasks/1" target="_blank" rel="noopener">t</a><a>j</a>'
        '<svg viewBox="0 0 1 1"><rect class="f-good" width="1"></rect></svg>end</div>'
    )
    leading = '<nav><ul><li>Files</li></ul></nav><p class="actions"><a href="/act">Kill</a></p>'
    shown = fitted(leading + page, "/run/jedi.sock")
    assert "<a>t</a>" in shown and "Files" not in shown and "Kill" not in shown
    assert "Files" in fitted(leading, "https://jedi.example")
