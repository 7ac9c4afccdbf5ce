# The app's own process, in Python: imports the app, then reports what it registered (build) or calls one action once (run). As in loader.mjs, reports
# go to descriptor 3, and the task of a run comes on descriptor 4.
import importlib
import importlib.util
import inspect
import json
import os
import sys
import traceback

REPORTS = 3
TASK = 4
MAX_OUTPUT_BYTES = 4_718_592

mode, app, spec_file = sys.argv[1:4]
# Child processes must not inherit them.
for descriptor in (REPORTS, TASK) if mode == "run" else (REPORTS,):
    os.set_inheritable(descriptor, False)
with open(os.path.join(app, "manifest.json")) as file:
    manifest = json.load(file)
with open(spec_file) as file:
    os.environ.update(json.load(file)["env"])
code = os.path.join(app, "code")
entry = os.path.join(code, manifest["entrypoint"])
folder = os.path.join(code, manifest["folder"]).rstrip("/")
os.chdir(folder)
sys.argv = [entry]
# Replace the loader's folder by the entrypoint's, as for any program, and add the app's folder.
sys.path[0] = os.path.dirname(entry)
if folder not in sys.path:
    sys.path.insert(1, folder)


class Said(Exception):
    """An error whose message is enough; its traceback would only show the loader."""


def report(news):
    left = (json.dumps(news) + "\n").encode()
    while left:
        left = left[os.write(REPORTS, left) :]


def end(news):
    """Reports and ends the process without waiting for other threads."""
    report(news)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    if mode == "run":
        # Then the runner need not wait for the end of the process, which takes some milliseconds more.
        null = os.open(os.devnull, os.O_WRONLY)
        for output in (1, 2):
            os.dup2(null, output)
        report({"type": "done"})
    os._exit(0 if news["type"] == "loaded" or news.get("ok") else 1)


def message_of(error):
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


def show(error):
    """Prints the stack, starting with the app's own code."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(code):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def import_app():
    path = os.path.relpath(entry, folder)
    parts = os.path.splitext(path)[0].split(os.sep)
    # Import it as part of its package, so that its relative imports work.
    if len(parts) > 1 and os.path.exists(os.path.join(os.path.dirname(entry), "__init__.py")) and all(part.isidentifier() for part in parts):
        return importlib.import_module(".".join(parts))
    name = parts[-1]
    spec = importlib.util.spec_from_file_location(name, entry)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def registry():
    """The registry of the imported SDK; None when the app has not imported it."""
    module = sys.modules.get("kernel")
    return getattr(module, "app_registry", None)


def apps():
    found = registry()
    return {one.name: one for one in found.get_apps()} if found else {}


def output_of(value):
    if value is None:
        return None
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=plain)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise Said(f"what the action returned cannot be written as JSON: {message_of(error)}") from None
    if size > MAX_OUTPUT_BYTES:
        raise Said(f"the action returned {size} bytes of JSON; {MAX_OUTPUT_BYTES} are allowed")
    return text


def plain(value):
    """Converts objects of the SDK (pydantic) and dataclasses for JSON; other types are refused."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    raise TypeError(f"it has a {type(value).__name__} in it")


def call(task):
    one = apps().get(task["app"])
    action = one and one.get_action(task["action"])
    if not action:
        raise Said(f'the app "{task["app"]}" has no action "{task["action"]}" any more; it is registered in some runs of its code only')
    context = sys.modules["kernel"].KernelContext(invocation_id=task["invocation"])
    payload = None if task["payload"] is None else json.loads(task["payload"])
    # Call the handler directly: the SDK's wrapper requires a payload even where the handler has a default, and hides whether it is async.
    value = action.handler(context, payload)
    if inspect.isawaitable(value):
        import asyncio

        async def wait():
            return await value

        value = asyncio.run(wait())
    return output_of(value)


def guarded(work, failed):
    try:
        return work()
    except SystemExit as error:
        # The exit code is reported by the parent process.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr, flush=True)
        os._exit(0 if error.code is None else error.code & 255 if isinstance(error.code, int) else 1)
    except BaseException as error:
        print(message_of(error), file=sys.stderr) if isinstance(error, Said) else show(error)
        end(failed(message_of(error)))


guarded(import_app, lambda reason: {"type": "failed", "reason": f"the app could not be loaded: {reason}"})
if mode == "build":
    found = [{"name": one.name, "actions": [{"name": action.name} for action in one.get_actions()]} for one in apps().values()]
    end({"type": "loaded", "apps": found})
report({"type": "loaded"})
with open(TASK, "rb") as file:
    given = file.read()
if not given:
    os._exit(1)
result = guarded(lambda: call(json.loads(given)), lambda reason: {"type": "result", "ok": False, "output": None, "reason": reason})
end({"type": "result", "ok": True, "output": result, "reason": None})
