import json
import os
import sys

import probe_part


def send(**m):
    print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)


def main():
    for line in sys.stdin:
        m = json.loads(line)
        ident = m.get("id")
        if ident is None:
            continue
        if m["method"] == "initialize":
            send(id=ident, result={"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "probe", "version": "1"}})
        elif m["method"] == "tools/list":
            send(id=ident, result={"tools": [{"name": "where", "description": "where", "inputSchema": {"type": "object"}}]})
        elif m["method"] == "tools/call":
            send(id=ident, result={"content": [{"type": "text", "text": __file__ + " " + probe_part.NAME + " " + " ".join(sys.argv[1:]) + " " + os.environ.get("PROBE_TOKEN", "")}]})
        else:
            send(id=ident, error={"code": -32601, "message": "no such method"})
