"""What every store does with prompts: versions, the active one, pins; lists and ways back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from pywrapai_monitor.db.base import BaseStore
from tests.contracts.store_rows import Clock, assert_plain


class PromptContract:
    """Part of StoreContract."""

    def test_the_promoted_version_is_the_active_one(self, store: BaseStore) -> None:
        store.save_prompt("support", "v1", "one", is_active=True)
        store.save_prompt("support", "v2", "two")
        assert store.get_prompt("support") == "one"

        store.save_prompt("support", "v2", is_active=True)

        assert store.get_prompt("support") == "two"
        assert store.get_prompt("support", "v1") == "one"
        assert store.get_prompt("support", "active") == "two"

    def test_saving_a_version_again_replaces_its_text_alone(self, store: BaseStore) -> None:
        store.save_prompt("support", "v1", "one", is_active=True)
        store.save_prompt("other", "v1", "other's", is_active=True)

        store.save_prompt("support", "v1", "one, better")

        assert store.get_prompt("support") == "one, better"
        assert store.get_prompt("other") == "other's"

    def test_prompts_that_are_not_there_are_key_errors(self, store: BaseStore) -> None:
        store.save_prompt("support", "v1", "one")

        for missing in (
            lambda: store.get_prompt("nobody"),
            lambda: store.get_prompt("support"),  # none is active
            lambda: store.get_prompt("support", "v2"),
            lambda: store.get_prompt("SUPPORT", "v1"),
            lambda: store.save_prompt("support", "v2", is_active=True),
            lambda: store.set_user_prompt("alice", "support", "v2"),
        ):
            with pytest.raises(KeyError, match=r"support|nobody|SUPPORT"):
                missing()
        assert store.get_user_prompt_version("alice", "support") is None

    def test_a_user_is_pinned_to_one_version_of_each_prompt(self, store: BaseStore) -> None:
        for version in ("v1", "v2"):
            store.save_prompt("support", version, version)
            store.save_prompt("sales", version, version)

        store.set_user_prompt("alice", "support", "v1")
        store.set_user_prompt("alice", "support", "v2")
        store.set_user_prompt("alice", "sales", "v1")

        assert store.get_user_prompt_version("alice", "support") == "v2"
        assert store.get_user_prompt_version("alice", "sales") == "v1"
        assert store.get_user_prompt_version("Alice", "support") is None

    def test_no_version_may_be_called_active(self, store: BaseStore) -> None:
        with pytest.raises(ValueError, match="active"):
            store.save_prompt("support", "active", "text")

    @pytest.mark.parametrize(("name", "version"), [("", "v1"), (" ", "v1"), ("support", "")])
    def test_a_prompt_has_a_name_and_a_version(
        self, store: BaseStore, name: str, version: str
    ) -> None:
        with pytest.raises(ValueError, match="must not be empty"):
            store.save_prompt(name, version, "text")

    def test_nobody_is_pinned_to_whatever_is_active(self, store: BaseStore) -> None:
        store.save_prompt("support", "v1", "one", is_active=True)

        with pytest.raises(ValueError, match="unpin"):
            store.set_user_prompt("alice", "support", "active")

        assert store.get_user_prompt_version("alice", "support") is None

    def test_promoting_from_many_threads_leaves_one_active(self, store: BaseStore) -> None:
        for i in range(4):
            store.save_prompt("support", f"v{i}", f"text {i}")

        with ThreadPoolExecutor(4) as pool:
            promote = [
                pool.submit(store.save_prompt, "support", f"v{i % 4}", None, True)
                for i in range(20)
            ]
        for done in promote:
            done.result()

        assert store.get_prompt("support") in {f"text {i}" for i in range(4)}


class PromptListContract:
    """Part of SQLStoreContract."""

    def test_prompts_are_listed_by_name_with_their_active_version(
        self, store: BaseStore, clock: Clock
    ) -> None:
        assert store.list_prompts() == []
        store.save_prompt("support", "v1", "one", is_active=True)
        first = clock.iso()
        for name in ("sales", "Zebra", "é"):
            store.save_prompt(name, "v1", "text")
        clock.now += timedelta(minutes=1)
        store.save_prompt("support", "v2", "two", is_active=True)

        found = store.list_prompts()

        assert found == [
            {"name": "Zebra", "active": None, "versions": 1, "updated_at": first},
            {"name": "sales", "active": None, "versions": 1, "updated_at": first},
            {"name": "support", "active": "v2", "versions": 2, "updated_at": clock.iso()},
            {"name": "é", "active": None, "versions": 1, "updated_at": first},
        ]
        assert_plain(found)

    def test_versions_are_listed_oldest_first_without_their_texts(
        self, store: BaseStore, clock: Clock
    ) -> None:
        saved = clock.iso()
        store.save_prompt("support", "v2", "zwölf 👍👍", is_active=True)
        store.save_prompt("support", "v1", "", is_active=False)
        store.save_prompt("other", "v2", "text")
        for user in ("alice", "bob"):
            store.set_user_prompt(user, "support", "v2")
        store.set_user_prompt("alice", "other", "v2")
        clock.now += timedelta(minutes=1)
        store.save_prompt("support", "v1", "one", is_active=True)

        found = store.list_prompt_versions("support")

        assert found == [
            {
                "version": "v2", "is_active": False, "created_at": saved, "updated_at": saved,
                "activated_at": saved, "characters": 8, "pinned_users": 2,
            },
            {
                "version": "v1", "is_active": True, "created_at": saved,
                "updated_at": clock.iso(), "activated_at": clock.iso(), "characters": 3,
                "pinned_users": 0,
            },
        ]  # fmt: skip
        assert_plain(found)
        assert store.list_prompt_versions("other")[0]["activated_at"] is None
        with pytest.raises(KeyError, match="SUPPORT"):
            store.list_prompt_versions("SUPPORT")

    def test_a_roll_back_goes_from_version_to_version_before(self, store: BaseStore) -> None:
        for version in ("v1", "v2", "never", "v3"):
            store.save_prompt("support", version, version, is_active=version != "never")
        store.save_prompt("other", "v9", "other's", is_active=True)

        assert store.rollback_prompt("support") == "v2"
        assert (store.get_prompt("support"), store.active_prompt_version("support")) == ("v2", "v2")
        assert store.rollback_prompt("support") == "v1"
        with pytest.raises(KeyError, match="support"):
            store.rollback_prompt("support")
        assert store.get_prompt("support") == "v1"
        assert store.get_prompt("other") == "other's"

    def test_what_was_rolled_back_is_passed_over_from_then_on(self, store: BaseStore) -> None:
        for version in ("v1", "v2", "bad"):
            store.save_prompt("support", version, version, is_active=True)
        store.rollback_prompt("support")
        store.save_prompt("support", "v3", "v3", is_active=True)

        assert store.rollback_prompt("support") == "v2"
        store.save_prompt("support", "bad", is_active=True)
        assert store.rollback_prompt("support") == "v2"
        assert store.rollback_prompt("support") == "v1"

    def test_the_order_of_promotions_is_known_though_the_clock_runs_backwards(
        self, store: BaseStore, clock: Clock
    ) -> None:
        for version in ("v1", "v2", "v3"):
            store.save_prompt("support", version, version, is_active=True)
            store.save_prompt("support", version, is_active=True)  # changes nothing
            clock.now -= timedelta(days=1)
        store.save_prompt("support", "v1", is_active=True)

        assert [store.rollback_prompt("support") for _ in range(2)] == ["v3", "v2"]

    def test_without_an_active_version_there_is_nothing_to_roll_back(
        self, store: BaseStore
    ) -> None:
        store.save_prompt("support", "v1", "one")

        for name in ("support", "nobody"):
            with pytest.raises(KeyError, match=name):
                store.rollback_prompt(name)
        assert store.list_prompts()[0]["active"] is None

    def test_an_unpinned_user_has_no_version_of_his_own(self, store: BaseStore) -> None:
        for name in ("support", "sales"):
            store.save_prompt(name, "v1", "one")
            store.set_user_prompt("alice", name, "v1")
        store.set_user_prompt("bob", "support", "v1")

        store.unpin_user_prompt("alice", "support")
        store.unpin_user_prompt("alice", "support")
        store.unpin_user_prompt("nobody", "nothing")

        assert store.get_user_prompt_version("alice", "support") is None
        assert store.get_user_prompt_version("alice", "sales") == "v1"
        assert store.get_user_prompt_version("bob", "support") == "v1"

    def test_many_that_roll_back_at_once_go_back_one_each(self, store: BaseStore) -> None:
        for i in range(9):
            store.save_prompt("support", f"v{i}", "text", is_active=True)

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: store.rollback_prompt("support"), range(8)))

        assert sorted(found) == [f"v{i}" for i in range(8)]
        assert [row["is_active"] for row in store.list_prompt_versions("support")] == [
            True, *[False] * 8,
        ]  # fmt: skip
