"""A server of Azurite, a third party's Blob service."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..'))
from support.wait import answers, until  # noqa: E402
from world import Failure, free_port  # noqa: E402

# Azurite's published account and key (its README): every installation has them.
ACCOUNT = 'devstoreaccount1'
KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsu' + 'Fq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='


def install(build):
    """Returns the path of the program; ends the test as skipped where Azurite cannot be had."""
    installed = subprocess.run([os.path.join(HERE, 'install'), build], stdout=subprocess.PIPE, text=True)
    if installed.returncode:
        sys.exit(installed.returncode)
    return installed.stdout.strip()


class Azurite:
    def __init__(self, program):
        self.port, self.dir = free_port(), tempfile.TemporaryDirectory()
        self.url = 'http://127.0.0.1:%d/%s' % (self.port, ACCOUNT)
        self.proc = subprocess.Popen(['node', program, '--blobPort', str(self.port), '--inMemoryPersistence', '--skipApiVersionCheck',
                                      '--silent', '--disableTelemetry'], cwd=self.dir.name, stdin=subprocess.DEVNULL)

        def look():
            if self.proc.poll() is not None:
                raise Failure('Azurite ended')
            return answers(self.port)
        try:
            until('Azurite answers', 60, look)
        except BaseException:
            self.stop()
            raise

    def stop(self):
        self.proc.terminate()
        self.proc.wait()
        self.dir.cleanup()
