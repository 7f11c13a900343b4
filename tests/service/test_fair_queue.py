"""The queue of jobs: order within a tenant, and shares of tenants."""

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from apass.service.fair_queue import KEPT, FairQueue


def anyone(tenant: str) -> bool:
    return True


def serve(queue: FairQueue[str], seconds: float = 1.0) -> str | None:
    """Remove the next item, whose name is that of its tenant, and run it."""
    item = queue.pop(anyone)
    if item is not None:
        queue.end(item, seconds)
    return item


def drained(queue: FairQueue[str]) -> list[str]:
    """Return all items in order, each of which takes a second."""
    return list(iter(lambda: serve(queue), None))


def add(queue: FairQueue[str], tenant: str, count: int = 1) -> None:
    for _ in range(count):
        queue.add(tenant, tenant=tenant, priority=0)


SECONDS = st.floats(0.001, 10)


@given(st.dictionaries(st.sampled_from("abcde"), st.floats(0.1, 10), min_size=1), st.integers(1, 200))
def test_tenant_gets_share_minus_items_of_others(weights: dict[str, float], count: int) -> None:
    queue = FairQueue[str](weights)
    for tenant in weights:
        add(queue, tenant, count)
    total, served = sum(weights.values()), Counter[str]()
    for number in range(1, count + 1):
        served[serve(queue) or ""] += 1
        others = len(weights) - 1
        assert all(served[name] >= weight / total * (number - others) - 1e-6 for name, weight in weights.items())


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=60), SECONDS)
def test_wrong_estimates_keep_shares(jobs: list[tuple[float, float]], guess: float) -> None:
    queue, used = FairQueue[str]({}, guess), {"a": 0.0, "b": 0.0}
    for tenant in "ab":
        add(queue, tenant, len(jobs))
    costs = {"a": iter([first for first, _ in jobs]), "b": iter([second for _, second in jobs])}
    for _ in jobs:
        served = queue.pop(anyone)
        assert served is not None
        seconds = next(costs[served])
        queue.end(served, seconds)
        used[served] += seconds
        # One job of either.
        assert abs(used["a"] - used["b"]) <= 10 + 1e-6


@given(
    weights=st.fixed_dictionaries({"a": SECONDS, "b": SECONDS, "c": SECONDS, "new": SECONDS}),
    costs=st.lists(SECONDS, min_size=20, max_size=100),
    busy=st.integers(1, 3),
    slots=st.integers(1, 8),
    guess=SECONDS,
)
def test_newcomer_waits_for_one_item_of_each_tenant(
    weights: dict[str, float], costs: list[float], busy: int, slots: int, guess: float
) -> None:
    queue, running = FairQueue[str](weights, guess), deque[str]()
    for tenant in "abc"[:busy]:
        add(queue, tenant, 200)
    for seconds in costs:
        while len(running) < slots:
            running.append(queue.pop(anyone) or "")
        queue.end(running.popleft(), seconds)
    add(queue, "new")
    started = Counter[str]()
    while (item := queue.pop(anyone)) != "new":
        assert item is not None
        started[item] += 1
        running.append(item)
        queue.end(running.popleft(), 0.001)
    assert all(count <= 1 for count in started.values())


@given(st.floats(0.001, 10), st.lists(st.floats(0.001, 1), min_size=200, max_size=200))
def test_newcomers_wait_for_each_other_for_one_item(longest: float, costs: list[float]) -> None:
    queue = FairQueue[str]({}, guess=1.0)
    add(queue, "a")
    assert queue.pop(anyone) == "a"
    add(queue, "b", 300)
    queue.end("a", longest)
    add(queue, "c")
    used, mean = 0.0, queue.mean
    for seconds in costs:
        if serve(queue, seconds) == "c":
            return
        used += seconds
        # The mean and the item that runs then.
        assert used <= mean + 1


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
            queue.pop(anyone)
            if model:
                del model[min(model, key=lambda number: (-model[number], number))]
        assert len(queue) == queue.waiting("t") == len(model)
    items = [queue.pop(anyone) for _ in range(len(model))]
    assert queue.pop(anyone) is None
    numbers = sorted(model, key=lambda number: (-model[number], number))
    added = [index for index, (action, _) in enumerate(actions) if action == "add"]
    assert items == [added[number] for number in numbers]


def test_idle_tenant_saves_up_no_share() -> None:
    queue = FairQueue[str]({})
    add(queue, "a", 10)
    assert [serve(queue) for _ in range(5)] == ["a"] * 5
    add(queue, "b", 5)
    order = "".join(drained(queue))
    assert Counter(order) == {"a": 5, "b": 5}
    assert "bbb" not in order


def test_stream_of_new_tenants_starves_no_tenant() -> None:
    queue, order = FairQueue[str]({}), ""
    add(queue, "a", 2)
    for index in range(6):
        add(queue, str(index))
        order += serve(queue) or ""
    assert order.count("a") == 2


def test_running_items_count_before_they_end() -> None:
    queue = FairQueue[str]({})
    add(queue, "a", 10)
    assert [queue.pop(anyone) for _ in range(4)] == ["a"] * 4
    add(queue, "b", 10)
    # No tenant gets all servers.
    assert Counter(queue.pop(anyone) for _ in range(4)) == {"b": 4}
    assert Counter(queue.pop(anyone) for _ in range(4)) == {"a": 2, "b": 2}


def test_tenants_that_may_not_run_are_skipped() -> None:
    queue = FairQueue[str]({})
    for name in ("a1", "b1", "a2"):
        queue.add(name, tenant=name[0], priority=0)
    assert queue.pop(lambda tenant: tenant == "b") == "b1"
    assert queue.pop(lambda tenant: tenant == "b") is None
    assert [queue.pop(anyone), queue.pop(anyone)] == ["a1", "a2"]


def test_item_that_does_not_fit_keeps_its_place() -> None:
    queue = FairQueue[str]({})
    for name in ("a1", "a2", "a3", "b1"):
        queue.add(name, tenant=name[0], priority=0)

    def fits(item: str) -> bool:
        return item not in ("a1", "b1")

    assert [queue.pop(anyone, fits) for _ in range(3)] == ["a2", "a3", None]
    assert sorted(filter(None, [queue.pop(anyone), queue.pop(anyone)])) == ["a1", "b1"]


def test_held_tenant_leaves_newcomer_no_credit() -> None:
    queue = FairQueue[str]({})
    add(queue, "held", 10)
    assert serve(queue, 0.1) == "held"
    add(queue, "a", 100)
    for _ in range(50):
        assert queue.pop(lambda tenant: tenant == "a") == "a"
        queue.end("a", 1.0)
    add(queue, "b", 10)
    order = [queue.pop(lambda tenant: tenant != "held") for _ in range(10)]
    # It does not get the time back that the held tenant could not use.
    assert Counter(order) == {"a": 5, "b": 5}


def test_used_time_of_many_tenants_is_forgotten() -> None:
    queue = FairQueue[str]({})
    for index in range(5 * KEPT):
        add(queue, str(index))
        if index > 3:
            assert serve(queue) == str(index - 4)
    assert len(vars(queue)["_idle"]) <= KEPT + 10
