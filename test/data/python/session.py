"""Calls everything that a session has, with one release of the published Python SDK, written as users would write it.

usage: session.py <sync|async> <a web page the browser can reach>
Two sessions with the tag `kept` must exist already.
The SDK checks every answer against its own models (strict). Exits with 0 if everything succeeded.
"""

import asyncio
import inspect
import io
import sys
import zipfile

import kernel

MODE, PAGE = sys.argv[1:]


async def result(value):
    """The result of a call, from a sync or async client."""
    return await value if inspect.isawaitable(value) else value


async def items(stream):
    """All items of a list or stream, from a sync or async client."""
    stream = await result(stream)
    return [item async for item in stream] if hasattr(stream, "__aiter__") else list(stream)


async def first(stream, type):
    """The first event of a type, from a sync or async client."""
    stream = await result(stream)
    if hasattr(stream, "__aiter__"):
        async for item in stream:
            if item.event.type == type:
                return item
    else:
        for item in stream:
            if item.event.type == type:
                return item


def named(call, **wanted):
    """Arguments with their names in this release: `id` became `id_or_name`."""
    if "id" in wanted and "id" not in inspect.signature(call).parameters:
        wanted["id_or_name"] = wanted.pop("id")
    return wanted


async def raises(kind, call):
    try:
        await result(call())
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")


async def inside(browsers, id):
    """Calls everything below a session. `id` is its id or its name."""
    ran = await result(browsers.process.exec(id, command="sh", args=["-c", "echo hello; exit 3"]))
    assert ran.exit_code == 3, ran

    await result(browsers.fs.write_file(id, b"line 1\nline 2\n", path="/tmp/a.txt", mode="600"))
    read = await result(browsers.fs.read_file(id, path="/tmp/a.txt"))
    assert await result(read.read()) == b"line 1\nline 2\n"
    await result(browsers.fs.upload(id, files=[{"dest_path": f"/tmp/up/{n}", "file": f"file {n}".encode()} for n in (1, 2)]))
    listed = await result(browsers.fs.list_files(id, path="/tmp/up"))
    assert sorted(file.name for file in listed) == ["1", "2"], listed
    archive = await result((await result(browsers.fs.download_dir_zip(id, path="/tmp/up"))).read())
    assert zipfile.ZipFile(io.BytesIO(archive)).namelist()

    lines = await items(browsers.logs.stream(id, source="path", path="/tmp/a.txt", follow=False))
    assert [line.message for line in lines] == ["line 1", "line 2"], lines

    picture = await result(browsers.computer.capture_screenshot(id))
    assert (await result(picture.read()))[1:4] == b"PNG"
    await result(browsers.computer.move_mouse(id, x=10, y=20))
    at = await result(browsers.computer.get_mouse_position(id))
    assert (at.x, at.y) == (10, 20), at

    played = await result(browsers.playwright.execute(id, code="return 6 * 7"))
    assert played.success and played.result == 42, played

    answer = await result(browsers.curl(id, url=PAGE))
    assert answer.status == 200 and "ok" in answer.body, answer


async def whole(client):
    browsers = client.browsers
    name = f"python {kernel.__version__} {MODE}"
    # Templates send null for options that they do not set.
    off = {"invocation_id": None, "telemetry": None, "profile": None, "extensions": [], "proxy_id": ""}
    made = await result(browsers.create(name=name, tags={"release": kernel.__version__, "mode": MODE}, headless=True, viewport={"width": 800, "height": 600}, extra_body=off))
    id = made.session_id
    assert (await result(browsers.retrieve(id))).name == name
    recording = await result(browsers.replays.start(id, framerate=5))

    await inside(browsers, id)

    raw = await result(browsers.request(id, "GET", PAGE))
    assert raw.status_code == 200 and raw.json() == {"status": "ok"}, raw

    spawned = await result(browsers.process.spawn(id, command="echo", args=["spawned"]))
    out = await items(browsers.process.stdout_stream(spawned.process_id, **named(browsers.process.stdout_stream, id=id)))
    assert any(event.event == "exit" for event in out), out

    watched = await result(browsers.update(**named(browsers.update, id=id), telemetry={"enabled": True, "browser": {"console": {"enabled": True}}}))
    assert watched.telemetry.browser.console.enabled and not watched.telemetry.browser.network.enabled, watched
    await result(browsers.playwright.execute(**named(browsers.playwright.execute, id=id), code="await page.evaluate(() => console.log('told to python'))"))
    told = await first(browsers.telemetry.stream(**named(browsers.telemetry.stream, id=id), extra_query={"replay": "all"}), "console_log")
    assert "told to python" in str(told), told
    for _ in range(100):
        kept = await items(browsers.telemetry.events(**named(browsers.telemetry.events, id=id), category=["console"], limit=5))
        if kept:
            break
        await asyncio.sleep(0.1)
    assert [one.seq for one in kept] == [told.seq], kept

    await result(browsers.replays.stop(recording.replay_id, **named(browsers.replays.stop, id=id)))
    films = await result(browsers.replays.list(id))
    assert [film.replay_id for film in films] == [recording.replay_id], films
    film = await result(browsers.replays.download(recording.replay_id, **named(browsers.replays.download, id=id)))
    assert (await result(film.read()))[4:8] == b"ftyp"

    # Call with the key after all calls with the token: the client must still have its key.
    changed = await result(browsers.update(id, tags={"release": kernel.__version__, "mode": MODE, "changed": "yes"}))
    assert changed.tags["changed"] == "yes"
    kept = await items(browsers.list(limit=1, extra_query={"tags[kept]": "yes"}))
    assert len({browser.session_id for browser in kept}) == 2, kept
    await result(browsers.delete_by_id(id))
    await raises(kernel.NotFoundError, lambda: browsers.retrieve(id))


async def main():
    if MODE == "sync":
        with kernel.Kernel(max_retries=0, _strict_response_validation=True) as client:
            await whole(client)
    else:
        async with kernel.AsyncKernel(max_retries=0, _strict_response_validation=True) as client:
            await whole(client)


asyncio.run(main())
