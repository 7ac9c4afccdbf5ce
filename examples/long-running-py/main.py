import asyncio
from typing import TypedDict

import kernel

app = kernel.App("long-running")


class Work(TypedDict, total=False):
    steps: int
    seconds: float


@app.action("count")
async def count(ctx: kernel.KernelContext, payload: Work | None = None):
    """Works for a while and says how far it is. Follow it with `kernel logs long-running --follow`."""
    steps = (payload or {}).get("steps", 60)
    seconds = (payload or {}).get("seconds", 1.0)
    print(f"{ctx.invocation_id}: {steps} steps of {seconds} s")
    for step in range(1, steps + 1):
        await asyncio.sleep(seconds)
        print(f"step {step} of {steps}")
    return {"steps": steps}
