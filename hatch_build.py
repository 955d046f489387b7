"""Builds the compiled twins (src/skyrocket/compiled/*.pyx) into a wheel, or beside their sources for an editable install.

Where Cython or a C compiler is missing, or SKYROCKET_PURE=1 says so, the wheel is pure Python: it works the same, and slower.

    python hatch_build.py            # builds the twins whose sources changed, beside their sources
    python hatch_build.py FLAGS      # builds all of them, with more flags for the C compiler and the linker
    python hatch_build.py --sanitize # builds all of them for the sanitizers: an access outside a buffer ends the process
"""

from __future__ import annotations

import os
import runpy
import shlex
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCES = Path("src/skyrocket/compiled")
FLAGS = ["-O2", "-g0"]
# Python's own flags define the overflow of signed numbers, which hides it from the sanitizer: -fno-wrapv takes that back.
SANITIZE = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-wrapv",
    "-fno-omit-frame-pointer",
    "-O1",
    "-g1",
]
digests = runpy.run_path(str(ROOT / SOURCES / "source_digest.py"))  # skyrocket itself is not installed yet


class CannotBuildError(Exception):
    """The wheel will be pure Python, and this says why."""


class TwinsHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version` is the kind of wheel: standard, or editable."""
        try:
            built = build()
        except CannotBuildError as error:
            self.app.display_warning(f"{error} skyrocket is built in pure Python: it works the same, and slower.")
            if version == "editable":
                for old in (ROOT / SOURCES).glob("*.so"):
                    old.unlink()  # or it would be used, whatever its source says by now
            return
        if version != "editable":
            build_data["force_include"] |= {str(ROOT / path): str(path.relative_to("src")) for path in built}
        build_data["pure_python"] = False
        build_data["tag"] = tag()


def tag() -> str:
    """Of a wheel that has been compiled: for this Python and this kind of machine."""
    interpreter = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{interpreter}-{interpreter}-{platform}"


def built_path(source: Path) -> Path:
    """Where the extension module of a source is built: beside it."""
    return source.with_name(source.stem + sysconfig.get_config_var("EXT_SUFFIX"))


def digest_of(source: Path) -> str:
    digest: str = digests["source_digest"](source.resolve())
    return digest


def is_current(source: Path) -> bool:
    """Whether a source has been built as it stands: the module contains the digest of its sources."""
    built = built_path(source)
    return built.exists() and digest_of(source).encode() in built.read_bytes()


def build(more_flags: list[str] | None = None) -> list[Path]:
    """Build the extension modules beside their sources, and return their paths relative to the root.

    Only modules whose sources changed are compiled; with `more_flags` for the C compiler and the linker, all of them.
    """
    if os.environ.get("SKYROCKET_PURE", "") not in ("", "0"):
        raise CannotBuildError("SKYROCKET_PURE is set.")
    if sys.implementation.name != "cpython":
        raise CannotBuildError(f"The compiled twins are for CPython, and this is {sys.implementation.name}.")
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError as CythonError
        from setuptools import Distribution, Extension
        from setuptools.errors import BaseError, CompileError, LinkError
    except ImportError as error:
        raise CannotBuildError(f"There is no {error.name} here.") from error

    def translate(source: Path) -> Any:
        """Translate one module to C, and return the setuptools command that compiles it."""
        extension = Extension(
            f"skyrocket.compiled.{source.stem}",
            [str(source)],
            include_dirs=[str(SOURCES)],
            depends=[str(shared) for pattern in ("*.pxi", "*.h") for shared in sorted(SOURCES.glob(pattern))],
            define_macros=[(digests["MACRO"], f'"{digest_of(source)}"')],
            extra_compile_args=[*FLAGS, *(more_flags or [])],
            extra_link_args=more_flags or [],
        )
        translated = cythonize([extension], build_dir="build/cython", language_level=3, quiet=True, include_path=["src"])
        distribution = Distribution({"name": "skyrocketmq", "ext_modules": translated, "package_dir": {"": "src"}})
        command = distribution.get_command_obj("build_ext")
        command.inplace, command.force, command.build_temp = True, True, "build/compiled"
        command.ensure_finalized()
        return command

    os.chdir(ROOT)
    sources = sorted(SOURCES.glob("*.pyx"), key=lambda source: source.stat().st_size, reverse=True)  # the slowest first
    try:
        # The C compiler takes most of the time. It runs as a process for each module, while Cython translates the next one here.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(translate(source).run) for source in sources if more_flags or not is_current(source)]
        for job in jobs:
            job.result()
    except (CythonError, BaseError, CompileError, LinkError, OSError) as error:
        raise CannotBuildError(f"The compiled twins could not be built: {error}.") from error
    return [built_path(source) for source in sources]


if __name__ == "__main__":
    flags = [word for words in sys.argv[1:] for word in shlex.split(words)]
    for module in build(SANITIZE if flags == ["--sanitize"] else flags):
        sys.stdout.write(f"{module}\n")
