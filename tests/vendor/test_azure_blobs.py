#!/usr/bin/env python3
"""azure-storage-blob, unpatched, drives cloudsim's Blob service: blocks, conditions, lists, shared access signatures.
argv[1] is the emulator's program."""
import base64
import datetime
import os
import unittest

import azure_base  # first: it says when the packages are not there  # noqa: F401
from azure.core import MatchConditions
from azure.core.exceptions import (ClientAuthenticationError, HttpResponseError, ResourceExistsError,
                                   ResourceModifiedError, ResourceNotFoundError)
from azure.storage.blob import (BlobBlock, BlobClient, BlobSasPermissions, BlobServiceClient,
                                ContainerSasPermissions, generate_blob_sas, generate_container_sas)
from azure_base import Base

UTC = datetime.timezone.utc


class Blobs(Base):
    @classmethod
    def prepare(cls):
        cls.service = BlobServiceClient(cls.urls['azure_blob'], credential={
            'account_name': cls.keys['storage_account'], 'account_key': cls.keys['storage_key']}, retry_total=0)
        cls.box = cls.service.create_container('checkpoints')

    def test_blocks_are_staged_resumed_and_committed(self):
        b = self.box.get_blob_client('job 1/epoch-2/ä+b')
        ids = [base64.b64encode(b'%08d' % k).decode() for k in range(3)]
        parts = [os.urandom(70000) for _ in ids]
        for k in (2, 0):
            b.stage_block(ids[k], parts[k])
        with self.assertRaises(HttpResponseError) as got:
            b.commit_block_list([BlobBlock(i) for i in ids])
        self.assertEqual(got.exception.error_code, 'InvalidBlockList')
        self.assertTrue(any('uncommitted blocks checkpoints/job 1' in x for x in self.sim.ctl('GET', '/books')['left']))
        _, staged = b.get_block_list('uncommitted')
        self.assertEqual({x.id: x.size for x in staged}, {ids[2]: 70000, ids[0]: 70000})
        self.assertFalse(b.exists())
        b.stage_block(ids[1], parts[1])
        b.stage_block(base64.b64encode(b'%08d' % 9).decode(), b'left out')
        b.commit_block_list([BlobBlock(i) for i in ids])
        committed, staged = b.get_block_list('all')
        self.assertEqual([x.id for x in committed], ids)
        self.assertEqual(staged, [])
        self.assertEqual(b.download_blob().readall(), b''.join(parts))
        self.assertEqual(b.download_blob(offset=69990, length=30).readall(), b''.join(parts)[69990:70020])
        b.stage_block(ids[0], b'new')
        with self.assertRaises(HttpResponseError) as got:
            b.stage_block(base64.b64encode(b'short').decode(), b'x')
        self.assertEqual(got.exception.error_code, 'InvalidBlobOrBlock')

    def test_conditions(self):
        b = self.box.get_blob_client('latest')
        first = b.upload_blob(b'1')
        with self.assertRaises(ResourceExistsError):
            b.upload_blob(b'2')
        b.upload_blob(b'2', overwrite=True, etag=first['etag'], match_condition=MatchConditions.IfNotModified)
        with self.assertRaises(ResourceModifiedError) as got:
            b.upload_blob(b'3', overwrite=True, etag=first['etag'], match_condition=MatchConditions.IfNotModified)
        self.assertEqual(got.exception.error_code, 'ConditionNotMet')
        self.assertEqual(b.download_blob().readall(), b'2')

    def test_metadata_is_changed_alone_and_listed(self):
        blob = self.box.get_blob_client('meta')
        etag = blob.upload_blob(b'hello', metadata={'epoch': '7'})['etag']
        self.assertNotEqual(blob.set_blob_metadata({'epoch': '8', 'rank': '0'})['etag'], etag)
        self.assertEqual((blob.download_blob().readall(), blob.get_blob_properties().metadata), (b'hello', {'epoch': '8', 'rank': '0'}))
        listed = list(self.box.list_blobs(name_starts_with='meta', include=['metadata']))
        self.assertEqual(listed[0].metadata, {'epoch': '8', 'rank': '0'})
        blob.delete_blob()
        with self.assertRaises(HttpResponseError) as got:
            blob.set_blob_metadata({'a': 'b'})
        self.assertEqual(got.exception.error_code, 'BlobNotFound')

    def test_lists_with_prefixes_and_pages(self):
        for name in ('l/a', 'l/b', 'l/sub/c', 'l/sub/d', 'l/z & <x>'):
            self.box.upload_blob(name, name.encode(), metadata={'kind': 'test'})
        self.assertEqual([x.name for x in self.box.list_blobs(name_starts_with='l/', results_per_page=2)],
                         ['l/a', 'l/b', 'l/sub/c', 'l/sub/d', 'l/z & <x>'])
        self.assertEqual(sorted(x.name for x in self.box.walk_blobs('l/', delimiter='/')),
                         ['l/a', 'l/b', 'l/sub/', 'l/z & <x>'])
        self.assertEqual(self.box.get_blob_client('l/a').get_blob_properties().metadata, {'kind': 'test'})
        self.box.delete_blob('l/a')
        with self.assertRaises(ResourceNotFoundError):
            self.box.download_blob('l/a')

    def sas(self, name, permission, key=None, expiry=600, **more):
        if key is None:
            more['account_key'] = self.keys['storage_key']
        else:
            more['user_delegation_key'] = key
        return generate_blob_sas(self.keys['storage_account'], 'checkpoints', name, permission=permission,
                                 expiry=datetime.datetime.now(UTC) + datetime.timedelta(seconds=expiry), **more)

    def by_sas(self, name, token):
        return BlobClient.from_blob_url('%s/checkpoints/%s?%s' % (self.urls['azure_blob'], name, token), retry_total=0)

    def test_a_service_sas_lets_only_its_permission_pass(self):
        ids = [base64.b64encode(b'%08d' % k).decode() for k in range(2)]
        w = self.by_sas('sas/x', self.sas('sas/x', BlobSasPermissions(create=True, write=True)))
        for i in ids:
            w.stage_block(i, b'data')
        w.commit_block_list([BlobBlock(i) for i in ids])
        with self.assertRaises(HttpResponseError) as got:
            w.download_blob()
        self.assertEqual(got.exception.error_code, 'AuthorizationPermissionMismatch')
        r = self.by_sas('sas/x', self.sas('sas/x', BlobSasPermissions(read=True)))
        self.assertEqual(r.download_blob().readall(), b'datadata')
        other = self.by_sas('sas/y', self.sas('sas/x', BlobSasPermissions(read=True)))
        with self.assertRaises(ClientAuthenticationError) as got:
            other.download_blob()
        self.assertEqual(got.exception.error_code, 'AuthenticationFailed')
        late = self.by_sas('sas/x', self.sas('sas/x', BlobSasPermissions(read=True), expiry=-60))
        with self.assertRaises(ClientAuthenticationError):
            late.download_blob()
        box = generate_container_sas(self.keys['storage_account'], 'checkpoints', account_key=self.keys['storage_key'],
                                     permission=ContainerSasPermissions(read=True, list=True),
                                     expiry=datetime.datetime.now(UTC) + datetime.timedelta(minutes=5))
        self.assertEqual(self.by_sas('sas/x', box).download_blob().readall(), b'datadata')

    def test_a_user_delegation_sas(self):
        service = BlobServiceClient(self.urls['azure_blob_tls'], credential=self.cred, retry_total=0)
        now = datetime.datetime.now(UTC)
        key = service.get_user_delegation_key(now - datetime.timedelta(minutes=5), now + datetime.timedelta(hours=1))
        self.assertEqual(key.signed_tid, self.keys['tenant_id'])
        w = self.by_sas('ud/x', self.sas('ud/x', BlobSasPermissions(create=True, write=True), key=key))
        w.upload_blob(b'by the user')
        self.assertEqual(self.box.download_blob('ud/x').readall(), b'by the user')
        key.value = base64.b64encode(b'x' * 32).decode()
        with self.assertRaises(ClientAuthenticationError):
            self.by_sas('ud/x', self.sas('ud/x', BlobSasPermissions(read=True), key=key)).download_blob()

    def test_a_wrong_account_key_is_refused(self):
        wrong = BlobServiceClient(self.urls['azure_blob'], retry_total=0, credential={
            'account_name': self.keys['storage_account'], 'account_key': base64.b64encode(b'k' * 64).decode()})
        with self.assertRaises(ClientAuthenticationError) as got:
            wrong.get_container_client('checkpoints').get_container_properties()
        self.assertEqual(got.exception.status_code, 403)

    def test_faults_reach_the_blob_service(self):
        self.sim.ctl('POST', '/fault', {'match': {'service': 'blob', 'action': 'PutBlock'}, 'kind': 'status', 'status': 503,
                                        'code': 'ServerBusy'})
        with self.assertRaises(HttpResponseError) as got:
            self.box.get_blob_client('busy').stage_block(base64.b64encode(b'00000001').decode(), b'x')
        self.assertEqual((got.exception.status_code, got.exception.error_code), (503, 'ServerBusy'))


if __name__ == '__main__':
    unittest.main()
