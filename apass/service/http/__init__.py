"""The service over HTTP: an ASGI application of an `Optimizer`."""

from importlib.util import find_spec

from apass.errors import MissingExtraError

_missing = [name for name in ("msgspec", "starlette", "python_multipart") if find_spec(name) is None]
if _missing:
    raise MissingExtraError(f"the service over HTTP needs {' and '.join(_missing)}: pip install 'apass[serve]'")
