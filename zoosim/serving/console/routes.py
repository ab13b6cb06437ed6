"""Routes of the console: the page, its events, and decisions."""

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from zoosim.core.durations import MICROSECONDS
from zoosim.core.errors import ZoosimError
from zoosim.live.pages import time_text
from zoosim.serving.console.decision_view import decision_values
from zoosim.serving.console.decisions import MOST_DECISIONS, decision_lines, decisions_sentence
from zoosim.serving.console.pages import LivePanels, file_answer, page, render
from zoosim.serving.console.sessions import Sessions
from zoosim.serving.console.view import values
from zoosim.serving.log_lines import LOOP
from zoosim.serving.refusals import NotFound
from zoosim.serving.service import Service


class Console:
    """The page of a service; it reads, and changes nothing."""

    def __init__(self, service: Service, sessions: Sessions, stopping: asyncio.Event) -> None:
        """Show a service.

        Args:
            service: The service.
            sessions: Who may see the page.
            stopping: Set once the service is told to stop: the page's events end then.
        """
        self._service = service
        self._sessions = sessions
        self.panels = LivePanels(self._html, self._now, service.clock.passed, stopping)

    def routes(self) -> list[Route]:
        """Return what it answers."""
        opened = self._sessions.opened
        return [
            Route("/", opened(self.show)),
            Route("/console/events", opened(self.events)),
            Route("/console/decision", opened(self.show_decision)),
            Route("/console/decisions", opened(self.list_decisions)),
            Route("/console/session", self._sessions.sign_in, methods=["POST"]),
            Route("/console/style.css", file_answer("style.css")),
            Route("/console/script.js", file_answer("script.js")),
        ]

    async def show(self, request: Request) -> Response:
        """Show the page."""
        return page(
            "console.html",
            title=f"Console of {self._service.folder.name}",
            root="",
            list_of_loops="../../" if LOOP.get() else "",
            now=time_text(self._now()),
            **values(self._service),
        )

    async def events(self, request: Request) -> Response:
        """Send the panels as they are, again and again."""
        return self.panels.response()

    def _now(self) -> float:
        """Return the time of the log, which may be another one than this machine's."""
        return self._service.clock.now() / MICROSECONDS

    def _html(self) -> str:
        """Return the panels as they are now."""
        return render("panels.html", **values(self._service))

    async def show_decision(self, request: Request) -> Response:
        """Show one decision, by its id."""
        decision_id = request.query_params.get("id", "").strip()
        try:
            row, choice = await self._service.decision(decision_id)
            answer = msgspec.to_builtins(await self._service.answer(decision_id))
            shown = await decision_values(self._service, row, choice, answer)
        except NotFound as error:
            if await self._service.logged.newest(1, decision_id):
                return await self._decisions(decision_id)
            return page("decision.html", 404, title="No such decision", sentence=str(error))
        except ZoosimError as error:
            return page("decision.html", 503, title="The decision cannot be read", sentence=str(error))
        return page("decision.html", title=f"Decision {decision_id}", **shown)

    async def list_decisions(self, request: Request) -> Response:
        """Show the newest decisions, all or those of a visitor."""
        try:
            return await self._decisions(request.query_params.get("visitor", ""))
        except ZoosimError as error:
            return page("decisions.html", 503, title="The log cannot be read", sentence=str(error), decisions=[])

    async def _decisions(self, visitor: str) -> Response:
        lines = decision_lines(await self._service.logged.newest(MOST_DECISIONS, visitor))
        title = f"Visitor {visitor}" if visitor else "The newest decisions"
        return page("decisions.html", title=title, sentence=decisions_sentence(lines, visitor), decisions=lines)
