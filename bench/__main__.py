"""python -m bench [module …]: run the benchmarks of all modules, or of those named, and print a table."""

from __future__ import annotations

import importlib
import pkgutil
import platform
import sys

import bench
from bench import Benchmark, us_per_message


def modules() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_"))


def main(chosen: list[str]) -> int:
    unknown = sorted(set(chosen) - set(modules()))
    if unknown:
        print(f"There is no benchmark called {', '.join(unknown)}; there are: {', '.join(modules())}.", file=sys.stderr)
        return 2
    print(f"CPU time in µs per message, best of {bench.ROUNDS} rounds; Python {platform.python_version()}, {platform.machine()}")
    for name in chosen or modules():
        benchmarks: list[Benchmark] = importlib.import_module(f"bench.{name}").BENCHMARKS
        width = max(len(benchmark.name) for benchmark in benchmarks)
        print(f"\n{name:<{width}}  {'µs':>8}  reference")
        for benchmark in benchmarks:
            print(f"{benchmark.name:<{width}}  {us_per_message(benchmark):8.2f}  {benchmark.reference}".rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
