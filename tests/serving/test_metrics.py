"""Figures of a service: rewards, shares and guardrails by arm, the holdback and forecasts, as Prometheus reads them."""

import asyncio
from pathlib import Path

from tests.core.test_forecasts import forecast
from tests.serving.shop import make_model, running
from zoosim.monitoring.health import Action
from zoosim.monitoring.launch import Verdict
from zoosim.serving.bodies import DecideBody, DeploymentBody, FeedbackBody
from zoosim.serving.forecasts.scores import HELD, Score
from zoosim.serving.launches.holdback import Compared, HoldbackReport
from zoosim.serving.launches.report import FailedCheck, LaunchReport, MetricReport
from zoosim.serving.metrics import Metrics


def test_arms_guardrails_the_holdback_and_forecasts_are_told(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")

    async def run() -> str:
        async with running(tmp_path / "service", model) as service:
            await service.deploy(DeploymentBody("launch", model=service.keep_model(model), plan={"steps": [0.2]}))
            answer = await service.decide(DecideBody({"country": "de"}, visitor_id="anna"))
            await service.give_feedback(answer.decision_id, FeedbackBody({"click": 1.0}))
            current = service.current
            metric = MetricReport("objective", "guardrail", 0.01, -0.02, 0.04, 0.3, 0.006)
            check = FailedCheck("split ratio", Action.HOLD, "too few")
            current.launch_report = LaunchReport(
                service.start.number, 0, Verdict.CANNOT_TELL, "", 9.0, 120, 120, [metric], [check]
            )
            compared = Compared("objective", 0.02, 0.01, 0.03, 0.2, 0, 1.0)
            current.figures.holdback = HoldbackReport("holdback", 0, 500, 0.95, False, [compared])
            current.figures.ledger = [Score(forecast(by="zoosim train").plain, HELD)] * 2
            return Metrics(service).text().decode()

    text = asyncio.run(run())
    for line in (
        'zoosim_rewards{arm="champion",reward="click"} 1.0',
        'zoosim_arm_share{arm="challenger"} 0.19',
        'zoosim_launch_difference{bound="low",reward="objective",role="guardrail"} -0.02',
        'zoosim_launch_failed_check{action="hold",check="split ratio"} 1.0',
        "zoosim_holdback_visitors 500.0",
        'zoosim_holdback_difference{bound="high",reward="objective"} 0.03',
        'zoosim_forecasts{by="zoosim train",outcome="held"} 2.0',
    ):
        assert line in text, line
