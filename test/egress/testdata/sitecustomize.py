# Python and pip have no option for the family of addresses: $FAMILY is all that a
# name has.
import os
import socket

families = {"4": socket.AF_INET, "6": socket.AF_INET6}
if family := families.get(os.environ.get("FAMILY")):
    resolve = socket.getaddrinfo
    socket.getaddrinfo = lambda host, port, _family=0, *rest, **more: resolve(host, port, family, *rest, **more)
