"""Profiles: ranges of lengths side by side, and what is padded to them."""

from __future__ import annotations

import numpy as np
import pytest

from cosyd.engine.profiles import Profile, bucket_of, bucketed, choose_profile, pad_to_bucket
from cosyd.engine.tensors import Misuse
from cosyd.errors import ModelError


def test_buckets_are_profiles_side_by_side() -> None:
    profiles = bucketed("T", (200, 512), {"N": (1, 2, 4)})
    assert [str(profile) for profile in profiles] == ["N=1..2..4 T=1..200..200", "N=1..2..4 T=201..512..512"]
    assert [choose_profile("x", profiles, {"T": length}) for length in (1, 200, 201, 512)] == [0, 0, 1, 1]
    with pytest.raises(Misuse, match="not for N=5 T=100"):
        choose_profile("x", profiles, {"N": 5, "T": 100})


def test_lengths_are_padded_to_their_bucket() -> None:
    assert [bucket_of(length) for length in (1, 200, 201, 1_500)] == [200, 200, 256, 1_500]
    x = np.ones((2, 300, 4), np.float32)
    padded = pad_to_bucket(x, 1)
    assert padded.shape == (2, 512, 4)
    assert padded[:, :300].all() and not padded[:, 300:].any()
    with pytest.raises(Misuse, match="over the largest bucket, 1500"):
        bucket_of(1_501)


def test_ranges_that_do_not_rise_are_refused() -> None:
    with pytest.raises(ModelError, match="profile of N: 4, 2, 8 must rise"):
        Profile.of({"N": (4, 2, 8)})
