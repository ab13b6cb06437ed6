"""Print pip's settings as those of uv, which does not read them: one `export` a line, where uv has no setting yet."""

import ast
import os
import shlex
import subprocess
import sys

# `pip config list` prints scope.name='value' a line; the later scope wins, as it does in pip.
settings: dict[str, str] = {}
listing = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
entries = [line.partition("=")[::2] for line in listing.splitlines() if "=" in line]
for scope in ("global", "install", ":env:"):
    for key, value in entries:
        if key.startswith(scope + "."):
            settings[key.removeprefix(scope + ".")] = ast.literal_eval(value)


def export(variable: str, value: str | None) -> None:
    if value and not os.environ.get(variable):
        print(f"export {variable}={shlex.quote(value)}")


links = settings.get("find-links", "").split()
export("UV_FIND_LINKS", ",".join(os.path.expanduser(link) for link in links))
if not os.environ.get("UV_INDEX_URL"):
    export("UV_DEFAULT_INDEX", settings.get("index-url"))
if extra := " ".join(settings.get("extra-index-url", "").split()):
    export("UV_EXTRA_INDEX_URL", extra)
    export("UV_INDEX_STRATEGY", "unsafe-best-match")  # as pip does: the best version of all indexes
export("SSL_CERT_FILE", settings.get("cert"))
export("UV_INSECURE_HOST", " ".join(settings.get("trusted-host", "").split()))
export("UV_HTTP_TIMEOUT", settings.get("timeout") or settings.get("default-timeout"))
export("ALL_PROXY", settings.get("proxy"))
