"""Settings of a service with several loops: which hold for all, and which each has for itself."""

from pathlib import Path
from typing import Any

import pytest

from zoosim.core.errors import ConfigError
from zoosim.serving.settings import read_loop_settings, read_settings


@pytest.mark.parametrize("beside", [{"store": "sqlite:shop"}, {"arms": "new=new.zoosim:0.2"}])
def test_a_service_has_one_loop_or_a_folder_of_them(beside: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="got a value beside loops"):
        read_settings(None, {"ZOOSIM_SERVE_LOOPS": "loops"}, beside)
    assert read_settings(None, {"ZOOSIM_SERVE_LOOPS": "loops"}, {}).loops == "loops"


def test_settings_of_a_loop_stand_over_those_of_its_service() -> None:
    common = read_settings(None, {}, {"loops": "loops", "wait": 60.0, "strict": True, "key": "k" * 16})
    own = read_loop_settings(common, {"wait": 5.0}, Path("loops/home"), "loop home")
    assert (own.wait, own.strict, own.keys["key"]) == (5.0, True, "k" * 16)
    assert (own.loops, own.store) == ("", "sqlite:loops/home")
    assert "lowest" not in own.model_fields_set  # what nobody set, the first requests of a loop may
    for name in ("port", "key", "store", "arms", "loops", "rate"):
        with pytest.raises(ConfigError, match=f"loop home: {name}: is a setting of the whole service"):
            read_loop_settings(common, {name: 1}, Path(), "loop home")
