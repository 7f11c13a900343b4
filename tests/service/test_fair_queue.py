"""The queue of jobs: order within a tenant, and shares of tenants."""

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from apass.service.fair_queue import KEPT, FairQueue


def anyone(tenant: str) -> bool:
    return True


def drained(queue: FairQueue[str]) -> list[str]:
    """Return all items in order, each of which takes a second."""
    items: list[str] = []
    while (item := queue.pop(anyone, 1.0)) is not None:
        items.append(item)
    return items


@given(st.dictionaries(st.sampled_from("abcde"), st.floats(0.1, 10), min_size=1), st.integers(1, 200))
def test_tenant_gets_share_minus_one_item(weights: dict[str, float], count: int) -> None:
    queue = FairQueue[str](weights)
    for tenant in weights:
        for _ in range(count):
            queue.add(tenant, tenant=tenant, priority=0)
    total, served = sum(weights.values()), Counter[str]()
    for number in range(1, count + 1):
        item = queue.pop(anyone, 1.0)
        assert item is not None
        served[item] += 1
        assert all(served[tenant] >= weight / total * number - 1 - 1e-6 for tenant, weight in weights.items())


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=1, max_size=60))
def test_corrected_estimates_keep_shares(jobs: list[tuple[float, float]]) -> None:
    queue, used = FairQueue[str]({}), {"a": 0.0, "b": 0.0}
    for tenant in "ab":
        for _ in jobs:
            queue.add(tenant, tenant=tenant, priority=0)
    for guess, seconds in jobs:
        served = queue.pop(anyone, guess)
        assert served is not None
        queue.charge(served, seconds - guess)
        used[served] += seconds
        # One job of either, each of which takes 5 s at most.
        assert abs(used["a"] - used["b"]) <= 10 + 1e-6


@given(st.lists(st.tuples(st.sampled_from(("add", "remove", "pop")), st.integers(-3, 3)), max_size=60))
def test_items_of_tenant_come_by_priority_then_age(actions: list[tuple[str, int]]) -> None:
    queue = FairQueue[int]({})
    model: dict[int, int] = {}
    for index, (action, value) in enumerate(actions):
        if action == "add":
            number = queue.add(index, tenant="t", priority=value)
            model[number] = value
        elif action == "remove":
            number = value + 3
            assert queue.remove(number, tenant="t") == (model.pop(number, None) is not None)
        else:
            queue.pop(anyone, 1.0)
            if model:
                del model[min(model, key=lambda number: (-model[number], number))]
        assert len(queue) == queue.waiting("t") == len(model)
    items = [queue.pop(anyone, 1.0) for _ in range(len(model))]
    assert queue.pop(anyone, 1.0) is None
    numbers = sorted(model, key=lambda number: (-model[number], number))
    added = [index for index, (action, _) in enumerate(actions) if action == "add"]
    assert items == [added[number] for number in numbers]


def test_idle_tenant_saves_up_no_share() -> None:
    queue = FairQueue[str]({})
    for _ in range(10):
        queue.add("a", tenant="a", priority=0)
    assert [queue.pop(anyone, 1.0) for _ in range(5)] == ["a"] * 5
    for _ in range(5):
        queue.add("b", tenant="b", priority=0)
    order = "".join(drained(queue))
    assert Counter(order) == {"a": 5, "b": 5}
    assert "bbb" not in order


def test_stream_of_new_tenants_starves_no_tenant() -> None:
    queue = FairQueue[str]({})
    for _ in range(2):
        queue.add("a", tenant="a", priority=0)
    order = ""
    for index in range(4):
        queue.add("n", tenant=f"new {index}", priority=0)
        order += queue.pop(anyone, 1.0) or ""
    assert order.count("a") == 2


def test_tenants_that_may_not_run_are_skipped() -> None:
    queue = FairQueue[str]({})
    for name in ("a1", "b1", "a2"):
        queue.add(name, tenant=name[0], priority=0)
    assert queue.pop(lambda tenant: tenant == "b", 1.0) == "b1"
    assert queue.pop(lambda tenant: tenant == "b", 1.0) is None
    assert drained(queue) == ["a1", "a2"]


def test_used_time_of_many_tenants_is_forgotten() -> None:
    queue = FairQueue[int]({})
    recent: deque[int] = deque()
    for index in range(5 * KEPT):
        queue.add(index, tenant=f"tenant {index}", priority=0)
        recent.append(index)
        if len(recent) > 3:
            assert queue.pop(anyone, 1.0) == recent.popleft()
    assert len(vars(queue)["_idle"]) <= KEPT + 10
