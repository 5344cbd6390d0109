"""Steps reach the event loop in order, in slices, and never pile up."""

import asyncio
import threading
import time

import pytest
from cluster_fake import until

from kube_sched_ext_cluster.backoff import Backoff
from kube_sched_ext_cluster.handover import Handover

pytestmark = pytest.mark.anyio


def fail(error: Exception) -> None:
    """No step is expected to raise."""
    raise error


async def test_the_loop_does_other_things_between_two_slices() -> None:
    """A long list of changes does not keep a request waiting."""
    handover = Handover(asyncio.get_running_loop(), fail, slice_seconds=0.001)
    done: list[int] = []

    def step(number: int) -> None:
        done.append(number)
        time.sleep(0.0005)

    await asyncio.to_thread(
        handover.send, [lambda number=number: step(number) for number in range(100)]
    )
    seen = []
    while len(done) < 100:
        seen.append(len(done))
        await asyncio.sleep(0)
    assert len(seen) > 20
    assert done == list(range(100))


async def test_a_thread_waits_while_too_many_steps_do() -> None:
    """A list is read no faster than the view takes it."""
    handover = Handover(asyncio.get_running_loop(), fail, waiting=10, slice_seconds=0.0)
    waiting: list[int] = []
    done: list[int] = []

    def send() -> None:
        for start in range(0, 1000, 10):
            handover.send([lambda number=start + it: done.append(number) for it in range(10)])
            waiting.append(len(handover._steps))

    thread = asyncio.create_task(asyncio.to_thread(send))
    await thread
    await until(lambda: len(done) == 1000)
    assert max(waiting) < 20
    assert done == list(range(1000))


async def test_closing_lets_a_waiting_thread_go() -> None:
    """And what waits is dropped, with what comes later."""
    handover = Handover(asyncio.get_running_loop(), fail, waiting=1)
    done: list[int] = []
    sent = threading.Event()

    def send() -> None:
        handover.send([lambda: done.append(1)] * 5)
        sent.set()
        handover.send([lambda: done.append(2)])
        handover.send([lambda: done.append(3)])

    thread = threading.Thread(target=send)
    thread.start()
    # The loop stands still meanwhile, so the second send must wait.
    sent.wait(5)
    handover.close()
    thread.join(5)
    assert not thread.is_alive()
    await asyncio.sleep(0)
    assert done == []


def test_a_loop_that_is_gone_closes_the_handover() -> None:
    """A thread that outlives its loop is not held."""
    loop = asyncio.new_event_loop()
    handover = Handover(loop, fail, waiting=1)
    loop.close()
    handover.send([lambda: None] * 5)
    handover.send([lambda: None])
    assert handover._is_closed


def test_waits_grow_to_a_limit_and_differ() -> None:
    """Between half of what is allowed and all of it."""
    low, high = Backoff(1.0, 4.0, lambda: 0.0), Backoff(1.0, 4.0, lambda: 1.0)
    assert [low.next() for _ in range(4)] == [0.5, 1.0, 2.0, 2.0]
    assert [high.next() for _ in range(4)] == [1.0, 2.0, 4.0, 4.0]
    high.reset()
    assert high.next() == 1.0
    high.failures = 100_000
    assert high.next() == 4.0
