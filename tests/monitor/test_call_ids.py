"""The ids of calls: unique, of version 7, and rising."""

from __future__ import annotations

import time
from uuid import UUID

from pywrapai_monitor.call_ids import new_call_id


def test_ids_are_unique_uuids_of_version_7() -> None:
    ids = [new_call_id() for _ in range(10_000)]

    assert len(set(ids)) == len(ids)
    assert {(len(each), UUID(each).version, UUID(each).variant) for each in ids} == {
        (32, 7, UUID(int=1 << 63).variant)
    }


def test_an_id_is_greater_than_those_of_earlier_milliseconds() -> None:
    ids = []
    for _ in range(20):
        ids.append(new_call_id())
        time.sleep(0.002)

    assert ids == sorted(ids)
    assert abs((int(ids[0], 16) >> 80) / 1000 - time.time()) < 60
