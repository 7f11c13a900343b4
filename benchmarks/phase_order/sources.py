"""Source archives of the programs: Debian's source packages, and a package of npm.

They are fetched once, by `apt-get source` and `npm pack`, and their digests are compared. Where these clients are
missing, put the archives into `folder()` by other means.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

__all__ = ["ARCHIVES", "FetchError", "fetch", "folder", "unpacked"]

ARCHIVES: Final[Mapping[str, str]] = {
    "bc_1.07.1.orig.tar.gz": "62adfca89b0a1c0164c2cdca59ca210c1d44c3ffc46daf9931cf4942664cb02a",
    "better-sqlite3-12.11.1.tgz": "ebf0ed75a7a59dbcb3b24bbd014ef49d9f15bc328e4adcbf516f2a8fadfa2835",
    "brotli_1.0.9.orig.tar.gz": "f9e8d81d0405ba66d181529af42a3354f838c939095ff99930da6aa9cdf6fe46",
    "bzip2_1.0.8.orig.tar.gz": "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
    "cjson_1.7.15.orig.tar.gz": "5308fd4bd90cef7aa060558514de6a1a4a0819974a26e6ed13973c5f624c24b2",
    "duktape_2.7.0.orig.tar.xz": "90f8d2fa8b5567c6899830ddef2c03f3c27960b11aca222fa17aa7ac613c2890",
    "ed_1.19.orig.tar.gz": "8e5c3e7c84972e73957ff396b8318a21795f86547dd1fe4ec4232a9e6e44ca1d",
    "expat_2.5.0.orig.tar.gz": "ab00ee05c7067fd10a35c5d2a4922ebba746ddd50ff83b79c828da17bbdf1757",
    "giflib_5.2.1.orig.tar.gz": "31da5562f44c5f15d63340a09a4fd62b48c45620cd302f77a6d9acf0077879bd",
    "gzip_1.12.orig.tar.xz": "ce5e03e519f637e1f814011ace35c4f87b33c0bbabeec35baf5fbd3479e91956",
    "jansson_2.14.orig.tar.gz": "c739578bf6b764aa0752db9a2fdadcfe921c78f1228c7ec0bb47fa804c55d17b",
    "jbigkit_2.1.orig.tar.gz": "de7106b6bfaf495d6865c7dd7ac6ca1381bd12e0d81405ea81e7f2167263d932",
    "lame_3.100.orig.tar.gz": "ddfe36cab873794038ae2c1210557ad34857a4b6bdc515785d1da9e175b1da1e",
    "lcms2_2.14.orig.tar.gz": "28474ea6f6591c4d4cee972123587001a4e6e353412a41b3e9e82219818d5740",
    "libgsm_1.0.22.orig.tar.gz": "f0072e91f6bb85a878b2f6dbf4a0b7c850c4deb8049d554c65340b3bf69df0ac",
    "libmad_0.15.1b.orig.tar.gz": "bbfac3ed6bfbc2823d3775ebb931087371e142bb0e9bb1bee51a76a6e0078690",
    "libtomcrypt_1.18.2.orig.tar.xz": "96ad4c3b8336050993c5bc2cf6c057484f2b0f9f763448151567fbab5e767b84",
    "libzstd_1.5.4+dfsg2.orig.tar.xz": "8cf4bbb65e77ec348d052c8d6230eba66d435bddf64c8b5be2fcb16880c19953",
    "lua5.4_5.4.4.orig.tar.gz": "164c7849653b80ae67bec4b7473b884bf5cc8d2dca05653475ec2ed27b9ebf61",
    "lz4_1.9.4.orig.tar.gz": "0b0e3aa07c8c063ddf40b082bdf7e37a1562bda40a0ff5272957f3e987e0e54b",
    "lzo2_2.10.orig.tar.gz": "c0f892943208266f9b6543b3ae308fab6284c5c90e627931446fb49b4221a072",
    "mujs_1.3.2.orig.tar.xz": "4886593fc688b0cdccd31e5ecbe5afe7ad1bee23aa69e667b871afd5dfc640c3",
    "picosat_965.orig.tar.gz": "15169b4f28ba8f628f353f6f75a100845cdef4a2244f101a02b6e5a26e46a754",
    "potrace_1.16.orig.tar.gz": "be8248a17dedd6ccbaab2fcc45835bb0502d062e40fbded3bc56028ce5eb7acc",
    "qrencode_4.1.1.orig.tar.bz2": "e455d9732f8041cf5b9c388e345a641fd15707860f928e94507b1961256a6923",
    "sed_4.9.orig.tar.xz": "6e226b732e1cd739464ad6862bd1a1aba42d7982922da7a53519631d24975181",
    "tinyscheme_1.42.svn.2020.06.04.orig.tar.xz": "95d1a25e4e8427bbd47a737b112a07f472224ea9ba59d682659450b61c476356",
    "zlib_1.2.13.dfsg.orig.tar.bz2": "71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1",
    "zopfli_1.0.3.orig.tar.gz": "e955a7739f71af37ef3349c4fa141c648e8775bceb2195be07e86f8e638814bd",
}
"""The SHA-256 digest of each archive. `PACKAGE_VERSION.orig...` is Debian's, `PACKAGE-VERSION.tgz` npm's."""

_SOURCES: Final = ("sources.list", "sources.list.d/debian.sources")
"""Where Debian lists its own archive, below /etc/apt."""


class FetchError(Exception):
    """An archive is missing, or has other contents than expected."""


def folder() -> Path:
    """Return the folder of the archives and of what is made of them.

    It is `APASS_PHASE_ORDER`, or by default `apass-phase-order` in the cache folder of the user.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "apass-phase-order"
    found = Path(os.environ.get("APASS_PHASE_ORDER", cache))
    found.mkdir(parents=True, exist_ok=True)
    return found


def fetch(names: Iterable[str] = ARCHIVES) -> None:
    """Fetch the archives that are not in the folder.

    Raises:
        FetchError: if an archive cannot be fetched, or has another digest.

    """
    wanted = [name for name in names if not (folder() / name).exists()]
    if not wanted:
        return
    with TemporaryDirectory(dir=folder()) as text:
        target = Path(text)
        debian = [name for name in wanted if ".orig." in name]
        if debian:
            _from_debian([name.partition("_")[0] for name in debian], target)
        for name in set(wanted) - set(debian):
            package, _, version = name.removesuffix(".tgz").rpartition("-")
            _call(["npm", "pack", "--silent", f"{package}@{version}"], target)
        for name in wanted:
            path = target / name
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "no such file"
            if digest != ARCHIVES[name]:
                raise FetchError(
                    f"fetched {name} with the digest {digest}, expected {ARCHIVES[name]}; "
                    f"put the archive into {folder()}"
                )
            path.replace(folder() / name)


def _from_debian(packages: Iterable[str], target: Path) -> None:
    """Download source packages. The lists of the system stay as they are."""
    paths = [Path("/etc/apt") / name for name in _SOURCES]
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in paths if path.exists())
    # Fixes of security change no upstream archive, and their own archive does not keep older ones.
    parts = [part for part in re.split(r"\n\n+|\n(?=deb )", text) if "-security" not in part]
    lines = re.sub(r"^Types: *deb\b(?!-)|^deb(?= )", r"\g<0>-src", "\n\n".join(parts) + "\n", flags=re.MULTILINE)
    listed = target / ("private.sources" if "Types:" in lines else "private.list")
    listed.write_text(lines, encoding="utf-8")
    (target / "lists" / "partial").mkdir(parents=True)
    settings = {
        "Dir::Etc::SourceList": listed,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": target / "lists",
        "Dir::Cache": target,
        "APT::Sandbox::User": "root",
    }
    options = [f"-o{key}={value}" for key, value in settings.items()]
    _call(["apt-get", *options, "-qq", "update"], target)
    # It may fail after it has fetched the archive, for want of Debian's own changes.
    _call(["apt-get", *options, "-qq", "--download-only", "source", *packages], target)


def _call(command: list[str], target: Path) -> None:
    """Run a client of a registry. The digests show whether it succeeded."""
    if shutil.which(command[0]) is None:
        raise FetchError(f"{command[0]} is not installed; put the archives into {folder()}")
    subprocess.run(command, cwd=target, capture_output=True, check=False, timeout=600)


def unpacked(archive: str) -> Path:
    """Return the folder with the contents of an archive, fetched if it is not kept.

    Raises:
        FetchError: as `fetch`.

    """
    target = folder() / "sources" / re.sub(r"\.orig\.tar\.\w+$|\.tgz$", "", archive)
    if not target.exists():
        fetch([archive])
        part = target.with_name(f"{target.name}.{os.getpid()}")
        with tarfile.open(folder() / archive) as packed:
            packed.extractall(part, filter="data")
        # Another process must not use a part of the contents.
        part.rename(target)
    return target
