"""Metrics of worker processes for Prometheus: of one, and of several combined."""

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
"""Types whose samples are summed over processes, including those that have ended."""
_OWN = "riverui_worker_"
"""Prefix of gauges that are summed if two processes share a place."""


def prometheus_plugin(client: Client) -> PrometheusPlugin:
    """Return the client's plugin; if it has none, add one on the default registry."""
    for plugin in client.config.plugins:
        if isinstance(plugin, PrometheusPlugin):
            return plugin
    added = PrometheusPlugin()
    client.config = replace(client.config, plugins=(*client.config.plugins, added))
    client.extensions = client.config.extensions
    return added


def text(plugin: PrometheusPlugin) -> bytes:
    """Return all metrics of the plugin's registry as text, including the program's own."""
    plugin.refresh()
    return generate_latest(plugin.registry)


def families(plugin: PrometheusPlugin) -> list[Family]:
    """Return the same metrics as data, for the supervisor."""
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


class CombinedMetrics:
    """Combines metrics of processes that are replaced, so that no counter decreases."""

    def __init__(self) -> None:
        self._ended: dict[str, _Sum] = {}
        """Counters of processes that have ended."""

    def ended(self, families: Iterable[Family]) -> None:
        """Keep the counters of a process that has ended."""
        _add(self._ended, families)

    def text(
        self, processes: Sequence[tuple[int, Iterable[Family]]], others: Iterable[Metric] = ()
    ) -> bytes:
        """Return the metrics of numbered processes and others; current processes come after leaving
        ones.

        Counters and histograms are summed, others get the label `process`.
        """
        sums = {name: found.copy() for name, found in self._ended.items()}
        for number, each in processes:
            _add(sums, each, process=str(number))
        registry = CollectorRegistry()
        registry.register(_Collected([*(found.metric() for found in sums.values()), *others]))
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


def _add(sums: dict[str, _Sum], families: Iterable[Family], *, process: str | None = None) -> None:
    """Add the metrics of a process; without `process`, which has ended, only its counters."""
    for name, kind, documentation, samples in families:
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
