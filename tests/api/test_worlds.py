"""Files that are described are told from worlds by how they end."""

from pathlib import Path

import pytest

import zoosim
from zoosim.core.errors import DataError


@pytest.mark.parametrize("name", ["shop.zoosim", "shop.zoosim@own.py:Own", "shop.world"])
def test_files_may_lie_in_a_folder_whose_name_has_an_at_sign(tmp_path: Path, name: str) -> None:
    path = tmp_path / "me@shop" / name
    with pytest.raises(DataError, match=r"me@shop/shop\.(zoosim|world): no such file"):
        zoosim.describe(path)
