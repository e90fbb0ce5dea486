#!/usr/bin/env python3
"""gcp-storage-emulator, a third party's Cloud Storage, judges the agent's resumable upload: session, pieces, 308 with
Range, status query, end. It looks at no signature, so it does not judge the V4 signed addresses. Google's published
vectors and its own library do that (tests/unit/providers/gcp, test_gcp_services.py). argv: store_client."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from gcp_storage_emulator.server import create_server  # noqa: E402
from stores import Client, http  # noqa: E402

CLIENT = sys.argv.pop(1)


class Gcs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = create_server('127.0.0.1', 0, in_memory=True, default_bucket='judged')
        cls.server.start()
        cls.url = 'http://127.0.0.1:%d' % cls.server._api._httpd.server_port
        cls.client = Client(CLIENT)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def begin(self, name):
        return '%s/upload/storage/v1/b/judged/o?uploadType=resumable&name=%s' % (self.url, name)

    def content(self, name):
        return http('GET', '%s/download/storage/v1/b/judged/o/%s?alt=media' % (self.url, name))

    def test_the_agent_uploads_in_pieces(self):
        self.assertTrue(self.client.upload('resumable', self.begin('chunk')))
        self.assertEqual(self.content('chunk'), (200, self.client.bytes))

    def test_a_small_one_goes_in_one_piece(self):
        small = self.client.file + '-small'
        with open(small, 'wb') as f:
            f.write(b'hello')
        self.assertTrue(self.client.upload('resumable', self.begin('small'), file=small))
        self.assertEqual(self.content('small'), (200, b'hello'))

    def test_a_bucket_that_is_none_is_refused(self):
        self.assertFalse(self.client.upload('resumable', self.begin('chunk').replace('/judged/', '/nobody/')))


if __name__ == '__main__':
    unittest.main()
