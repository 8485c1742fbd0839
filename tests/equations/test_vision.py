"""The vision transformer (7.1), against Transformers and by hand."""

import numpy as np
import peers
import pytest
import torch
from agreement import agree

from vesalius.equations import patches, vit_class_logits, vit_patches, vit_states
from vesalius.errors import VesaliusError, WrongLength
from vesalius.families import configuration, random_parameters

CONFIG = configuration(
    "vit",
    image=6,
    patch=3,
    channels=2,
    layers=2,
    embedding=12,
    heads=3,
    feedforward=20,
    classes=5,
    masked_patch_head=True,
)


def test_patches_are_cut_row_by_row_and_flattened():
    image = np.arange(16.0).reshape(4, 4, 1)
    assert patches(image, 2).T.tolist() == [
        [0, 1, 4, 5],
        [2, 3, 6, 7],
        [8, 9, 12, 13],
        [10, 11, 14, 15],
    ]


def test_colours_of_a_pixel_stay_together():
    image = np.stack([np.zeros((2, 2)), np.ones((2, 2))], axis=-1)
    assert patches(image, 2).T.tolist() == [[0, 1, 0, 1, 0, 1, 0, 1]]


@pytest.mark.parametrize("classes_only", [True, False])
def test_the_vision_transformer_is_transformers(rng, classes_only):
    config = CONFIG.change(masked_patch_head=False)
    theta = random_parameters(config, 0)
    image = rng.normal(size=(6, 6, 2))
    pixels = torch.tensor(image.transpose(2, 0, 1))[None]
    with torch.no_grad():
        expected = peers.vit(theta, config)(pixels, output_hidden_states=True)
    Omega = patches(image, 3)
    if classes_only:
        agree(vit_class_logits(theta, Omega), expected.logits[0].numpy())
    else:
        H = vit_states(theta, Omega)
        Xi_e = theta.Xi_e
        last = torch.nn.functional.layer_norm(
            expected.hidden_states[-1],
            (12,),
            torch.tensor(Xi_e.alpha),
            torch.tensor(Xi_e.beta),
            config.epsilon,
        )
        agree(H, last[0].numpy().T)


def test_a_masked_patch_is_not_seen_and_is_restored_in_its_own_shape(rng):
    theta = random_parameters(CONFIG, 0)
    Omega = rng.normal(size=(18, 4))
    masked = np.array([False, True, False, False])
    other = Omega.copy()
    other[:, 1] = 99.0
    restored = vit_patches(theta, Omega, masked)
    assert restored.shape == (18, 4)
    np.testing.assert_array_equal(restored, vit_patches(theta, other, masked))
    assert not np.allclose(vit_states(theta, Omega), vit_states(theta, other))


def test_single_precision_stays_single(rng):
    Omega = rng.normal(size=(18, 4)).astype(np.float32)
    assert vit_states(random_parameters(CONFIG, 0, np.float32), Omega).dtype == np.float32


def test_what_does_not_fit_is_refused(rng):
    with pytest.raises(WrongLength, match="6 x 6 cannot be cut into 4 x 4"):
        patches(np.zeros((6, 6, 1)), 4)
    for patches_of_another_image in (3, 5):
        with pytest.raises(WrongLength, match="the model reads 4 patches, the image has"):
            vit_states(
                random_parameters(CONFIG, 0), rng.normal(size=(18, patches_of_another_image))
            )
    bare = random_parameters(CONFIG.change(classes=0, masked_patch_head=False), 0)
    with pytest.raises(VesaliusError, match="no class head"):
        vit_class_logits(bare, rng.normal(size=(18, 4)))
    with pytest.raises(VesaliusError, match="no masked-patch head"):
        vit_patches(bare, rng.normal(size=(18, 4)), np.zeros(4, dtype=bool))
