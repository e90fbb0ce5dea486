#!/usr/bin/env python3
"""part.py LIBRARY OUTPUT PREFIX [SYMBOL...]: all objects of a static library as one object.

Every definition in it is weak, so that the simulation's own (the seams) win at the final link. The named symbols have a
prefix: two parts of the product that never meet in one program may use one name."""
import subprocess
import sys

library, output, prefix, *names = sys.argv[1:]
subprocess.run(["ld", "-r", "-o", output + ".tmp", "--whole-archive", library], check=True)
subprocess.run(["objcopy", "--weaken", *("--redefine-sym=%s=%s%s" % (n, prefix, n) for n in names), output + ".tmp", output], check=True)
