#!/usr/bin/env python3
"""A third party judges the emulated Blob storage. The same steps through azure-storage-blob against Azurite and against
cloudsim must end the same. argv: build directory, cloudsim's program. Exit 77: Azurite cannot be had."""
import base64
import datetime
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', '..', 'cloudsim'), os.path.join(HERE, '..', '..', '..', 'deploy', 'story')]
try:
    from azure.core import MatchConditions
    from azure.core.exceptions import HttpResponseError
    from azure.storage.blob import BlobBlock, BlobClient, BlobSasPermissions, BlobServiceClient, generate_blob_sas
except ImportError as e:
    print('no Azure SDK (%s): skipped' % e)
    sys.exit(77)
from cloudsim_proc import Cloudsim  # noqa: E402
from world import free_port  # noqa: E402

BUILD, PROGRAM = sys.argv[1:3]
del sys.argv[1:3]
installed = subprocess.run([os.path.join(HERE, 'install'), BUILD], stdout=subprocess.PIPE, text=True)
if installed.returncode:
    sys.exit(installed.returncode)
AZURITE = installed.stdout.strip()
# Azurite's published account and key (its README): every installation has them.
ACCOUNT = 'devstoreaccount1'
KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsu' + 'Fq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='


# The service itself says that the signature did not match (REST reference, "Create a service SAS"); Azurite has a code of
# its own for it.
DIFFERENT = {'sas of another blob': ((403, 'AuthenticationFailed'), (403, 'AuthorizationFailure'))}


def identity(k, width=8):
    return base64.b64encode(b'%0*d' % (width, k)).decode()


class Steps:
    """Each step's outcome: a value, or the error's status and code."""

    def __init__(self, url, account, key):
        self.account, self.key, self.url = account, key, url
        self.service = BlobServiceClient(url, credential={'account_name': account, 'account_key': key}, retry_total=0,
                                         api_version='2023-11-03')
        self.seen = []

    def step(self, name, call, *args, **kw):
        try:
            got = call(*args, **kw)
        except HttpResponseError as e:
            got = (e.status_code, str(getattr(e.error_code, 'value', e.error_code)))
        self.seen.append((name, got if isinstance(got, (tuple, list, bytes, str, int, bool)) else None))

    def by_sas(self, name, **permission):
        token = generate_blob_sas(self.account, 'judge', name, account_key=self.key, permission=BlobSasPermissions(**permission),
                                  expiry=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=5))
        return BlobClient.from_blob_url('%s/judge/%s?%s' % (self.url, name, token), retry_total=0, api_version='2023-11-03')

    def blocks(self, b):
        self.step('list of nothing', b.get_block_list, 'uncommitted')
        for k in (2, 0):
            self.step('stage %d' % k, b.stage_block, identity(k), b'%d' % k * 1000)
        self.step('staged', lambda: sorted((x.id, x.size) for x in b.get_block_list('uncommitted')[1]))
        self.step('commit with a gap', b.commit_block_list, [BlobBlock(identity(k)) for k in range(3)])
        self.step('read uncommitted', lambda: b.download_blob().readall())
        self.step('stage 1', b.stage_block, identity(1), b'1' * 1000)
        self.step('stage 9', b.stage_block, identity(9), b'9' * 10)
        self.step('commit', b.commit_block_list, [BlobBlock(identity(k)) for k in range(3)])
        self.step('lists after', lambda: [[x.id for x in part] for part in b.get_block_list('all')])
        self.step('read', lambda: b.download_blob().readall())
        self.step('range', lambda: b.download_blob(offset=990, length=20).readall())
        self.step('range past the end', lambda: b.download_blob(offset=5000, length=20).readall())
        self.step('id of another length', b.stage_block, identity(1, 3), b'x')
        self.step('an empty block of another length', b.stage_block, identity(1), b'')

    def conditions(self, b):
        self.step('put', b.upload_blob, b'1')
        etag = b.get_blob_properties().etag
        self.step('put again', b.upload_blob, b'2')
        self.step('put if same', b.upload_blob, b'2', overwrite=True, etag=etag, match_condition=MatchConditions.IfNotModified)
        self.step('put if same, late', b.upload_blob, b'3', overwrite=True, etag=etag,
                  match_condition=MatchConditions.IfNotModified)
        self.step('content', lambda: b.download_blob().readall())
        self.step('commit only if new', b.commit_block_list, [], if_none_match='*')

    def run(self):
        box = self.service.get_container_client('judge')
        self.step('create', box.create_container)
        self.step('create again', box.create_container)
        self.blocks(box.get_blob_client('a/b c'))
        self.conditions(box.get_blob_client('latest'))
        w = self.by_sas('sas', create=True, write=True)
        self.step('sas stage', w.stage_block, identity(0), b'data')
        self.step('sas commit', w.commit_block_list, [BlobBlock(identity(0))])
        self.step('sas read without the right', lambda: w.download_blob().readall())
        self.step('sas read', lambda: self.by_sas('sas', read=True).download_blob().readall())
        self.step('sas of another blob', lambda: BlobClient.from_blob_url(
            self.by_sas('sas', read=True).url.replace('/sas?', '/latest?'), retry_total=0).download_blob().readall())
        self.step('list', lambda: [x.name for x in box.list_blobs()])
        self.step('list by prefix', lambda: sorted(x.name for x in box.walk_blobs(delimiter='/')))
        self.step('delete', box.delete_blob, 'sas')
        self.step('delete again', box.delete_blob, 'sas')
        self.step('no such container', self.service.get_container_client('nothing').get_container_properties)
        return self.seen


class Judge(unittest.TestCase):
    def azurite(self, port):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        proc = subprocess.Popen(['node', AZURITE, '--blobPort', str(port), '--inMemoryPersistence', '--skipApiVersionCheck',
                                 '--silent', '--disableTelemetry'], cwd=tmp.name, stdin=subprocess.DEVNULL)
        self.addCleanup(proc.wait)
        self.addCleanup(proc.terminate)
        end = time.monotonic() + 60
        while True:
            with socket.socket() as s:
                if s.connect_ex(('127.0.0.1', port)) == 0:
                    return
            self.assertIsNone(proc.poll(), 'Azurite ended')
            self.assertLess(time.monotonic(), end, 'Azurite does not answer')
            select.select([], [], [], 0.05)

    def test_the_same_steps_end_the_same(self):
        port = free_port()
        self.azurite(port)
        sim = Cloudsim(PROGRAM, '--seed', '5', '--no-throttle')
        self.addCleanup(sim.stop)
        keys = sim.info['credentials']['azure']
        ours = Steps(sim.info['urls']['azure_blob'], keys['storage_account'], keys['storage_key']).run()
        theirs = Steps('http://127.0.0.1:%d/%s' % (port, ACCOUNT), ACCOUNT, KEY).run()
        self.maxDiff = None
        self.assertEqual([x[0] for x in ours], [x[0] for x in theirs])
        different = [(x[0], 'ours', x[1], 'theirs', y[1]) for x, y in zip(ours, theirs)
                     if x != y and DIFFERENT.get(x[0]) != (x[1], y[1])]
        self.assertEqual(different, [])


if __name__ == '__main__':
    unittest.main()
