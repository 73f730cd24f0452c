"""The figures of worker processes for Prometheus: of one, and of several together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from riverui.contrib.prometheus import PrometheusPlugin

if TYPE_CHECKING:
    from riverui.engine.client import Client

Family = tuple[str, str, str, list[tuple[str, dict[str, str], float]]]
"""One metric's name, type and meaning, and its samples: name, labels, value."""

_ADDED = ("counter", "histogram", "summary")
"""Types whose samples of several processes are added, and which outlive a process."""
_OWN = "riverui_worker_"
"""Begins the names of gauges whose values are added where two processes have the same place."""


def plugin_of(client: Client) -> PrometheusPlugin:
    """Return the client's plugin; one with prometheus_client's own registry is added where it has
    none.
    """
    for plugin in client.config.plugins:
        if isinstance(plugin, PrometheusPlugin):
            return plugin
    added = PrometheusPlugin()
    client.config = replace(client.config, plugins=(*client.config.plugins, added))
    client.extensions = client.config.extensions
    return added


def text(plugin: PrometheusPlugin) -> bytes:
    """Return all that is in the plugin's registry, the program's own metrics too, as text."""
    plugin.refresh()
    return generate_latest(plugin.registry)


def families(plugin: PrometheusPlugin) -> list[Family]:
    """Return the same as data that another process can add up."""
    plugin.refresh()
    return [
        (
            metric.name,
            metric.type,
            metric.documentation,
            [
                (sample.name, dict(sample.labels), sample.value)
                for sample in metric.samples
                if not sample.name.endswith("_created")
            ],
        )
        for metric in plugin.registry.collect()
    ]


_Key = tuple[str, tuple[tuple[str, str], ...]]


class Together:
    """Adds up the figures of processes that come and go, so that no counter ever goes back."""

    def __init__(self) -> None:
        self._gone: dict[str, _Sum] = {}
        """What processes had counted that have ended."""

    def ended(self, told: Iterable[Family]) -> None:
        """Keep what a process has counted that has ended."""
        _add(self._gone, told)

    def text(
        self, told: Sequence[tuple[int, Iterable[Family]]], about: Iterable[Metric] = ()
    ) -> bytes:
        """Return what processes told, each with its number, the current ones after those that are
        leaving; and what else there is.

        Counters and histograms are added up, the rest has the label `process`.
        """
        sums = {name: found.copy() for name, found in self._gone.items()}
        for number, each in told:
            _add(sums, each, process=str(number))
        registry = CollectorRegistry()
        registry.register(_Collected([*(found.metric() for found in sums.values()), *about]))
        return generate_latest(registry)


class _Sum:
    """One metric of several processes."""

    def __init__(self, name: str, kind: str, documentation: str) -> None:
        self.name, self.kind, self.documentation = name, kind, documentation
        self.values: dict[_Key, float] = {}

    def copy(self) -> _Sum:
        copied = _Sum(self.name, self.kind, self.documentation)
        copied.values = dict(self.values)
        return copied

    def metric(self) -> Metric:
        metric = Metric(self.name, self.documentation, self.kind)
        for (name, labels), value in self.values.items():
            metric.add_sample(name, dict(labels), value)
        return metric


def _add(sums: dict[str, _Sum], told: Iterable[Family], *, process: str | None = None) -> None:
    """Add what a process told, of one that has ended only what counts on."""
    for name, kind, documentation, samples in told:
        added = kind in _ADDED
        if process is None and not added:
            continue
        found = sums.get(name) or sums.setdefault(name, _Sum(name, kind, documentation))
        for sample, labels, value in samples:
            quantile = "quantile" in labels
            if added and not quantile:
                key = sample, tuple(sorted(labels.items()))
            elif process is None:
                continue
            else:
                key = sample, tuple(sorted({**labels, "process": process}.items()))
            adds = (added and not quantile) or name.startswith(_OWN)
            found.values[key] = value + (found.values.get(key, 0.0) if adds else 0.0)


class _Collected:
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics
