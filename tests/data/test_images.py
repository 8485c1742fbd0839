"""Images are read from the field's files, shrunk and coloured exactly, and come in batches.

Those named after published data need the files of VESALIUS_DATA. PNG files need Pillow.
"""

import gzip
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from published import published

from vesalius.data.batches import require_labels
from vesalius.data.images import (
    Images,
    LabelledImages,
    MaskedPatches,
    MaskedPixels,
    PixelSequences,
    colours,
    read_images,
    shrunk,
)
from vesalius.data.masking import IGNORED
from vesalius.errors import (
    BrokenFile,
    EmptyCorpus,
    ImpossibleSetting,
    UnusableData,
    WrongLength,
)


def idx(array):
    """The bytes of an IDX file, as its format says."""
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def png(array, colour_type, depth=8, width=None, extra=()):
    """The bytes of a PNG file, from the format's specification: height x width (x colours)."""

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    height, width = len(array), width or array.shape[1]
    lines = b"".join(b"\0" + line.tobytes() for line in array)
    start = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0))
    between = b"".join(chunk(kind, body) for kind, body in extra)
    return (
        b"\x89PNG\r\n\x1a\n"
        + start
        + between
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


GREY, RGB, PALETTE, RGBA = 0, 2, 3, 6


@pytest.fixture
def pillow():
    return pytest.importorskip("PIL.Image", reason="PNG files are read by Pillow")


def drawn(rng, count, *shape):
    return rng.integers(0, 256, (count, *shape), dtype=np.uint8)


def test_importing_needs_neither_torch_nor_pillow():
    code = "import vesalius.data.images, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "PIL"} & set(done.stdout.split())


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("other_end", ["", ".gz"])
@pytest.mark.parametrize("names", ["train-{}-idx{}-ubyte", "t10k-{}.idx{}-ubyte"])
def test_idx_files_are_read_with_the_labels_beside_them(tmp_path, rng, end, other_end, names):
    pixels, labels = drawn(rng, 5, 4, 3), np.array([3, 1, 0, 255, 2], np.uint8)
    packed = {"": bytes, ".gz": gzip.compress}
    file = tmp_path / (names.format("images", 3) + end)
    file.write_bytes(packed[end](idx(pixels)))
    beside = tmp_path / (names.format("labels", 1) + other_end)
    beside.write_bytes(packed[other_end](idx(labels)))
    for path in (file, str(file), tmp_path):
        images = read_images(path)
        assert images.pixels.shape == (5, 1, 4, 3)
        assert images.pixels.dtype == np.uint8
        assert (images.pixels[:, 0] == pixels).all()
        assert images.labels.tolist() == [3, 1, 0, 255, 2]
        assert images.labels.dtype == np.int64
        assert images.names == ()
        assert len(images) == 5


def test_idx_images_may_have_no_labels(tmp_path, rng):
    for name in ("images-idx3-ubyte", "digits.gz", "digits"):
        (tmp_path / name).write_bytes(idx(drawn(rng, 2, 4, 3)))
        assert read_images(tmp_path / name).labels is None


def test_a_folder_of_several_idx_files_asks_for_one_of_them(tmp_path, rng):
    for part in ("train", "t10k"):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(drawn(rng, 2, 4, 4)))
    with pytest.raises(UnusableData, match="t10k-images-idx3-ubyte and train-images-idx3-ubyte"):
        read_images(tmp_path)


def test_files_that_are_not_what_they_should_be_are_named(tmp_path, rng):
    file = tmp_path / "train-images-idx3-ubyte.gz"
    whole = idx(drawn(rng, 5, 4, 4))
    for content, message in (
        (b"Not Found", "is not an IDX file of images: .* 00 00 08 03, got 4e 6f 74 20"),
        (b"", "is not an IDX file of images"),
        (idx(np.arange(5, dtype=np.uint8)), "is not an IDX file of images: .*got 00 00 08 01"),
        (whole[:-1], "should hold 5 x 4 x 4 bytes, got 79"),
        (whole + b"\0\0", "should hold 5 x 4 x 4 bytes, got more than 80"),
        (whole[:6], "should hold"),
        (whole[:4] + b"\xff" * 12, "should hold 4294967295 x 4294967295 x 4294967295 bytes, got 0"),
        (gzip.compress(whole[:4] + b"\x00\x10\0\0" * 3), r"would expand to .* expected at most"),
        (whole[:4] + bytes(4) + b"\xff" * 8, r"says that it holds 0 x 4294967295 x 4294967295"),
        (gzip.compress(whole)[:-12], "is damaged or cut short"),
        (gzip.compress(whole)[:10] + b"\xff" * 60, "is damaged or cut short"),
    ):
        file.write_bytes(content)
        with pytest.raises(BrokenFile, match=f"train-images-idx3-ubyte.gz {message}"):
            read_images(file)
    with pytest.raises(BrokenFile, match="no file or folder"):
        read_images(tmp_path / "train-images")


def test_labels_must_be_labels_and_as_many_as_images(tmp_path, rng):
    (tmp_path / "images-idx3").write_bytes(idx(drawn(rng, 5, 4, 4)))
    (tmp_path / "labels-idx1").write_bytes(idx(np.arange(4, dtype=np.uint8)))
    with pytest.raises(UnusableData, match="5 images and 4 labels"):
        read_images(tmp_path)
    (tmp_path / "labels-idx1").write_bytes(b"some text")
    with pytest.raises(BrokenFile, match="labels-idx1 is not an IDX file of labels"):
        read_images(tmp_path)


def test_no_images_are_no_corpus(tmp_path):
    with pytest.raises(EmptyCorpus, match="holds no images; expected PNG or JPEG files"):
        read_images(tmp_path)
    (tmp_path / "images-idx3").write_bytes(idx(np.zeros((0, 4, 4), np.uint8)))
    with pytest.raises(EmptyCorpus, match="holds no images"):
        read_images(tmp_path / "images-idx3")


def test_arrays_are_read_with_or_without_colours_and_labels(tmp_path, rng):
    grey, first, last = drawn(rng, 5, 6, 8), drawn(rng, 5, 3, 6, 8), drawn(rng, 5, 6, 8, 3)
    np.save(tmp_path / "grey.npy", grey)
    assert (read_images(tmp_path / "grey.npy").pixels == grey[:, None]).all()
    assert read_images(tmp_path / "grey.npy").labels is None
    np.savez(tmp_path / "first.npz", images=first, labels=np.arange(5, dtype=np.int16))
    images = read_images(tmp_path / "first.npz")
    assert (images.pixels == first).all()
    assert images.labels.tolist() == [0, 1, 2, 3, 4]
    assert images.labels.dtype == np.int64
    np.savez_compressed(tmp_path / "last.npz", images=last)
    assert (read_images(tmp_path / "last.npz").pixels == last.transpose(0, 3, 1, 2)).all()


def test_arrays_that_cannot_be_used_say_why(tmp_path, rng):
    pixels = drawn(rng, 5, 6, 8)

    def refuse(error, message, **arrays):
        np.savez(tmp_path / "some.npz", **arrays)
        with pytest.raises(error, match=message):
            read_images(tmp_path / "some.npz")

    refuse(UnusableData, "no array images; it has pixels", pixels=pixels)
    refuse(UnusableData, r"bytes \(uint8\) .* got float64 in 3", images=pixels / 255)
    refuse(UnusableData, "got uint8 in 2", images=pixels[0])
    refuse(UnusableData, "5 images and 4 labels", images=pixels, labels=np.arange(4))
    refuse(UnusableData, "labels as whole numbers .* got <U1", images=pixels, labels=list("abcde"))
    refuse(UnusableData, "labels from 0, got -1", images=pixels, labels=np.arange(5) - 1)
    refuse(BrokenFile, "cannot be read", images=np.array([{}, {}]))  # would have to be unpickled
    (tmp_path / "some.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(BrokenFile, match=r"some\.npz cannot be read"):
        read_images(tmp_path / "some.npz")
    (tmp_path / "some.npy").write_bytes(b"")
    with pytest.raises(BrokenFile, match=r"some\.npy cannot be read"):
        read_images(tmp_path / "some.npy")


@pytest.mark.usefixtures("pillow")
def test_png_files_come_in_natural_order(tmp_path, rng):
    pixels = drawn(rng, 3, 4, 5)
    for name, image in zip(("2.png", "10.png", "a.PNG"), pixels, strict=True):
        (tmp_path / name).write_bytes(png(image, GREY))
    (tmp_path / "._2.png").write_bytes(b"of another system")
    (tmp_path / "notes.txt").write_text("not an image")
    images = read_images(tmp_path)
    assert (images.pixels == pixels[:, None]).all()
    assert images.labels is None
    assert images.names == ()


@pytest.mark.usefixtures("pillow")
def test_sub_folders_are_classes_in_natural_order(tmp_path, rng):
    pixels = drawn(rng, 5, 4, 5, 3)
    places = ["class 2/1.png", "class 2/2.png", "class 2/11.png", "class 10/1.png", "dog/1.png"]
    for place, image in zip(places, pixels, strict=True):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_bytes(png(image, RGB))
    (tmp_path / ".hidden").mkdir()
    images = read_images(tmp_path)
    assert (images.pixels == pixels.transpose(0, 3, 1, 2)).all()
    assert images.labels.tolist() == [0, 0, 0, 1, 2]
    assert images.labels.dtype == np.int64
    assert images.names == ("class 2", "class 10", "dog")


@pytest.mark.usefixtures("pillow")
@pytest.mark.parametrize("inside", [(), ("a.gif",)], ids=["empty", "other files"])
def test_a_class_without_pictures_is_refused(tmp_path, rng, inside):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
    (tmp_path / "cat" / "a.png").write_bytes(png(drawn(rng, 4, 5), GREY))
    for name in inside:
        (tmp_path / "dog" / name).write_bytes(b"GIF89a")
    with pytest.raises(EmptyCorpus, match="dog holds no images; expected PNG or JPEG files of"):
        read_images(tmp_path)


@pytest.mark.usefixtures("pillow")
def test_palettes_and_single_bits_are_read_as_what_they_show(tmp_path):
    bits = np.array([[0b10100000]], np.uint8)
    palette = (b"PLTE", bytes([10, 20, 30, 40, 50, 60]))
    (tmp_path / "1.png").write_bytes(png(bits, GREY, depth=1, width=4))
    assert read_images(tmp_path).pixels.tolist() == [[[[255, 0, 255, 0]]]]
    (tmp_path / "1.png").write_bytes(png(bits, PALETTE, depth=1, width=4, extra=[palette]))
    expected = [[[40, 10, 40, 10]], [[50, 20, 50, 20]], [[60, 30, 60, 30]]]
    assert read_images(tmp_path).pixels.tolist() == [expected]


@pytest.mark.usefixtures("pillow")
def test_images_of_two_sizes_are_named_with_their_sizes(tmp_path, rng):
    (tmp_path / "1.png").write_bytes(png(drawn(rng, 4, 5), GREY))
    (tmp_path / "2.png").write_bytes(png(drawn(rng, 4, 5), GREY))
    (tmp_path / "3.png").write_bytes(png(drawn(rng, 4, 6), GREY))
    message = r"1\.png has 5 x 4 pixels in 1 colour, .*3\.png has 6 x 4 pixels in 1 colour"
    with pytest.raises(UnusableData, match=message):
        read_images(tmp_path)
    (tmp_path / "3.png").write_bytes(png(drawn(rng, 4, 5, 3), RGB))
    with pytest.raises(UnusableData, match=r"3\.png has 5 x 4 pixels in 3 colours"):
        read_images(tmp_path)


@pytest.mark.usefixtures("pillow")
def test_png_files_that_cannot_be_used_are_named(tmp_path, rng):
    whole = png(drawn(rng, 40, 50), GREY)
    clear = [(b"tRNS", b"\0\7")]
    for content, error, message in (
        (b"GIF89a", BrokenFile, r"1\.png cannot be read as PNG"),
        (whole[:300], BrokenFile, r"1\.png cannot be read as PNG"),
        (png(drawn(rng, 4, 5, 4), RGBA), UnusableData, "kind RGBA, partly transparent"),
        (png(drawn(rng, 4, 5), GREY, extra=clear), UnusableData, "kind L, partly transparent"),
    ):
        (tmp_path / "1.png").write_bytes(content)
        with pytest.raises(error, match=message):
            read_images(tmp_path)
    wide = np.arange(20, dtype=">u2").reshape(4, 5)
    (tmp_path / "1.png").write_bytes(png(wide, GREY, depth=16))
    with pytest.raises(UnusableData, match=r"kind I;16.* expected 8 bits"):
        read_images(tmp_path)


@pytest.mark.usefixtures("pillow")
def test_images_both_in_a_folder_and_below_it_are_refused(tmp_path, rng):
    (tmp_path / "cats").mkdir()
    for place in ("1.png", "cats/1.png"):
        (tmp_path / place).write_bytes(png(drawn(rng, 4, 5), GREY))
    with pytest.raises(UnusableData, match=r"both 1\.png and sub-folders .* cats"):
        read_images(tmp_path)


def test_shrinking_by_a_whole_number_takes_the_means_of_blocks(rng):
    images = Images(drawn(rng, 7, 3, 12, 12), np.arange(7), ("a",))
    for side in (6, 4, 2, 12):
        block = 12 // side
        sums = images.pixels.reshape(7, 3, side, block, side, block).astype(int).sum(axis=(3, 5))
        small = shrunk(images, side)
        assert (small.pixels == (2 * sums + block**2) // (2 * block**2)).all()  # halves go up
        assert small.pixels.dtype == np.uint8
        assert small.labels is images.labels
        assert small.names == ("a",)


def test_shrinking_by_other_numbers_weighs_pixels_by_what_is_covered():
    a, b, c, d = 90, 30, 60, 0
    image = np.array([[a, b, 0], [c, d, 0], [0, 0, 9]], np.uint8)
    small = shrunk(Images(image[None, None]), 2).pixels[0, 0]
    assert small[0, 0] == (4 * a + 2 * b + 2 * c + d) / 9
    assert small[1, 1] == 4 * 9 / 9
    assert (shrunk(Images(np.full((1200, 1, 28, 28), 77, np.uint8)), 10).pixels == 77).all()


def test_images_only_shrink_and_only_squares(rng):
    images = Images(drawn(rng, 2, 1, 8, 8))
    for side in (0, 9):
        with pytest.raises(ImpossibleSetting, match=f"8 x 8 cannot shrink to a side of {side}"):
            shrunk(images, side)
    with pytest.raises(WrongLength, match="square images, got 8 x 6"):
        shrunk(Images(drawn(rng, 2, 1, 8, 6)), 4)


@pytest.mark.parametrize("levels", [2, 8, 10, 256])
def test_colours_are_equal_shares_of_the_greys_in_their_order(levels):
    images = Images(np.arange(256, dtype=np.uint8).reshape(1, 1, 8, 32))
    ids = colours(images, levels)
    assert ids.shape == (1, 256)
    assert (np.diff(ids[0].astype(int)) >= 0).all()
    assert (ids[0, 0], ids[0, -1]) == (0, levels - 1)
    assert set(np.bincount(ids[0])) <= {256 // levels, 256 // levels + 1}


def test_colours_are_of_grey_images_and_at_most_256(rng):
    with pytest.raises(UnusableData, match="expected grey images, got 3 colours"):
        colours(Images(drawn(rng, 2, 3, 4, 4)), 8)
    for levels in (1, 257):
        with pytest.raises(ImpossibleSetting, match=f"2 to 256 levels, got {levels}"):
            colours(Images(drawn(rng, 2, 1, 4, 4)), levels)


def labelled(rng, count, shape):
    return Images(drawn(rng, count, *shape), np.arange(count) % 4)


@pytest.fixture
def grey(rng):
    return {"training": labelled(rng, 12, (1, 6, 6)), "validation": labelled(rng, 7, (1, 6, 6))}


@pytest.fixture
def coloured(rng):
    dark = labelled(rng, 12, (3, 6, 6))
    scaled = (dark.pixels * np.array([1, 0.5, 0.1])[:, None, None]).astype(np.uint8)
    return {"training": Images(scaled, dark.labels), "validation": labelled(rng, 7, (3, 6, 6))}


def test_labelled_images_have_mean_0_and_deviation_1_in_every_colour(coloured):
    batches = LabelledImages(**coloured, batch=4)
    epoch = [batches.train(step) for step in range(3)]
    pixels = np.concatenate([batch["pixels"] for batch in epoch])
    assert pixels.dtype == np.float32
    assert epoch[0]["labels"].dtype == np.int64
    np.testing.assert_allclose(pixels.mean(axis=(0, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(pixels.std(axis=(0, 2, 3)), 1, rtol=1e-6)


def test_every_image_comes_once_an_epoch_with_its_label(coloured):
    batches = LabelledImages(**coloured, batch=4)
    came = {}
    for step in range(3):
        batch = batches.train(step)
        for pixels, label in zip(batch["pixels"], batch["labels"], strict=True):
            came[np.rint(batches.scale.undo(pixels)).astype(np.uint8).tobytes()] = label
    training = coloured["training"]
    expected = {
        image.tobytes(): label
        for image, label in zip(training.pixels, training.labels, strict=True)
    }
    assert came == expected


@pytest.mark.parametrize("moving", [{}, {"shift": 2, "mirror": True}])
def test_validation_images_come_in_order_scaled_as_those_trained_on(coloured, moving):
    batches = LabelledImages(**coloured, batch=4, **moving)
    valid = list(batches.valid())
    assert [len(batch["labels"]) for batch in valid] == [4, 3]
    training, validation = coloured["training"].pixels, coloured["validation"]
    mean = training.mean(axis=(0, 2, 3), keepdims=True)
    std = training.std(axis=(0, 2, 3), keepdims=True)
    pixels = np.concatenate([batch["pixels"] for batch in valid])
    np.testing.assert_allclose(pixels, (validation.pixels - mean[0]) / std[0], rtol=1e-5, atol=1e-6)
    labels = np.concatenate([batch["labels"] for batch in valid])
    assert (labels == validation.labels).all()


def test_the_scaling_is_that_of_all_images_to_train_on():
    pixels = np.repeat(np.array([0, 200], np.uint8), 1500).reshape(-1, 1, 1, 1)
    images = Images(pixels, np.zeros(3000, np.int64))
    scaling = LabelledImages(training=images, validation=images, batch=4).scale
    assert (scaling.mean.ravel(), scaling.std.ravel()) == ([100], [100])


def test_a_colour_that_never_changes_becomes_zero():
    images = Images(np.full((4, 1, 2, 2), 7, np.uint8), np.zeros(4, np.int64))
    batches = LabelledImages(training=images, validation=images, batch=4)
    assert (batches.train(0)["pixels"] == 0).all()


def variants(image):
    """All shifts by up to two pixels on a black ground, and their mirror images."""
    height, width = image.shape[1:]
    ground = np.pad(image, ((0, 0), (2, 2), (2, 2)))
    for down in range(5):
        for right in range(5):
            shifted = ground[:, down : down + height, right : right + width]
            yield from ((down, right, 0, shifted), (down, right, 1, shifted[:, :, ::-1]))


def test_images_are_shifted_and_flipped_in_every_way(coloured):
    plain = LabelledImages(**coloured, batch=12, seed=5)
    moving = LabelledImages(**coloured, batch=12, seed=5, shift=2, mirror=True)
    counts = np.zeros((5, 5, 2))
    for step in range(100):
        before, after = plain.train(step), moving.train(step)
        assert (before["labels"] == after["labels"]).all()
        assert after["pixels"].dtype == np.float32
        bytes_before, bytes_after = (
            np.rint(plain.scale.undo(batch["pixels"])).astype(np.uint8) for batch in (before, after)
        )
        for one, other in zip(bytes_before, bytes_after, strict=True):
            (found,) = (v[:3] for v in variants(one) if (v[3] == other).all())
            counts[found] += 1
    assert counts.sum() == 1200
    assert (counts > 0).all()
    for axes in ((1, 2), (0, 2), (0, 1)):  # each shift, and flips, to five standard errors
        marginal = counts.sum(axis=axes) / 1200
        share = 1 / len(marginal)
        assert (abs(marginal - share) < 5 * np.sqrt(share * (1 - share) / 1200)).all()


def test_masked_patches_are_exactly_the_share_said(grey):
    batches = MaskedPatches(**grey, batch=4, patch=2, ratio=0.4)
    batch = batches.train(0)
    assert set(batch) == {"pixels", "masked"}
    assert batch["masked"].shape == (4, 9)
    assert batch["masked"].dtype == bool
    assert (batch["masked"].sum(axis=1) == 4).all()  # round(3.6)
    assert (batch["pixels"] == LabelledImages(**grey, batch=4).train(0)["pixels"]).all()
    masks = [b["masked"] for b in (*batches.valid(), *map(batches.train, range(2)))]
    assert len({mask.tobytes() for mask in masks}) == 4


def test_some_patches_must_be_masked(grey):
    with pytest.raises(ImpossibleSetting, match="masks 0 of 9"):
        MaskedPatches(**grey, batch=4, patch=2, ratio=0.01)


def test_pixel_sequences_start_with_their_token_and_go_row_by_row(grey):
    batches = PixelSequences(**grey, batch=4, levels=8)
    ids, targets = (
        np.concatenate([batch[key] for batch in batches.valid()]) for key in ("ids", "targets")
    )
    assert ids.dtype == targets.dtype == np.int64
    for image, before, sequence in zip(grey["validation"].pixels[:, 0], ids, targets, strict=True):
        assert sequence.tolist() == [pixel // 32 for row in image.tolist() for pixel in row]
        assert before.tolist() == [8, *sequence[:-1].tolist()]
    assert {key: value.shape for key, value in batches.train(0).items()} == {
        "ids": (4, 36),
        "targets": (4, 36),
    }


def test_masked_pixels_hide_the_share_said_and_ask_for_it(grey):
    batches = MaskedPixels(**grey, batch=4, levels=8, ratio=0.25)
    plain = PixelSequences(**grey, batch=4, levels=8)
    for batch, whole in zip(
        (*batches.valid(), batches.train(3)), (*plain.valid(), plain.train(3)), strict=True
    ):
        colour, masked = whole["targets"], batch["targets"] != IGNORED
        assert set(batch) == {"ids", "targets"}
        assert batch["ids"].dtype == batch["targets"].dtype == np.int64
        assert (masked.sum(axis=1) == 9).all()
        assert (batch["ids"] == np.where(masked, 8, colour)).all()
        assert (batch["targets"][masked] == colour[masked]).all()
    with pytest.raises(ImpossibleSetting, match="masks 0 of 36"):
        MaskedPixels(**grey, batch=4, levels=8, ratio=0.01)


KINDS = [
    (LabelledImages, {"shift": 2, "mirror": True}),
    (MaskedPatches, {"patch": 2}),
    (PixelSequences, {"levels": 8}),
    (MaskedPixels, {"levels": 8}),
]


@pytest.mark.parametrize(("kind", "settings"), KINDS)
def test_a_batch_is_a_function_of_seed_and_step(grey, kind, settings):
    def batches(seed):
        return kind(**grey, batch=4, seed=seed, **settings)

    def same(one, other):
        return all((one[key] == other[key]).all() for key in one)

    assert same(batches(1).train(5), batches(1).train(5))
    assert not same(batches(1).train(5), batches(1).train(4))
    assert not same(batches(1).train(5), batches(2).train(5))
    ours = batches(1)
    assert all(same(a, b) for a, b in zip(ours.valid(), ours.valid(), strict=True))


def test_parts_that_do_not_belong_together_are_refused(grey, coloured):
    with pytest.raises(UnusableData, match=r"6 x 6 pixels in 1 colour, .* 6 x 6 pixels in 3"):
        LabelledImages(training=grey["training"], validation=coloured["validation"], batch=4)
    bare = Images(grey["training"].pixels)
    with pytest.raises(UnusableData, match="the training part has no labels"):
        require_labels(bare, grey["validation"])
    named = Images(grey["training"].pixels, grey["training"].labels, ("a", "b"))
    with pytest.raises(UnusableData, match="are a, b, those to validate on without names"):
        require_labels(named, grey["validation"])
    with pytest.raises(UnusableData, match="expected grey images"):
        PixelSequences(**coloured, batch=4, levels=8)


def test_mnist_is_as_published():
    images = read_images(published("images"))
    assert images.pixels.shape == (10_000, 1, 28, 28)
    assert images.labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(images.labels).tolist() == counts
    assert abs(images.pixels.mean() / 255 - 0.1325) < 5e-5
    small = shrunk(images, 14)
    batches = LabelledImages(training=small, validation=small, batch=128)
    assert batches.train(0)["pixels"].shape == (128, 1, 14, 14)
    assert sum(len(batch["labels"]) for batch in batches.valid()) == 10_000


def test_a_png_that_claims_more_pixels_than_its_bytes_can_hold_is_refused(tmp_path):
    from PIL import Image

    Image.new("L", (4, 4)).save(tmp_path / "x.png")
    data = bytearray((tmp_path / "x.png").read_bytes())
    data[16:24] = struct.pack(">II", 9000, 9000)  # would take 81 MB
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    (tmp_path / "x.png").write_bytes(data)
    with pytest.raises(BrokenFile, match="9000 x 9000 pixels cannot be in so few bytes"):
        read_images(tmp_path)
