"""How the modules of the dashboard import one another."""

from __future__ import annotations

from graphlib import TopologicalSorter

from grimp import build_graph


def test_no_module_of_the_dashboard_imports_in_a_circle() -> None:
    """Not even for types: who reads a module needs to know only what stands below it."""
    graph = build_graph("riverui", cache_dir=None)
    modules = {name for name in graph.modules if name.startswith("riverui.web")}
    imported = {name: graph.find_modules_directly_imported_by(name) & modules for name in modules}
    assert any("riverui.web.view.render" in found for found in imported.values())
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the circle
