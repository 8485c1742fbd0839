"""One picture: what does not matter in a damaged file goes unsaid."""

import warnings

import numpy as np
from PIL import Image

from vesalius.data.pictures import read_picture


def test_damage_to_what_a_camera_noted_is_passed_over_in_silence(tmp_path):
    noted = Image.Exif()
    noted[0x0112] = 6
    Image.new("L", (4, 4), 200).save(tmp_path / "x.jpg", exif=noted)
    data = bytearray((tmp_path / "x.jpg").read_bytes())
    at = data.find(b"\x01\x12") - 2  # how many notes there are
    data[at : at + 2] = b"\xff\xff"
    (tmp_path / "x.jpg").write_bytes(data)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = read_picture(tmp_path / "x.jpg", 4, 1)
    assert not seen
    assert np.abs(found.pixels.astype(int) - 200).max() < 4
