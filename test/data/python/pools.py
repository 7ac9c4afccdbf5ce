"""Calls everything that browser pools have, with one release of the published Python SDK.

The SDK checks every answer with a body against its own models (strict). Exits with 0 if everything succeeded.
"""

import time

import kernel

FILL_SECONDS = 50
RELEASE = tuple(int(part) for part in kernel.__version__.split("."))

client = kernel.Kernel(max_retries=0, _strict_response_validation=True)
pools = client.browser_pools


def counts(name, available, acquired):
    """Waits until so many browsers of the pool wait and are lent."""
    end = time.monotonic() + FILL_SECONDS
    while time.monotonic() < end:
        pool = pools.retrieve(name)
        if (pool.available_count, pool.acquired_count) == (available, acquired):
            return pool
        time.sleep(0.05)
    raise AssertionError(f"not {available} and {acquired}: {pool}")


made = pools.create(size=1, name="py", headless=True, fill_rate_per_minute=100, timeout_seconds=120)
try:
    assert made.browser_pool_config.size == 1 and made.browser_pool_config.headless is True, made
    found = counts("py", 1, 0)
    assert found.id == made.id and pools.retrieve(made.id).name == "py", found
    assert [pool.id for pool in pools.list(query="py")] == [made.id]
    browser = pools.acquire("py", name="py of pool", tags={"a": "b"}, start_url="about:blank")
    assert browser.name == "py of pool" and browser.tags == {"a": "b"} and browser.pool.id == made.id, browser
    # For a 204, releases up to 0.93 return an empty text, and newer ones None. Neither is a browser.
    nothing = kernel.Kernel(max_retries=0).browser_pools.acquire("py", acquire_timeout_seconds=0)
    assert nothing == ("" if RELEASE <= (0, 93, 0) else None), nothing
    assert client.browsers.process.exec(browser.session_id, command="true").exit_code == 0
    pools.release("py", session_id=browser.session_id)
    again = pools.acquire("py")
    assert again.session_id == browser.session_id and not again.name, again
    try:
        pools.delete("py")
        raise AssertionError("a pool whose browsers callers have was deleted")
    except kernel.ConflictError:
        pass
    pools.release("py", session_id=again.session_id, reuse=False)
    assert pools.update("py", size=1, timeout_seconds=100).browser_pool_config.timeout_seconds == 100
    pools.flush("py")
finally:
    pools.delete(made.id, force=True)
try:
    pools.retrieve(made.id)
    raise AssertionError("a deleted pool is found")
except kernel.NotFoundError:
    pass
