import socket
import sys
import urllib.request

families = {"4": socket.AF_INET, "6": socket.AF_INET6}
resolve = socket.getaddrinfo

for family, url in zip(sys.argv[1::2], sys.argv[2::2]):
    socket.getaddrinfo = lambda host, port, _family=0, *rest, f=families[family]: resolve(host, port, f, *rest)
    try:
        text = urllib.request.urlopen(url, timeout=60).read().decode().strip()
    except OSError:
        text = "failed"
    print(family, url, text, flush=True)
