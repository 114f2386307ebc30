"""For scripts that need a world of their own (network, mounts, processes): they start themselves again in new namespaces.

That works for root and for ordinary users; whatever is started there ends with it. Needs `unshare` (util-linux). A kernel
that forbids namespaces fails the test.
"""
import os
import subprocess
import sys

import harness

IN_WORLD = "TANDEM_TEST_IN_WORLD"
ALWAYS = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def enter_world(namespaces):
    """Replaces this process by one in a world of its own. Ends the test with an error when there can be none."""
    errors = []
    for user in ([[]] if os.geteuid() == 0 else []) + [["--user", "--map-root-user"]]:
        unshare = ["unshare", *user, *ALWAYS, *namespaces, "--"]
        try:
            probe = subprocess.run([*unshare, "true"], capture_output=True, text=True, timeout=harness.PATIENCE_S)
        except OSError as error:
            errors.append(str(error))
            continue
        if probe.returncode == 0:
            os.execvpe("unshare", [*unshare, sys.executable, "-B", *sys.argv], {**os.environ, IN_WORLD: "1"})
        errors.append(f"{' '.join(unshare)} true\n    {probe.stderr.strip()}")
    sys.exit("FAILED: the test needs namespaces, and this system does not let us have any:\n  " +
             "\n  ".join(errors) +
             "\nRun as root, or allow them: sysctl kernel.unprivileged_userns_clone=1, "
             "kernel.apparmor_restrict_unprivileged_userns=0, user.max_user_namespaces > 0; "
             "in a container, --cap-add SYS_ADMIN --cap-add NET_ADMIN.")


def main(namespaces=()):
    """harness.main() in a world with these namespaces (options of unshare) besides mounts and processes."""
    if len(sys.argv) > 1 and IN_WORLD not in os.environ:
        enter_world(namespaces)
    harness.main()
