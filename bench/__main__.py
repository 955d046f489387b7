"""`python -m bench [module …]`: run the benchmarks of all modules, or of the named ones, and print a table."""

from __future__ import annotations

import importlib
import pkgutil
import platform
import sys

import bench
from bench import Benchmark, Figure, us_per_message

WIDTH = 56


def modules() -> list[str]:
    """The benchmarks of single parts. Packages are not among them: `bench.suite` measures whole brokers."""
    return sorted(each.name for each in pkgutil.iter_modules(bench.__path__) if not each.ispkg and not each.name.startswith("_"))


def main(chosen: list[str]) -> int:
    unknown = sorted(set(chosen) - set(modules()))
    if unknown:
        print(f"Unknown benchmark: {', '.join(unknown)}. Choose from: {', '.join(modules())}.", file=sys.stderr)
        return 2
    print(f"CPU time in µs per message, best of {bench.ROUNDS} rounds; Python {platform.python_version()}, {platform.machine()}")
    for name in chosen or modules():
        module = importlib.import_module(f"bench.{name}")
        print(f"\n{name:<{WIDTH}}  {'':>14}  reference")
        benchmarks: list[Benchmark] = getattr(module, "BENCHMARKS", [])
        for benchmark in benchmarks:
            show(Figure(benchmark.name, f"{us_per_message(benchmark):.2f} µs", benchmark.reference))
        for figure in module.figures() if hasattr(module, "figures") else ():
            show(figure)
    return 0


def show(figure: Figure) -> None:
    print(f"{figure.name:<{WIDTH}}  {figure.value:>14}  {figure.remark}".rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
