"""Modules of the user that a command line loads: passes, adapters, config options.

A module that is loaded registers what it defines. Worker processes and interpreters import the same modules.
"""

import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

from apass.concurrency.processes.pool import import_in_workers
from apass.errors import MissingExtraError, PluginError, did_you_mean

__all__ = ["UserModule", "load_options", "load_user_module", "loaded_user_modules"]


@dataclass(frozen=True, slots=True)
class UserModule:
    """A module that was loaded."""

    source: str
    """The absolute path of the file or folder, or the name of the module: what to load in another process."""
    name: str
    """The name of the module in Python."""


_LOADED: Final[dict[str, UserModule]] = {}
"""The modules that were loaded, by name."""


def loaded_user_modules() -> tuple[UserModule, ...]:
    """Return the modules that `load_user_module` imported, in order."""
    return tuple(_LOADED.values())


def load_options() -> list[str]:
    """Return the options with which a command loads the same modules."""
    return [word for module in loaded_user_modules() for word in ("--load", module.source)]


def load_user_module(source: str, folder: Path | None = None) -> ModuleType:
    """Import a module of the user, which registers passes, adapters or config options.

    The folder of the module is appended to `sys.path`, so that the module can import its neighbours, and other
    processes can import the module. Loading a module again has no effect.

    Parameters:
        source: a Python file, the folder of a package, or the name of a module. A file of a package is imported as a
            part of the package.
        folder: where relative paths start, and where modules are searched after `sys.path`; None for the working
            directory.

    Raises:
        PluginError: if there is no such module, if an installed module has its name, or if it fails.
        MissingExtraError: if the module needs an extra of apass that is not installed.

    """
    if not source:
        raise PluginError("cannot load an empty name; name a Python file or a module")
    folder = Path.cwd() if folder is None else folder
    path = folder / source
    # A name without a suffix may belong to a module and to a folder. A folder with other contents is no package.
    is_package = path.is_dir() and (path / "__init__.py").is_file()
    if path.suffix == ".py" or "/" in source or os.sep in source or is_package or path.is_file():
        location = _location(path, source)
        root, name = _root_and_name(location)
        _append_to_path(root)
        _check_name(name, root, source)
        loaded = UserModule(str(location), name)
    elif not all(part.isidentifier() for part in source.split(".")):
        raise PluginError(f"cannot load {source!r}: expected a Python file (.py), a package or the name of a module")
    else:
        _append_to_path(folder)
        loaded = UserModule(source, source)
    module = _import(loaded, source)
    _LOADED.setdefault(loaded.name, loaded)
    import_in_workers(loaded.name)
    return module


def _location(path: Path, source: str) -> Path:
    """Return the absolute path of a file or a package."""
    if not path.exists():
        siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
        raise PluginError(f"cannot load {source!r}: no such file{did_you_mean(path.name, siblings)}")
    if path.is_dir() and not (path / "__init__.py").is_file():
        raise PluginError(f"cannot load {source!r}: the folder has no __init__.py; name a Python file or a package")
    if path.is_file() and path.suffix != ".py":
        raise PluginError(f"cannot load {source!r}: expected a Python file (.py), a package or the name of a module")
    return path.resolve()


def _root_and_name(location: Path) -> tuple[Path, str]:
    """Return the folder that a file is imported from, and the name of its module."""
    names = [location.stem] if location.is_file() else [location.name]
    root = location.parent
    while (root / "__init__.py").is_file() and root != root.parent:
        names.insert(0, root.name)
        root = root.parent
    return root, ".".join(names[:-1] if names[-1] == "__init__" and len(names) > 1 else names)


def _append_to_path(folder: Path) -> None:
    # At the end: a file of the user must not replace a module that something else imports.
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _check_name(name: str, root: Path, source: str) -> None:
    """Raise PluginError if Python imports another file under the name of a module."""
    top = name.partition(".")[0]
    if not all(part.isidentifier() for part in name.split(".")):
        raise PluginError(f"cannot load {source!r}: {name!r} is not a name that Python can import; rename the file")
    expected = [root / top / "__init__.py", root / f"{top}.py"]
    try:
        spec = find_spec(top)
    except ValueError:  # a module without a spec, such as `__main__`
        spec = None
    origin = None if spec is None else spec.origin
    if origin is None or Path(origin) not in expected:
        module = "a module of Python" if origin is None or not Path(origin).exists() else origin
        raise PluginError(
            f"cannot load {source!r}: Python imports {module} under the name {top!r}; rename the file or the package"
        )


def _import(module: UserModule, source: str) -> ModuleType:
    try:
        return import_module(module.name)
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (module.name == error.name or module.name.startswith(f"{error.name}.")):
            raise PluginError(
                f"cannot load {source!r}: there is no such module, and no file {module.name.replace('.', '/')}.py"
            ) from None
        raise _failure(source, error) from error
    except (Exception, SystemExit) as error:  # the module of the user may raise anything
        raise _failure(source, error) from error


def _failure(source: str, error: BaseException) -> PluginError:
    place = next(_places(error), "")
    reason = f"{type(error).__name__}: {error}".removesuffix(": ")
    return PluginError(f"cannot load {source!r}: {reason}{place}")


def _places(error: BaseException) -> Iterator[str]:
    """Iterate over the lines that raised an error, innermost first.

    Those of Python's import system and of apass are left out.
    """
    if isinstance(error, SyntaxError):
        # The message has the line already.
        return
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith("<") and not Path(frame.filename).is_relative_to(_PACKAGE):
            yield f", at {frame.filename}:{frame.lineno}"


_PACKAGE: Final = Path(__file__).parents[1]
