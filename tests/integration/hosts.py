"""Hosts as network namespaces of their own, joined by a bridge. For scripts that run in a world of their own (world.py).

Needs `unshare` and `nsenter` (util-linux) and `ip` and `tc` (iproute2).
"""
import subprocess
import sys

from harness import PATIENCE_S

NAMESPACES = ["--net", "--uts"]

# A host keeps its namespaces as long as this process lives.
HOST = """\
import signal, socket, sys
socket.sethostname(sys.argv[1])
print("ready", flush=True)
signal.pause()
"""


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, timeout=PATIENCE_S)


class Host:
    """A host of the world; its address is 192.168.77.(number + 1), which is larger than those of the loopback."""

    def __init__(self, number):
        self.link = f"link{number}"  # The bridge's end of its cable.
        self.address = f"192.168.77.{number + 1}"
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--", sys.executable, "-c", HOST, f"host-{number}"],
            stdout=subprocess.PIPE, text=True)

    def connect(self):
        if self.holder.stdout.readline() != "ready\n":
            raise AssertionError(f"{self.link}: its host did not start")
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.holder.pid)
        ip("link", "set", self.link, "master", "bridge0", "up")
        for words in (["link", "set", "lo", "up"], ["address", "add", f"{self.address}/24", "dev", "eth0"],
                      ["link", "set", "eth0", "up"]):
            subprocess.run([*self.inside(), "ip", *words], check=True, timeout=PATIENCE_S)

    def inside(self):
        """What to put before a command to run it there. It becomes that command: the pid stays."""
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--uts", "--"]

    def shape(self, *discipline):
        """Both directions of its cable. Returns whether the kernel knows how."""
        commands = [[*prefix, "tc", "qdisc", "replace", "dev", device, "root", *discipline]
                    for prefix, device in (([], self.link), (self.inside(), "eth0"))]
        return all(subprocess.run(command, stderr=subprocess.DEVNULL, timeout=PATIENCE_S).returncode == 0
                   for command in commands)

    def cut(self):
        """Takes the cable out of the bridge: packets vanish, and neither side is told."""
        ip("link", "set", self.link, "nomaster")

    def remove(self):
        self.holder.kill()
        self.holder.wait(timeout=PATIENCE_S)
        self.holder.stdout.close()
        subprocess.run(["ip", "link", "delete", self.link], stderr=subprocess.DEVNULL, timeout=PATIENCE_S)


def make_bridge(test):
    ip("link", "set", "lo", "up")
    ip("link", "add", "bridge0", "type", "bridge", "forward_delay", "0", "stp_state", "0")
    test.addCleanup(ip, "link", "delete", "bridge0")
    ip("link", "set", "bridge0", "up")


def make_hosts(test, count):
    hosts = [Host(number) for number in range(count)]
    for host in hosts:
        test.addCleanup(host.remove)
    for host in hosts:
        host.connect()
    return hosts
