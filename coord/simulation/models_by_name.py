"""The motion and demand models that a scenario names, each imported when it is asked for."""

from __future__ import annotations

from coord.moving.motion_model import GridMotion, MotionModel, StraightMotion
from coord.simulation.demand import DemandModel, PersistentDemand
from coord.simulation.setup import Setup


def motion_model(setup: Setup) -> MotionModel:
    """The model of `[motion] model`."""
    if setup.motion.model == "grid":
        return GridMotion()
    if setup.motion.model == "pibt":
        from coord.moving.pibt import PibtMotion

        return PibtMotion()
    if setup.motion.model == "around":
        from coord.moving.around import AroundMotion

        return AroundMotion()
    return StraightMotion()


def demand_model(setup: Setup) -> DemandModel:
    """The model of `[demand] model`."""
    if setup.demand.model == "persistent":
        return PersistentDemand()
    from coord.simulation.arrivals import Arrivals
    from coord.simulation.tasks import TaskDemand, ZoneDemand

    arrivals = Arrivals(setup.demand, setup.seed, setup.grid, setup.agents)
    return (TaskDemand if setup.demand.where == "tasks" else ZoneDemand)(setup.demand, arrivals)
