import asyncio
import sys

import kernel

app = kernel.App("py")


@app.action("sync")
def sync(ctx, payload):
    print("out")
    print("err", file=sys.stderr)
    print("out again")
    return {"payload": payload, "invocation": ctx.invocation_id, "é": "ü"}


@app.action("async")
async def later(ctx, payload="default"):
    await asyncio.sleep(0.01)
    return [payload]


@app.action("ctx-only")
def ctx_only(ctx):
    pass


@app.action("boom")
async def boom(ctx):
    raise ValueError("py boom")


@app.action("exit")
def leave(ctx):
    sys.exit(4)


@app.action("set")
def a_set(ctx):
    return {1, 2}


@app.action("nan")
def nan(ctx):
    return float("nan")


print("imported")
