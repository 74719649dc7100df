"""An MCP server on standard input and output that does what its argument says; started as a program, without the SDK.

`{"tools": [...], "era": "legacy" | "modern", "init": "hang" | "crash", "noise": true, "close": "slow", "next": [...],
"results": {"NAME": RESULT}, "refuse": ["NAME"]}`
"""

import json
import os
import sys
import time
from typing import Any

Json = dict[str, Any]

PLAN: Json = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
LISTED = 0
MODERN = PLAN.get("era") == "modern"
COMPLETE = {"resultType": "complete"} if MODERN else {}
CACHED = {**COMPLETE, "ttlMs": 0, "cacheScope": "private"} if MODERN else {}


def tool(name: str, description: str = "Does something.", properties: Json | None = None) -> Json:
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties or {"text": {"type": "string"}}},
    }


def say(message: Json) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(request: Json, result: Any) -> None:
    say({"jsonrpc": "2.0", "id": request["id"], "result": result})


def refuse(request: Json, code: int, message: str) -> None:
    say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})


def listed() -> list[Json]:
    global LISTED
    LISTED += 1
    names = PLAN.get("tools", ["echo", "crash", "big", "hang", "env", "write", "there", "link", "image", "fail"])
    later = PLAN.get("next")
    if later is not None and LISTED > 1:
        names = later
    return [tool(one) if isinstance(one, str) else one for one in names]


def call(request: Json) -> None:
    name, arguments = request["params"]["name"], request["params"].get("arguments") or {}
    if name == "crash":
        sys.stderr.write("it fell over\n")
        sys.stderr.flush()
        os._exit(3)
    if name in PLAN.get("refuse", ()):
        refuse(request, -32000, "not today")
        return
    if name == "hang":
        time.sleep(3600)
    if name == "big":
        sys.stdout.write('{"jsonrpc": "2.0", "id": ' + str(request["id"]) + ', "result": "')
        for _ in range(50):
            sys.stdout.write("x" * 1_000_000)
        sys.stdout.write('"}\n')
        sys.stdout.flush()
        return
    text = {"echo": arguments.get("text", ""), "env": json.dumps(dict(os.environ))}.get(name, f"did {name}")
    if name == "echo" and text == "tell":
        say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    if name == "there":
        text = "\n".join(f"{arguments['path']}/{one}" for one in os.listdir(arguments["path"]))
    if name == "write":
        try:
            with open("/workspace/x", "w") as file:
                file.write("x")
            text = "written"
        except OSError as error:
            text = f"not written: {error.strerror}"
    content = [{"type": "text", "text": text}]
    if name == "link":
        content = [{"type": "resource_link", "uri": "file:///etc/passwd", "name": "x"}]
    if name == "image":
        content = [{"type": "image", "data": arguments["data"], "mimeType": "image/png"}]
    result: Json = {"content": content, "isError": name == "fail"}
    if name == "structured":
        result["structuredContent"] = {"sum": 8}
    answer(request, PLAN.get("results", {}).get(name, result | COMPLETE))


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if "id" not in request:
            continue
        if PLAN.get("noise"):
            sys.stdout.write("Server is ready!\n{not json\n")
            sys.stdout.flush()
        if method in ("initialize", "server/discover") and PLAN.get("init") == "hang":
            time.sleep(3600)
        if method in ("initialize", "server/discover") and PLAN.get("init") == "crash":
            sys.stderr.write(PLAN.get("says", "no configuration\n"))
            sys.stderr.flush()
            os._exit(2)
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            info = {"name": "fake", "version": "1"}
            answer(request, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "server/discover" and MODERN:
            shown = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            answer(request, {**shown, **CACHED})
        elif method == "tools/list":
            answer(request, {"tools": listed(), **CACHED})
        elif method == "tools/call":
            call(request)
        else:
            refuse(request, -32601, "Method not found")


main()
if PLAN.get("close") == "slow":
    time.sleep(3600)
