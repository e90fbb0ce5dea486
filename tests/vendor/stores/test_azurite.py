#!/usr/bin/env python3
"""Azurite, a third party's Blob service, judges our SAS addresses and the agent's upload by blocks.
argv: build directory, store_client. Exit 77: Azurite cannot be had."""
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', '..', '..', 'deploy', 'story')]
try:
    from azure.storage.blob import BlobServiceClient
except ImportError as e:
    print('no Azure SDK (%s): skipped' % e)
    sys.exit(77)
from stores import Client, http  # noqa: E402
from world import free_port  # noqa: E402

BUILD, CLIENT = sys.argv[1:3]
del sys.argv[1:3]
installed = subprocess.run([os.path.join(HERE, '..', 'azurite', 'install'), BUILD], stdout=subprocess.PIPE, text=True)
if installed.returncode:
    sys.exit(installed.returncode)
# Azurite's published account and key (its README): every installation has them.
ACCOUNT = 'devstoreaccount1'
KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsu' + 'Fq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='
ID = '00000000-0000-0000-0000-000000000000'
NAME = 'j1/a b+c/chunk'


class Azurite(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        port = free_port()
        cls.tmp = tempfile.TemporaryDirectory()
        cls.proc = subprocess.Popen(['node', installed.stdout.strip(), '--blobPort', str(port), '--inMemoryPersistence',
                                     '--skipApiVersionCheck', '--silent', '--disableTelemetry'], cwd=cls.tmp.name,
                                    stdin=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while True:
            with socket.socket() as s:
                if s.connect_ex(('127.0.0.1', port)) == 0:
                    break
            if cls.proc.poll() is not None or time.monotonic() > end:
                raise RuntimeError('Azurite does not answer')
            select.select([], [], [], 0.05)
        cls.url = 'http://127.0.0.1:%d/%s' % (port, ACCOUNT)
        service = BlobServiceClient(cls.url, credential={'account_name': ACCOUNT, 'account_key': KEY},
                                    api_version='2023-11-03')
        cls.box = service.create_container('judged')
        cls.client = Client(CLIENT, {'AZURE_STORAGE_KEY': KEY, 'AZURE_CLIENT_SECRET': 'unused'})

    @classmethod
    def tearDownClass(cls):
        cls.proc.terminate()
        cls.proc.wait()
        cls.tmp.cleanup()

    def presign(self, method, name=NAME, query=''):
        return self.client.presign('azure', method, self.url, 'judged', name, query, 'subscription=' + ID, 'tenant=' + ID,
                                   'client_id=' + ID, 'storage_account=' + ACCOUNT)

    def test_a_plain_put_there_and_back_and_away(self):
        url, how, headers = self.presign('PUT')
        self.assertEqual(how, 'blocks')
        status, text = http('PUT', url, b'hello', headers)
        self.assertEqual(status, 201, text)
        self.assertEqual(http('GET', self.presign('GET')[0]), (200, b'hello'))
        self.assertEqual(http('DELETE', self.presign('DELETE')[0])[0], 202)
        self.assertEqual(http('GET', self.presign('GET')[0])[0], 404)

    def test_the_agent_uploads_by_blocks(self):
        url, how, _ = self.presign('PUT', 'blocks/chunk')
        self.assertTrue(self.client.upload(how, url))
        blob = self.box.get_blob_client('blocks/chunk')
        self.assertEqual(len(blob.get_block_list('committed')[0]), 3)
        self.assertEqual(blob.download_blob().readall(), self.client.bytes)
        self.assertEqual(http('GET', self.presign('GET', 'blocks/chunk')[0])[1], self.client.bytes)
        self.assertTrue(self.client.upload(how, url))  # once more is harmless

    def test_an_upload_goes_on_with_what_is_there(self):
        url, how, _ = self.presign('PUT', 'again/chunk')
        blob = self.box.get_blob_client('again/chunk')
        self.assertTrue(self.client.upload(how, url))
        ids = [b.id for b in blob.get_block_list('committed')[0]]
        blob.delete_blob()
        blob.stage_block(ids[1], self.client.bytes[8 << 20:16 << 20])
        self.assertTrue(self.client.upload(how, url))
        self.assertEqual([b.id for b in blob.get_block_list('committed')[0]], ids)
        self.assertEqual(blob.download_blob().readall(), self.client.bytes)

    def test_unpermitted_calls_are_refused(self):
        url, how, headers = self.presign('PUT', 'mine')
        self.assertEqual(http('PUT', url.replace('/mine?', '/other?'), b'x', headers)[0], 403)
        self.assertEqual(http('PUT', url.replace('sig=', 'sig=A'), b'x', headers)[0], 403)
        self.assertEqual(http('DELETE', self.presign('GET', 'mine')[0])[0], 403)
        self.assertEqual(http('PUT', self.presign('GET', 'mine')[0], b'x', headers)[0], 403)
        self.assertFalse(self.client.upload(how, url.replace('/mine?', '/other?')))


if __name__ == '__main__':
    unittest.main()
