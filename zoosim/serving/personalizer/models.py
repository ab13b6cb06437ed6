"""The model of a service: exported as a file, imported from one, and forgotten."""

import asyncio
import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from zoosim.action_spaces.registry import find_action_space
from zoosim.core.errors import DataError
from zoosim.policies.model import PACKING, SUFFIX, load_model, save_model
from zoosim.serving.folder import keep_content, model_path
from zoosim.serving.personalizer.configuration import timestamp
from zoosim.serving.personalizer.errors import PersonalizerError
from zoosim.serving.service import Service

MEMBER = f"model{SUFFIX}"
"""The file in the archive of a signed model; it holds its own checksum."""


def export_model(service: Service, signed: bool) -> bytes:
    """Return the model as a file, with all that it has learned; a signed one in an archive."""
    with tempfile.TemporaryDirectory() as folder:
        content = save_model(service.model, Path(folder) / MEMBER).read_bytes()
    if not signed:
        return content
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(zipfile.ZipInfo(MEMBER), content)
    return archive.getvalue()


async def import_model(service: Service, content: bytes) -> None:
    """Go on with an exported model, or one that `zoosim train` wrote; raises `PersonalizerError` for another file."""
    await service.switch_model(await asyncio.to_thread(_kept, service, content))


def _kept(service: Service, content: bytes) -> str:
    """Keep a model in the service's folder; return its digest. Raises `PersonalizerError` for what is none."""
    is_signed = not content.startswith(PACKING.magic)
    unpacked = _unsigned(content) if is_signed else content
    try:
        model = load_model("model", content=unpacked)
    except DataError as error:
        code = "InvalidModelImportSignature" if is_signed else "InvalidModelImportFormat"
        raise PersonalizerError(code, str(error)) from None
    endpoint = find_action_space(model.action_space).endpoint
    if endpoint is None or not endpoint.fills_slots:
        message = f"Model should choose products, got one of {model.action_space}."
        raise PersonalizerError("InvalidModelImportFormat", message)
    return keep_content(service.folder, unpacked)[0]


async def reset_model(service: Service) -> None:
    """Forget what was learned: the model begins again from what its file held when the service took it up."""
    await service.switch_model(service.start.model)


async def model_properties(service: Service) -> dict[str, Any]:
    """Return when the model was taken up, and when it last learned."""
    created = model_path(service.folder, service.start.model).stat().st_mtime
    return {"creationTime": timestamp(created), "lastModifiedTime": timestamp(await last_learned(service))}


async def last_learned(service: Service) -> float:
    """Return when the newest row of the log came that the model has learned, in seconds since 1970."""
    created = model_path(service.folder, service.start.model).stat().st_mtime
    return max(created, await service.time_of(service.current.state))


def _unsigned(content: bytes) -> bytes:
    """Return the model in an archive; raises `PersonalizerError` for what is none, or broken."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            member = packed.getinfo(MEMBER)
            # A compressed one could take any amount of memory, however short the body was.
            if member.compress_type != zipfile.ZIP_STORED:
                raise PersonalizerError("InvalidModelImportFormat", "Model should be stored without compression.")
            return packed.read(member)
    except zipfile.BadZipFile as error:
        code = "InvalidModelImportSignature" if content.startswith(b"PK") else "InvalidModelImportFormat"
        raise PersonalizerError(
            code, f"Model should be a file that this API or zoosim train wrote ({error})."
        ) from None
    except (LookupError, ValueError, OSError, NotImplementedError, RuntimeError, EOFError):
        message = "Model should be a file that this API or zoosim train wrote."
        raise PersonalizerError("InvalidModelImportFormat", message) from None
