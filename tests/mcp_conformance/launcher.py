"""Hands one scenario to the tests' own process, which has loaded the SDK once, and waits until it is over."""

import json
import os
import socket
import sys

told = {name: os.environ.get(f"MCP_CONFORMANCE_{name}", "") for name in ("SCENARIO", "CONTEXT", "PROTOCOL_VERSION")}
with socket.socket(socket.AF_UNIX) as way:
    way.connect(sys.argv[1])
    way.sendall(json.dumps({**told, "url": sys.argv[-1]}).encode() + b"\n")
    said = b""
    while piece := way.recv(65_536):
        said += piece
sys.stderr.buffer.write(said)
